#include "passes/functional/epilogue.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_map>

#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/functional/overlap.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Result;
using ir::Value;
using ir::ValueId;
using ir::ValueList;

void Epilogue::write() {
  e_.location = -1;
  e_.region = -1;
  e_.grad_mode = true;
  // Everything that the epilogue needs is computed before it begins: it changes the inputs.
  const std::vector<WriteBack> writes = write_backs();
  for (ValueId id : in_.outputs) outputs_.push_back(id == kNoValue ? -1 : vars_.of(id));
  for (int v : outputs_)
    for (int i = v; i >= 0; i = vars_[i].parent)
      if (vars_[i].leaf_to_be) vars_.read(i);
  find_shared_memory();
  std::vector<ValueId> grads;
  for (const Bind* g : seen_.grads) {
    const Arg grad = vars_.mapped(g->args[1]);
    grads.push_back(std::holds_alternative<ValueId>(grad) ? std::get<ValueId>(grad) : kNoValue);
  }
  make_origins();

  e_.b.begin_epilogue();
  switch_off_before_writes();
  for (const WriteBack& w : writes) {
    const Variable& v = vars_[w.variable];
    e_.grad_mode = v.history_changed;
    ValueId destination = v.input;
    if (v.resized) destination = made_[w.variable] = resize(v);
    if (!v.version_bumped) destination = e_.emit(prims::data(), {Arg(v.input)}, v.facts, false);
    const ValueId after =
        e_.b.add_value(Emitter::typed(v.facts.tensor(), v.facts.tensor().requires_grad));
    e_.b.add_bind(Bind{
        prims::copy_(), {Arg(w.value), Arg(destination)}, {Result(after)}, -1, -1, e_.grad_mode});
  }
  // As the program did after it had used the leaf: what backward saved of it is out of date.
  for (const WriteBack& w : leaf_writes_) {
    const Variable& v = vars_[w.variable];
    const ValueId after = e_.b.add_value(Emitter::typed(v.facts.tensor(), true));
    e_.b.add_bind(
        Bind{prims::copy_(), {Arg(w.value), Arg(v.leaf)}, {Result(after)}, -1, -1, false});
  }
  leave_out_unseen_changes();
  bump_versions();
  change_identities();
  set_grads(grads);
  for (int v : outputs_) e_.b.trace().outputs.push_back(v < 0 ? kNoValue : view_of(v));
}

// requires_grad_(False) of an argument that a write then gave a history: a leaf is not written.
void Epilogue::switch_off_before_writes() {
  std::erase_if(seen_.changes, [&](const IdentityChange& change) {
    const Variable& v = vars_[change.after];
    if (!(change.recorded->op == prims::set_requires_grad()) || !v.is_given() ||
        !v.history_changed || std::get<IValue>(change.recorded->args[1]).toBool())
      return false;
    again_in_place(*change.recorded, change.after, v.input);
    return true;
  });
}

// As the operator did before it wrote.
ValueId Epilogue::resize(const Variable& v) {
  const ir::TensorType& type = v.facts.tensor();
  const ValueId after = e_.b.add_value(Emitter::typed(type, type.requires_grad));
  e_.b.add_bind(Bind{prims::resize_output(),
                     {Arg(v.input), Arg(ints(type.sizes)), Arg(ints(type.strides))},
                     {Result(after)},
                     -1,
                     -1,
                     false});
  return after;
}

std::vector<Epilogue::WriteBack> Epilogue::write_backs() {
  std::vector<WriteBack> writes;
  for (int i = 0; i < vars_.size(); ++i) {
    if (vars_[i].input == kNoValue || vars_[i].is_constant || !vars_.storage(vars_[i]).visible)
      continue;
    // Others on its memory are changed with it.
    if (vars_[i].written_back || !vars_[i].written_directly) continue;
    writes.push_back({i, vars_.read(i)});
  }
  // Views before their base, which then gives them their history.
  std::stable_partition(writes.begin(), writes.end(),
                        [&](const WriteBack& w) { return !vars_[w.variable].is_base; });
  return writes;
}

