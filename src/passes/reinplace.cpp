#include "passes/reinplace.h"

#include "ir/builder.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/direct_writes.h"
#include "passes/memory_groups.h"
#include "passes/renaming.h"
#include "passes/transformed.h"
#include "passes/write_through.h"

namespace fulgurite::passes {

using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::TracePtr;
using ir::ValueId;
using ir::ValueList;

namespace {

// Memory is shared by what the body does; the epilogue's write-backs are copies.
Trace only_body(const Body& body) {
  Trace t = *body.trace;
  t.binds.erase(t.binds.begin() + static_cast<std::ptrdiff_t>(body.end), t.binds.end());
  return t;
}

}  // namespace

MemoryUse::MemoryUse(const Body& body)
    : trace(*body.trace),
      groups(only_body(body)),
      last_read(trace.values.size(), 0),
      untouchable(trace.values.size(), false),
      given(trace.values.size(), false),
      awaits(trace.values.size(), false) {
  const Trace& t = trace;
  for (size_t i = 0; i < body.end; ++i)
    for_each_arg(t.binds[i], [&](ValueId id) { last_read[groups.find(id)] = i + 1; });
  // Outputs, saved values and the rest of the epilogue read at the end.
  std::vector<bool> is_given_itself(t.values.size(), false);
  for (ValueId id : body.given) given[groups.find(id)] = is_given_itself[id] = true;
  for (const auto& [result, memory] : body.into) awaits[groups.find(memory)] = true;
  auto protect = [&](ValueId id) {
    if (id != kNoValue) untouchable[groups.find(id)] = true;
  };
  auto protect_old = [&](ValueId id) {
    if (id != kNoValue && !is_given_itself[id]) protect(id);
  };
  for (ValueId id : t.inputs) protect_old(id);
  for (ValueId id : t.outputs) protect_old(id);
  for (ValueId id : t.saved) protect(id);
  for (ValueId id : body.later) protect(id);
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant) protect(static_cast<ValueId>(id));
  for (size_t i = body.end; i < t.binds.size(); ++i) {
    const Bind& b = t.binds[i];
    for_each_arg(b, protect_old);  // the caller's tensors themselves: as they are then
    if (b.op == prims::copy_()) protect(std::get<ValueId>(b.args[0]));
  }
  for (const Bind& b : t.binds) {
    if (!ops::keeps_tensors(b.op)) continue;
    for_each_arg(b, protect);
    for_each_result(b, protect);
  }
}

bool MemoryUse::dies_in(size_t i, ValueId id) {
  const ValueId group = groups.find(id);
  if (untouchable[group] || last_read[group] != i + 1) return false;
  if (given[group] && (i < trace.epilogue || awaits[group])) return false;
  size_t uses = 0;
  for_each_arg(trace.binds[i], [&](ValueId a) { uses += groups.find(a) == group ? 1 : 0; });
  return uses == 1;
}

bool MemoryUse::is_free_from(size_t i, ValueId id) {
  const ValueId group = groups.find(id);
  if (untouchable[group] || last_read[group] > i + 1 || !given[group] || i < trace.epilogue)
    return false;
  bool whole = true;
  for_each_arg(trace.binds[i], [&](ValueId a) {
    if (groups.find(a) == group) whole = whole && a == id && ops::is_pointwise(trace.binds[i].op);
  });
  return whole;
}

