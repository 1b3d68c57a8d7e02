#include "passes/functional/epilogue.h"

#include <ATen/core/Tensor.h>

#include <unordered_map>

#include "ir/errors.h"
#include "ops/prims.h"

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
  check_new_leaves();
  // Everything that the epilogue needs is computed before it begins: it changes the inputs.
  const std::vector<WriteBack> writes = write_backs();
  for (ValueId id : in_.outputs) outputs_.push_back(id == kNoValue ? -1 : vars_.of(id));
  std::vector<ValueId> grads;
  for (const Bind* g : seen_.grads) {
    const Arg grad = vars_.mapped(g->args[1]);
    grads.push_back(std::holds_alternative<ValueId>(grad) ? std::get<ValueId>(grad) : kNoValue);
  }
  make_origins();

  e_.b.begin_epilogue();
  for (const WriteBack& w : writes) {
    const Variable& v = vars_[w.variable];
    e_.grad_mode = v.history_changed;
    ValueId destination = v.input;
    if (!v.version_bumped) destination = e_.emit(prims::data(), {Arg(v.input)}, v.facts, false);
    const ValueId after =
        e_.b.add_value(Emitter::typed(v.facts.tensor(), v.facts.tensor().requires_grad));
    e_.b.add_bind(Bind{
        prims::copy_(), {Arg(w.value), Arg(destination)}, {Result(after)}, -1, -1, e_.grad_mode});
  }
  bump_versions();
  set_grads(grads);
  change_geometry();
  for (int v : outputs_) e_.b.trace().outputs.push_back(v < 0 ? kNoValue : view_of(v));
  set_requires_grad();
}

std::vector<Epilogue::WriteBack> Epilogue::write_backs() {
  std::vector<WriteBack> writes;
  for (int i = 0; i < vars_.size(); ++i) {
    if (vars_[i].input == kNoValue || vars_[i].is_constant || !vars_.storage(vars_[i]).visible)
      continue;
    if (vars_[i].written_back || vars_.storage(vars_[i]).version == 0 || !changed(i)) continue;
    writes.push_back({i, vars_.read(i)});
  }
  return writes;
}

