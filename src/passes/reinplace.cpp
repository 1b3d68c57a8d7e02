#include "passes/reinplace.h"

#include <ATen/core/Tensor.h>

#include <numeric>
#include <unordered_map>

#include "ir/builder.h"
#include "ops/cards.h"
#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::passes {
namespace {

using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Trace;
using ir::TracePtr;
using ir::ValueId;
using ir::ValueList;

// Values that may share memory at run time: views with their bases, identities with what they
// return.
class MemoryGroups {
 public:
  explicit MemoryGroups(const Trace& t) : parent_(t.values.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Bind& b : t.binds) {
      const bool may_alias =
          ops::is_view(b.op) || ops::is_mutable(b.op) || !ops::returns_fresh_memory(b.op);
      if (!may_alias) continue;
      ValueId first = kNoValue;
      for_each_arg(b, [&](ValueId id) { first = merge(first, id); });
      for_each_result(b, [&](ValueId id) { first = merge(first, id); });
    }
  }
  ValueId find(ValueId id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }

 private:
  ValueId merge(ValueId a, ValueId b) {
    if (a == kNoValue) return find(b);
    return parent_[find(b)] = find(a);
  }
  std::vector<ValueId> parent_;
};

bool same_layout(const ir::Value& a, const ir::Value& b) {
  if (!a.is_tensor() || !b.is_tensor()) return false;
  const auto& x = a.tensor();
  const auto& y = b.tensor();
  return x.dtype == y.dtype && x.device == y.device && x.sizes == y.sizes && x.strides == y.strides;
}

// Every element has memory of its own.
bool is_dense(const ir::TensorType& t) {
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.strides[d] == 0 && t.sizes[d] > 1) return false;
  return true;
}

}  // namespace

TracePtr reinplace(const TracePtr& trace) {
  const Trace& t = *trace;
  MemoryGroups groups(t);
  // The last bind that reads anything of a group; outputs, saved values and the epilogue read at
  // the end.
  std::vector<size_t> last_read(t.values.size(), 0);
  for (size_t i = 0; i < t.binds.size(); ++i)
    for_each_arg(t.binds[i], [&](ValueId id) { last_read[groups.find(id)] = i + 1; });
  std::vector<bool> untouchable(t.values.size(), false);
  auto protect = [&](ValueId id) {
    if (id != kNoValue) untouchable[groups.find(id)] = true;
  };
  for (ValueId id : t.inputs) protect(id);
  for (ValueId id : t.outputs) protect(id);
  for (ValueId id : t.saved) protect(id);
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant) protect(static_cast<ValueId>(id));
  for (size_t i = t.epilogue; i < t.binds.size(); ++i) for_each_arg(t.binds[i], protect);
  for (const Bind& b : t.binds) {
    if (!ops::keeps_tensors(b.op)) continue;
    for_each_arg(b, protect);
    for_each_result(b, protect);
  }

  std::vector<std::optional<Bind>> changed(t.binds.size());
  bool any = false;
  for (size_t i = 0; i < t.epilogue; ++i) {
    const Bind& b = t.binds[i];
    if (b.results.size() != 1 || !std::holds_alternative<ValueId>(b.results[0]) || b.args.empty())
      continue;
    const auto* target = std::get_if<ValueId>(&b.args[0]);
    const auto result = std::get<ValueId>(b.results[0]);
    if (target == nullptr || *target == kNoValue || result == kNoValue) continue;
    if (!same_layout(t.value(*target), t.value(result)) || !is_dense(t.value(result).tensor()))
      continue;
    const ValueId group = groups.find(*target);
    if (untouchable[group] || last_read[group] != i + 1) continue;
    // No other argument may share the memory.
    size_t uses = 0;
    for_each_arg(b, [&](ValueId id) { uses += groups.find(id) == group ? 1 : 0; });
    if (uses != 1) continue;
    const auto in_place = ops::in_place_variant(b.op);
    if (!in_place) continue;
    Bind copy = b;
    copy.op = *in_place;
    changed[i] = std::move(copy);
    any = true;
    // The result lives in the same memory from now on.
    untouchable[group] = true;
  }
  if (!any) return trace;
  ir::TraceBuilder b(t, "reinplace");
  for (size_t i = 0; i < t.binds.size(); ++i) {
    if (i == t.epilogue) b.begin_epilogue();
    b.add_bind(changed[i] ? *changed[i] : t.binds[i]);
  }
  if (t.epilogue == t.binds.size()) b.begin_epilogue();
  return b.finish();
}

}  // namespace fulgurite::passes
