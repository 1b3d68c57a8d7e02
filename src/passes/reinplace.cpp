#include "passes/reinplace.h"

#include "ir/builder.h"
#include "ops/traits.h"
#include "passes/memory_groups.h"
#include "passes/write_through.h"

namespace fulgurite::passes {

using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::TracePtr;
using ir::ValueId;

MemoryUse::MemoryUse(const Trace& t)
    : groups(t), last_read(t.values.size(), 0), untouchable(t.values.size(), false) {
  for (size_t i = 0; i < t.binds.size(); ++i)
    for_each_arg(t.binds[i], [&](ValueId id) { last_read[groups.find(id)] = i + 1; });
  // Outputs, saved values and the epilogue read at the end.
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
}

bool MemoryUse::dies_in(const Trace& t, size_t i, ValueId id) {
  const ValueId group = groups.find(id);
  if (untouchable[group] || last_read[group] != i + 1) return false;
  size_t uses = 0;
  for_each_arg(t.binds[i], [&](ValueId a) { uses += groups.find(a) == group ? 1 : 0; });
  return uses == 1;
}

namespace {

// Which values are a part of the memory that they are in (select, slice, ...), or others than it
// holds (conj).
std::vector<bool> parts_of_memory(const Trace& t) {
  std::vector<bool> part(t.values.size(), false);
  for (const Bind& b : t.binds) {
    if (!ops::is_view(b.op) && ops::returns_fresh_memory(b.op)) {
      if (!ops::keeps_offset(b.op)) continue;
      const auto self = std::get<ValueId>(b.args[0]);
      const bool anywhere = t.value(self).kind != ir::ValueKind::Result || part[self];
      for_each_result(b, [&](ValueId r) { part[r] = anywhere; });
      continue;
    }
    for_each_arg(b, [&](ValueId a) {
      if (!t.value(a).is_tensor()) return;
      for_each_result(b, [&](ValueId r) {
        if (t.value(r).is_tensor() && t.value(r).tensor().numel() != t.value(a).tensor().numel())
          part[r] = true;
        part[r] = part[r] || part[a] || ops::inverse_of_value_view(b.op) != nullptr;
      });
    });
  }
  return part;
}

}  // namespace

TracePtr reinplace(const TracePtr& trace) {
  const TracePtr written = write_through(trace);
  const Trace& t = *written;
  MemoryUse use(t);
  std::vector<bool> part = parts_of_memory(t);
  std::vector<std::optional<Bind>> changed(t.binds.size());
  bool any = false;
  for (size_t i = 0; i < t.epilogue; ++i) {
    const Bind& b = t.binds[i];
    if (b.results.size() != 1 || !std::holds_alternative<ValueId>(b.results[0]) || b.args.empty())
      continue;
    const auto* target = std::get_if<ValueId>(&b.args[0]);
    const auto result = std::get<ValueId>(b.results[0]);
    if (target == nullptr || *target == kNoValue || result == kNoValue) continue;
    if (!same_layout(t.value(*target), t.value(result)) ||
        !has_own_elements(t.value(result).tensor()))
      continue;
    if (!use.dies_in(t, i, *target)) continue;
    const auto in_place = ops::in_place_variant(b.op);
    if (!in_place) continue;
    // Whoever keeps the result would keep all of that memory, and see its offset.
    if (part[*target] && use.untouchable[use.groups.find(result)]) continue;
    part[result] = part[result] || part[*target];
    Bind copy = b;
    copy.op = *in_place;
    changed[i] = std::move(copy);
    any = true;
    // The result lives in the same memory from now on.
    use.untouchable[use.groups.find(*target)] = true;
  }
  if (!any) return written;
  ir::TraceBuilder b(t, "reinplace");
  for (size_t i = 0; i < t.binds.size(); ++i) {
    if (i == t.epilogue) b.begin_epilogue();
    b.add_bind(changed[i] ? *changed[i] : t.binds[i]);
  }
  if (t.epilogue == t.binds.size()) b.begin_epilogue();
  return b.finish();
}

}  // namespace fulgurite::passes