namespace {

// Which values are a part of the memory that they are in (select, slice, ...), or others than it
// holds (conj), or views to autograd, under which the epilogue runs.
std::vector<bool> parts_of_memory(const Trace& t) {
  std::vector<bool> part(t.values.size(), false);
  for (size_t i = 0; i < t.binds.size(); ++i) {
    const Bind& b = t.binds[i];
    if (i >= t.epilogue && !ops::is_mutable(b.op) && !ops::returns_fresh_memory(b.op) &&
        !ops::cuts_gradient(b.op))
      for_each_result(b, [&](ValueId r) { part[r] = true; });
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

class Reinplacer {
 public:
  explicit Reinplacer(const Body& body)
      : body_(body),
        t_(*body.trace),
        use_(body),
        part_(parts_of_memory(t_)),
        transformed_(perhaps_transformed(t_, body.end)),
        names_(t_.values.size()),
        numbered_(t_.values.size(), false) {
    for (const auto* ids : {&t_.outputs, &t_.saved, &body.later})
      for (ValueId id : *ids)
        if (id != kNoValue) numbered_[id] = true;
  }

  TracePtr run() {
    std::vector<bool> in_place(t_.binds.size(), false);
    std::vector<ValueId> into(t_.binds.size(), kNoValue);
    bool any = false;
    for (size_t i = 0; i < body_.end; ++i) {
      in_place[i] = overwrites(i);
      if (!in_place[i]) into[i] = computes_into(i);
      any = any || in_place[i] || into[i] != kNoValue;
    }
    if (!any) return body_.trace;
    ir::TraceBuilder b(t_, "reinplace");
    for (size_t i = 0; i < t_.binds.size(); ++i) {
      if (i == t_.epilogue) b.begin_epilogue();
      Bind copy = names_.of_bind(t_.binds[i]);
      if (in_place[i]) {
        copy.op = *ops::in_place_variant(copy.op);
        if (copy.op.schema().returns().empty()) copy.results.clear();
      }
      if (into[i] != kNoValue) {
        copy.op = *ops::out_variant(copy.op);
        copy.args.emplace_back(into[i]);
      }
      b.add_bind(std::move(copy));
    }
    if (t_.epilogue == t_.binds.size()) b.begin_epilogue();
    names_.apply_to_regions(b);
    return b.finish();
  }

 private:
  // Whether bind `i` may write its results into its first argument; they live there from then on.
  bool overwrites(size_t i) {
    const Bind& b = t_.binds[i];
    if (b.results.size() != 1 || b.args.empty()) return false;
    ValueList targets, results;
    ir::for_each_value(b.args[0], [&](ValueId id) { targets.push_back(id); });
    ir::for_each_value(b.results[0], [&](ValueId id) { results.push_back(id); });
    const bool is_list = std::holds_alternative<ValueList>(b.results[0]);
    if (is_list != std::holds_alternative<ValueList>(b.args[0])) return false;
    if (results.empty() || targets.size() != results.size()) return false;
    for (size_t k = 0; k < targets.size(); ++k)
      if (!may_hold(i, targets[k], results[k])) return false;
    const auto in_place = ops::in_place_variant(b.op);
    if (!in_place) return false;
    const bool renamed = in_place->schema().returns().empty();
    for (size_t k = 0; k < targets.size() && renamed; ++k)
      if (numbered_[results[k]] && use_.is_given(targets[k]))
        return false;  // both keep their names
    for (size_t k = 0; k < targets.size(); ++k) {
      part_[results[k]] = part_[results[k]] || part_[targets[k]];
      use_.untouchable[use_.groups.find(targets[k])] = true;
      if (!renamed) continue;
      if (numbered_[results[k]]) {
        names_.rename(targets[k], results[k]);
      } else {
        names_.rename(results[k], targets[k]);
      }
    }
    return true;
  }

  // The caller's tensor that bind `i` may write its result into.
  ValueId computes_into(size_t i) {
    for (const auto& [result, memory] : body_.into) {
      if (t_.binds[i].results.size() != 1 || t_.binds[i].results[0] != ir::Result(result) ||
          !use_.is_free_from(i, memory))
        continue;
      use_.untouchable[use_.groups.find(memory)] = true;
      return memory;
    }
    return kNoValue;
  }

  bool may_hold(size_t i, ValueId target, ValueId result) {
    if (!same_layout(t_.value(target), t_.value(result)) ||
        !has_own_elements(t_.value(result).tensor()) || transformed_[target] ||
        !use_.dies_in(i, target))
      return false;
    // Whoever keeps the result would keep all of that memory, and see its offset.
    return !part_[target] || !use_.untouchable[use_.groups.find(result)];
  }

  const Body& body_;
  const Trace& t_;
  MemoryUse use_;
  std::vector<bool> part_;
  std::vector<bool> transformed_;
  Renaming names_;
  std::vector<bool> numbered_;
};

}  // namespace

TracePtr reinplace(const TracePtr& trace, const std::vector<ValueId>& later) {
  DirectWrites direct(trace, later);
  for (;;) {
    const Body written = write_through(direct.body());
    if (const TracePtr done = direct.settle(Reinplacer(written).run(), written.end)) return done;
  }
}

}  // namespace fulgurite::passes
