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
  // Everything that the epilogue needs is computed before it begins: it changes the inputs.
  struct WriteBack {
    int variable;
    ValueId value;
  };
  std::vector<WriteBack> write_backs;
  for (int i = 0; i < vars_.size(); ++i) {
    if (vars_[i].input == kNoValue || vars_[i].is_constant || !vars_.storage(vars_[i]).visible)
      continue;
    if (vars_[i].written_back || vars_.storage(vars_[i]).version == 0 || !changed(i)) continue;
    write_backs.push_back({i, vars_.read(i)});
  }
  std::vector<int> outputs;
  for (ValueId id : in_.outputs) outputs.push_back(id == kNoValue ? -1 : vars_.of(id));
  std::vector<ValueId> grads;
  for (const Bind* g : grads_set_) {
    const Arg grad = vars_.mapped(g->args[1]);
    grads.push_back(std::holds_alternative<ValueId>(grad) ? std::get<ValueId>(grad) : kNoValue);
  }
  // Outputs that are views are made by the epilogue, from the tensor that they are views of: so
  // the caller gets eager's `_base`, version counter and history.
  std::unordered_map<int, ValueId> made;
  for (int v : outputs) {
    if (v < 0) continue;
    const int r = origin(v);
    if (made.count(r) > 0) continue;
    if (vars_[r].input != kNoValue && !vars_[r].is_constant) {
      made.emplace(r, vars_[r].input);
    } else {
      if (vars_.storage(vars_[r]).visible)
        throw Refusal("FG-159", "an output shares memory with inputs that overlap each other");
      made.emplace(r, vars_.fresh(r));
    }
    for (int i = v; i != r; i = vars_[i].parent)
      if (vars_[i].cut && e_.requires_grad(vars_.read(i)))
        throw Refusal("FG-162",
                      "a tensor taken out of autograd (.data, detach) got a history by a write, "
                      "and is returned");
  }

  e_.b.begin_epilogue();
  for (const WriteBack& w : write_backs) {
    const Variable& v = vars_[w.variable];
    e_.grad_mode = v.history_changed;
    ValueId destination = v.input;
    if (!v.version_bumped) destination = e_.emit(prims::data(), {Arg(v.input)}, v.facts, false);
    const ValueId after =
        e_.b.add_value(Emitter::typed(v.facts.tensor(), v.facts.tensor().requires_grad));
    e_.b.add_bind(Bind{
        prims::copy_(), {Arg(w.value), Arg(destination)}, {Result(after)}, -1, -1, e_.grad_mode});
  }
  for (size_t k = 0; k < grads_set_.size(); ++k) {
    const auto leaf = std::get<ValueId>(grads_set_[k]->args[0]);
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
  auto view_of = [&](auto&& self, int v) -> ValueId {
    auto it = made.find(v);
    if (it != made.end()) return it->second;
    const ValueId base = self(self, vars_[v].parent);
    const Variable& var = vars_[v];
    e_.grad_mode = var.made_by == nullptr || var.made_by->grad_mode;
    e_.location = var.view != nullptr ? var.view->location : -1;
    return made[v] = vars_.derive(var, base);
  };
  for (int v : outputs) e_.b.trace().outputs.push_back(v < 0 ? kNoValue : view_of(view_of, v));
}

// The tensor that `v` is, or is a view of: an input, or the topmost variable that is the root
// itself under another shape.
int Epilogue::origin(int v) const {
  std::vector<int> path;
  for (int i = v; i >= 0; i = vars_[i].parent) {
    path.push_back(i);
    if (vars_[i].input != kNoValue) return i;
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