// Outputs that are views are made by the epilogue, from the tensor that they are views of: so the
// caller gets eager's `_base`, version counter and history.
void Epilogue::make_origins() {
  for (int v : outputs_) {
    if (v < 0) continue;
    const int r = origin(v);
    check_steps(v, r);
    for (int i = v; i != r; i = vars_[i].parent)
      if (vars_[i].cut && e_.requires_grad(vars_.read(i)))
        throw Refusal("FG-162",
                      "a tensor taken out of autograd (.data, detach) got a history by a write, "
                      "and is returned");
    if (made_.count(r) > 0) continue;
    if (vars_[r].leaf != kNoValue && !vars_[r].is_given()) {
      made_.emplace(r, vars_[r].leaf);
      if (vars_[r].written) leaf_writes_.push_back({r, vars_.read(r)});
      continue;
    }
    if (vars_[r].own_history &&
        !vars_[r].is_given()) {  // made with eager's aliasing when the history is attached
      made_.emplace(r, vars_.fresh(r));
      continue;
    }
    if (vars_[r].input != kNoValue && !vars_[r].is_constant) {
      made_.emplace(r, vars_[r].input);
    } else {
      if (vars_.storage(vars_[r]).visible)
        throw Refusal("FG-159", "an output shares memory with inputs that overlap each other");
      made_.emplace(r, vars_.fresh(r));
    }
  }
}

// An output that has hooks has to be the very tensor that the step makes.
void Epilogue::check_steps(int v, int origin) {
  const bool is_view = vars_[origin].parent >= 0 && !vars_[origin].rename && !vars_[origin].cut;
  if (vars_[origin].leaf != kNoValue && is_view && is_view_to_autograd(origin))
    throw Refusal("FG-187", "requires_grad_() was called on a view that outlives the call");
  for (int i = v; i != origin; i = vars_[i].parent) {
    if (vars_[i].hooked == kNoValue || vars_[i].hooked != vars_[i].current ||
        !vars_.is_up_to_date(i))
      continue;
    if (!vars_[i].hooked_as_view)
      throw Refusal("FG-193", "hooks are registered on a view that outlives the call");
    made_.emplace(i, vars_[i].hooked);
  }
}

// Several writes are one write-back; the version counter counts them all.
void Epilogue::bump_versions() {
  for (int i = 0; i < vars_.size(); ++i) {
    if (vars_[i].input == kNoValue || vars_[i].is_constant) continue;
    const Storage& s = vars_.storage(vars_[i]);
    int counted = 0;  // by write-backs
    int last = i;
    bool is_first = true;
    for (int k : s.variables) {
      const Variable& v = vars_[k];
      if (v.input == kNoValue || v.is_constant) continue;
      is_first = is_first && k >= i;
      if (!v.written_back && !(v.written_directly && v.version_bumped)) continue;
      if (!v.separate_version) ++counted;
      last = v.separate_version ? last : k;
    }
    if (!is_first || !s.visible || s.version_bumps <= counted) continue;
    e_.b.add_bind(Bind{prims::bump_version_(),
                       {Arg(vars_[last].input), Arg(IValue(s.version_bumps - counted))},
                       {},
                       -1,
                       -1,
                       false});
  }
}

void Epilogue::set_grads(const std::vector<ValueId>& grads) {
  for (size_t k = 0; k < seen_.grads.size(); ++k) {
    const auto leaf = std::get<ValueId>(seen_.grads[k]->args[0]);
    const int v = vars_.of(leaf);
    const bool escapes = std::find(outputs_.begin(), outputs_.end(), v) != outputs_.end();
    if (!vars_[v].is_given() && !escapes)
      throw Refusal("FG-122", "the .grad of a tensor that is no argument or parameter was set");
    const ValueId tensor = vars_[v].is_given() ? vars_[v].input : view_of(v);
    e_.b.add_bind(Bind{prims::set_grad(),
                       {Arg(tensor), grads[k] == kNoValue ? Arg(IValue()) : Arg(grads[k])},
                       {},
                       -1,
                       -1,
                       false});
  }
}

