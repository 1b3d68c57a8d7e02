#include "ops/shared_memory.h"

#include <numeric>

#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::ops {

using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::ValueId;

MemoryGroups::MemoryGroups(const Trace& t, size_t end) : parent_(t.values.size()) {
  std::iota(parent_.begin(), parent_.end(), 0);
  for (size_t i = 0; i < end; ++i) join(t.binds[i]);
}

ValueId MemoryGroups::find(ValueId id) {
  while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
  return id;
}

void MemoryGroups::join(const Bind& b) {
  if (b.results.empty() || returns_fresh_memory(b.op)) return;
  const bool by_schema = b.op.ns() == "aten" && !shares_memory_secretly(b.op);
  ValueId first = kNoValue;
  auto same = [&](ValueId id) {
    if (first == kNoValue) first = id;
    parent_[find(id)] = find(first);
  };
  const auto& arguments = b.op.schema().arguments();
  for (size_t a = 0; a < b.args.size(); ++a)
    if (!by_schema || arguments[a].alias_info() != nullptr) ir::for_each_value(b.args[a], same);
  const auto& returns = b.op.schema().returns();
  for (size_t r = 0; r < b.results.size(); ++r)
    if (!by_schema || returns[r].alias_info() != nullptr) ir::for_each_value(b.results[r], same);
}

namespace {

// The argument on whose memory result `r` is: with several, as of operators with several out=, they
// are in the same order.
const ValueId* argument_of(const Bind& b, size_t r) {
  const auto& schema = b.op.schema();
  if (schema.returns()[r].alias_info() == nullptr) return nullptr;
  size_t before = 0;
  for (size_t k = 0; k < r; ++k) before += schema.returns()[k].alias_info() != nullptr ? 1 : 0;
  const ir::Arg* last = nullptr;
  for (size_t a = 0; a < b.args.size(); ++a) {
    if (schema.arguments()[a].alias_info() == nullptr) continue;
    last = &b.args[a];
    if (before-- == 0) break;
  }
  const auto* id = last != nullptr ? std::get_if<ValueId>(last) : nullptr;
  return id != nullptr && *id != kNoValue ? id : nullptr;
}

}  // namespace

MemoryBases::MemoryBases(const Trace& t)
    : above_(t.values.size(), kNoValue), counts_(t.values.size(), false) {
  for (const Bind& b : t.binds) {
    for (size_t r = 0; r < b.results.size(); ++r) {
      const ValueId* on = argument_of(b, r);
      if (on == nullptr) continue;
      ir::for_each_value(b.results[r], [&](ValueId id) {
        above_[id] = *on;
        counts_[id] = !(b.op == prims::data());
      });
    }
  }
}

ValueId MemoryBases::base(ValueId id) const {
  while (above_[id] != kNoValue) id = above_[id];
  return id;
}

std::vector<ValueId> MemoryBases::counted_bases(ValueId id) const {
  std::vector<ValueId> bases;
  for (; counts_[id]; id = above_[id]) bases.push_back(above_[id]);
  return bases;
}

ValueId MemoryBases::counter(ValueId id) const {
  while (counts_[id]) id = above_[id];
  return id;
}

std::vector<bool> overwritten_inputs(const Trace& t) {
  const MemoryBases bases(t);
  std::vector<bool> overwritten(t.values.size(), false);
  for (const Bind& b : t.binds) {
    if (b.op == prims::set_grad()) continue;  // its memory stays
    for (size_t a : written_arguments(b))
      ir::for_each_value(b.args[a], [&](ValueId written) {
        const ValueId id = bases.base(written);
        for (ValueId input : t.inputs)
          if (input == id ||
              (t.value(id).storage >= 0 && t.value(id).storage == t.value(input).storage))
            overwritten[input] = true;
      });
  }
  return overwritten;
}

}  // namespace fulgurite::ops