// Outputs that are views are made by the epilogue, from the tensor that they are views of: so the
// caller gets eager's `_base`, version counter and history.
void Epilogue::make_origins() {
  for (int v : outputs_) {
    if (v < 0) continue;
    const int r = origin(v);
    for (int i = v; i != r; i = vars_[i].parent)
      if (vars_[i].cut && e_.requires_grad(vars_.read(i)))
        throw Refusal("FG-162",
                      "a tensor taken out of autograd (.data, detach) got a history by a write, "
                      "and is returned");
    if (made_.count(r) > 0) continue;
    if (vars_[r].own_history) {  // made with eager's aliasing when the history is attached
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

// A tensor that became a leaf in the call, and other outputs that depend on it: their history would
// have to end at it.
void Epilogue::check_new_leaves() const {
  std::vector<bool> depends(in_.values.size(), false);
  for (ValueId id : seen_.new_leaves) depends[id] = true;
  if (seen_.new_leaves.empty()) return;
  for (const Bind& b : in_.binds) {
    if (!b.grad_mode) continue;
    bool any = false;
    for_each_arg(b, [&](ValueId id) { any = any || depends[id]; });
    if (any && !(b.op == prims::set_requires_grad()))
      for_each_result(b, [&](ValueId id) {
        depends[id] = in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad;
      });
  }
  for (ValueId id : in_.outputs) {
    if (id == kNoValue || !depends[id]) continue;
    bool is_leaf = false;
    for (ValueId leaf : seen_.new_leaves) is_leaf = is_leaf || vars_.of(leaf) == vars_.of(id);
    if (!is_leaf)
      throw Refusal("FG-187",
                    "requires_grad_() was called on a tensor in the function, and a result that "
                    "depends on it is returned");
  }
}

// Several writes are one write-back; the version counter counts them all.
void Epilogue::bump_versions() {
  for (int i = 0; i < vars_.size(); ++i) {
    const Variable& v = vars_[i];
    if (v.input == kNoValue || v.is_constant || v.parent >= 0) continue;
    const Storage& s = vars_.storage(v);
    const int written_back = v.written_back || v.version_bumped ? 1 : 0;
    if (!s.visible || s.version_bumps <= written_back) continue;
    e_.b.add_bind(Bind{prims::bump_version_(),
                       {Arg(v.input), Arg(IValue(s.version_bumps - written_back))},
                       {},
                       -1,
                       -1,
                       false});
  }
}

void Epilogue::set_grads(const std::vector<ValueId>& grads) {
  for (size_t k = 0; k < seen_.grads.size(); ++k) {
    const auto leaf = std::get<ValueId>(seen_.grads[k]->args[0]);
    const ValueId input = vars_[vars_.of(leaf)].input;
    if (input == kNoValue)
      throw Refusal("FG-122", "the .grad of a tensor that is no argument or parameter was set");
    e_.b.add_bind(Bind{prims::set_grad(),
                       {Arg(input), grads[k] == kNoValue ? Arg(IValue()) : Arg(grads[k])},
                       {},
                       -1,
                       -1,
                       false});
  }
}

// t_, squeeze_, detach_, ... on what the caller can see are done again, in order; views that were
// taken before are taken before.
void Epilogue::change_geometry() {
  for (const GeometryChange& change : seen_.geometry) {
    for (int v : outputs_)
      if (v >= 0 && v < change.after) view_of(v);
    const int r = origin(change.before);
    if (made_.count(r) == 0) made_.emplace(r, vars_[r].input);
    Bind again = *change.recorded;
    again.args[0] = Arg(view_of(change.before));
    again.region = -1;
    const Value& facts = vars_[change.after].facts;
    const ValueId after =
        e_.b.add_value(Emitter::typed(facts.tensor(), facts.tensor().requires_grad));
    again.results = {Result(after)};
    e_.b.add_bind(std::move(again));
    made_[change.after] = after;
  }
}

void Epilogue::set_requires_grad() {
  for (auto [v, on] : seen_.requires_grad) {
    ValueId tensor = vars_[v].input;
    if (auto it = made_.find(v); it != made_.end()) tensor = it->second;
    if (tensor == kNoValue) continue;
    const ValueId after = e_.b.add_value(Emitter::typed(vars_[v].facts.tensor(), on));
    e_.b.add_bind(Bind{
        prims::set_requires_grad(), {Arg(tensor), Arg(IValue(on))}, {Result(after)}, -1, -1, true});
    for (ValueId& out : e_.b.trace().outputs)
      if (out == tensor) out = after;
  }
}

ValueId Epilogue::view_of(int v) {
  if (auto it = made_.find(v); it != made_.end()) return it->second;
  const ValueId base = view_of(vars_[v].parent);
  const Variable& var = vars_[v];
  e_.grad_mode = var.made_by == nullptr || var.made_by->grad_mode;
  e_.location = var.view != nullptr ? var.view->location : -1;
  return made_[v] = vars_.derive(var, base);
}

// The tensor that `v` is, or is a view of: an input, or the topmost variable that is the root
// itself under another shape.
int Epilogue::origin(int v) const {
  std::vector<int> path;
  for (int i = v; i >= 0; i = vars_[i].parent) {
    path.push_back(i);
    if (vars_[i].input != kNoValue || vars_[i].own_history) return i;
  }
  size_t k = path.size() - 1;
  while (k > 0 && vars_[path[k - 1]].rename) --k;
  return path[k];
}

int Epilogue::root(int v) const {
  while (vars_[v].parent >= 0) v = vars_[v].parent;
  return v;
}

// Was anything on the memory of input `v` written? With a flat base: only if the write overlapped
// it.
bool Epilogue::changed(int v) {
  Variable& x = vars_[v];
  if (x.parent < 0) return x.written;
  if (x.written) return true;
  // Overlap is decided by extents: a copy too many writes the same contents.
  for (int i : vars_.storage(x).variables) {
    const Variable& y = vars_[i];
    if (!y.written || i == root(v)) continue;
    const auto [lo, hi] = extent(x.facts);
    const auto [lo2, hi2] = extent(y.facts);
    if (lo < hi2 && lo2 < hi) return true;
  }
  return false;
}

}  // namespace fulgurite::passes