// The version counter of a tensor moved: it has that of an input, unless there is a .data between.
void Epilogue::count_for(int v) {
  while (v >= 0 && !vars_[v].is_given() && !vars_[v].separate_version) v = vars_[v].parent;
  if (v < 0 || !vars_[v].is_given()) return;
  if (!vars_[v].separate_version) {
    ++vars_.storage(vars_[v]).version_bumps;
    return;
  }
  e_.b.add_bind(Bind{
      prims::bump_version_(), {Arg(vars_[v].input), Arg(IValue(int64_t{1}))}, {}, -1, -1, false});
}

// A view of what the caller has, which was changed and is not returned: to do that again would make
// the view again, of a base that may have another geometry by now. Its version counter moved, which
// the base shares.
void Epilogue::leave_out_unseen_changes() {
  auto is_unseen = [&](const IdentityChange& change) {
    if (vars_[change.after].facts.tensor().requires_grad)
      return false;  // its base has a history of it
    int object = change.before;
    while (vars_[object].change != nullptr) object = vars_[object].parent;
    if (vars_[object].is_given()) return false;
    return std::none_of(outputs_.begin(), outputs_.end(),
                        [&](int v) { return v >= 0 && vars_.is_within(v, change.after); });
  };
  std::vector<IdentityChange> seen;
  for (const IdentityChange& change : seen_.changes) {
    if (!is_unseen(change)) {
      seen.push_back(change);
      continue;
    }
    const bool counts = change.before != change.after &&
                        !ops::cuts_gradient(*ops::view_variant(change.recorded->op));
    if (counts) count_for(change.before);
  }
  seen_.changes = std::move(seen);
}

// t_, squeeze_, detach_, requires_grad_, ... on what the caller can see are done again, in order.
void Epilogue::change_identities() {
  for (size_t k = 0; k < seen_.changes.size(); ++k) {
    const IdentityChange& change = seen_.changes[k];
    if (is_done_by_leaf(k)) continue;
    make_views_taken_before(change);
    if (!is_seen(change.before)) continue;
    check_written_beside(change);
    made_[change.after] = again_in_place(*change.recorded, change.after, view_of(change.before));
  }
}

// An argument beside one that the write-back has given a history by now: its own, of their base, is
// new.
void Epilogue::check_written_beside(const IdentityChange& change) {
  int object = change.before;
  while (vars_[object].change != nullptr) object = vars_[object].parent;
  if (!vars_[object].is_given() || change.before == change.after) return;
  for (int i : vars_.storage(vars_[object]).variables)
    if (i != object && vars_[i].is_given() && vars_[i].history_changed)
      throw Refusal("FG-154", change.recorded->op.id() +
                                  " of an argument that shares memory with " + vars_[i].facts.name +
                                  ", which gets a history");
}

// On memory of an input, or of an output.
bool Epilogue::is_seen(int v) {
  const int r = origin(v);
  if (made_.count(r) > 0) return true;
  if (!vars_[r].is_given()) return false;
  made_.emplace(r, vars_[r].input);
  return true;
}

// The tensor is made a leaf by a step of the history, after what came before.
bool Epilogue::is_done_by_leaf(size_t change) const {
  const int v = seen_.changes[change].before;
  if (vars_[v].leaf == kNoValue) return false;
  for (size_t k = change; k < seen_.changes.size(); ++k) {
    const IdentityChange& later = seen_.changes[k];
    if (later.before == v && later.recorded->op == prims::set_requires_grad() &&
        std::get<IValue>(later.recorded->args[1]).toBool())
      return true;
  }
  return false;
}

// Changes the tensor `before` in place, as the program did; it is variable `after` then.
ValueId Epilogue::again_in_place(const Bind& recorded, int after, ValueId before) {
  Bind again = recorded;
  again.args[0] = Arg(before);
  again.region = -1;
  again.grad_mode = again.grad_mode || again.op == prims::set_requires_grad();
  ir::TensorType type = vars_[after].facts.tensor();
  if (again.op == prims::set_requires_grad())
    type.requires_grad = std::get<IValue>(again.args[1]).toBool();
  const ValueId result = e_.b.add_value(Emitter::typed(type, type.requires_grad));
  again.results = {Result(result)};
  e_.b.add_bind(std::move(again));
  return result;
}

// Outputs, and what is changed later, that are views of the tensor from before the change, or views
// of such views.
void Epilogue::make_views_taken_before(const IdentityChange& change) {
  auto make = [&](int v) {
    while (v >= change.made_before && made_.count(v) == 0) v = vars_[v].parent;
    if (v >= 0) view_of(v);
  };
  for (int v : outputs_) make(v);
  for (size_t k = 0; k < seen_.changes.size(); ++k) {
    const int v = seen_.changes[k].before;
    if (!is_done_by_leaf(k) && is_seen(v)) make(v);
  }
}

ValueId Epilogue::view_of(int v) {
  if (auto it = made_.find(v); it != made_.end()) return it->second;
  const ValueId base = view_of(vars_[v].parent);
  const Variable& var = vars_[v];
  e_.grad_mode = var.made_by == nullptr || var.made_by->grad_mode;
  e_.location = var.made_by != nullptr ? var.made_by->location : -1;
  const bool by_schema =
      var.made_by == nullptr || ops::is_view(var.made_by->op) || var.made_by->op.ns() != "aten";
  if (!var.single || !by_schema) return made_with_others(v, base);
  // t_, squeeze_, ... of what is no view to autograd make no view of it.
  if (var.change != nullptr && !is_view_to_autograd(var.parent)) {
    make_views_taken_before({var.parent, v, v, var.change});
    return made_[v] = again_in_place(*vars_[v].change, v, base);
  }
  return made_[v] = vars_.derive(var, base);
}

// .data is none, nor a part of unsafe_chunk, nor what has another dtype (view_as_real and the like
// excepted).
bool Epilogue::is_view_to_autograd(int v) const {
  const Variable& var = vars_[v];
  if (var.change != nullptr) return is_view_to_autograd(var.parent);
  if (var.rename) return false;
  if (var.made_by == nullptr || ops::cuts_gradient(var.made_by->op)) return false;
  const auto dtype = [](const Variable& of) {
    return c10::toRealValueType(of.facts.tensor().dtype);
  };
  return var.parent < 0 || dtype(var) == dtype(vars_[var.parent]);
}

// What the program had from an operator with several results (split, unbind), or on memory that
// autograd does not know to be shared, comes from the same operator: eager treats it in its own
// way.
ValueId Epilogue::made_with_others(int v, ValueId base) {
  Bind again = *vars_[v].made_by;
  again.args[0] = Arg(base);
  again.region = -1;
  for (size_t i = 1; i < again.args.size(); ++i)
    ir::for_each_value(again.args[i], [&](ValueId) {
      throw Refusal("FG-159", again.op.id() + " with several tensors gave an output");
    });
  auto one = [&](ValueId recorded) {
    if (recorded == kNoValue) return kNoValue;
    const int i = vars_.of(recorded);
    const bool requires_grad = e_.requires_grad(base) && !vars_[i].cut;
    const ValueId id = e_.b.add_value(Emitter::typed(vars_[i].facts.tensor(), requires_grad));
    if (vars_[i].made_by == vars_[v].made_by) made_.emplace(i, id);
    return id;
  };
  for (Result& r : again.results) {
    if (auto* id = std::get_if<ValueId>(&r)) *id = one(*id);
    if (auto* list = std::get_if<ValueList>(&r))
      for (ValueId& id : *list) id = one(id);
  }
  e_.b.add_bind(std::move(again));
  return made_.at(v);
}

// The tensor from which the epilogue makes the output `v`. Where outputs have different ones on one
// memory, that is the root.
int Epilogue::origin(int v) const {
  const int found = vars_.origin(v);
  if (vars_[found].input != kNoValue || vars_[found].own_history ||
      shared_.count(vars_[v].facts.storage) == 0)
    return found;
  int root = v;
  for (; vars_[root].parent >= 0; root = vars_[root].parent)
    if (vars_[root].change != nullptr)
      throw Refusal(
          "FG-159",
          "outputs share memory, and one of them was changed in place (squeeze_, t_, ...)");
  return root;
}

void Epilogue::find_shared_memory() {
  std::unordered_map<int32_t, int> first;
  for (int v : outputs_) {
    if (v < 0) continue;
    const int32_t storage = vars_[v].facts.storage;
    const auto [it, is_new] = first.emplace(storage, origin(v));
    if (!is_new && it->second != origin(v)) shared_.insert(storage);
  }
}

}  // namespace fulgurite::passes
