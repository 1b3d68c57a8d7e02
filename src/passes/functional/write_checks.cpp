// What may not be written, or not be used once it was.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_set>

#include "ir/errors.h"
#include "ops/prims.h"
#include "passes/functional/overlap.h"
#include "passes/functional/writes.h"

namespace fulgurite::passes {

using ir::Bind;
using ir::kNoValue;
using ir::Value;
using ir::ValueId;

// An operator that reads memory which it also writes may read it before or after, one element at a
// time: it is a function of its arguments only if both are the same tensor.
void Writes::check_overlaps(const Bind& bind, const std::vector<size_t>& written) const {
  struct Place {
    ValueId id;
    bool is_written;
    size_t position;  // in its list
  };
  std::vector<Place> places;
  for (size_t i = 0; i < bind.args.size(); ++i) {
    const bool is_written = std::find(written.begin(), written.end(), i) != written.end();
    size_t position = 0;
    ir::for_each_value(bind.args[i], [&](ValueId id) {
      if (in_.value(id).is_tensor()) places.push_back({id, is_written, position});
      ++position;
    });
  }
  for (const Place& target : places) {
    if (!target.is_written) continue;
    for (const Place& other : places) {
      if (&other == &target) continue;
      const Value& t = in_.value(target.id);
      const Value& o = in_.value(other.id);
      const bool same_tensor = !other.is_written && other.position == target.position &&
                               t.offset == o.offset && t.tensor().sizes == o.tensor().sizes &&
                               t.tensor().strides == o.tensor().strides;
      if (!same_tensor && may_overlap(t, o))
        throw Refusal("FG-169", bind.op.id() + " reads and writes the same memory through " +
                                    "different tensors: the result depends on the order");
    }
  }
}

// Eager refuses to use results of split, unbind, ... and views made without grad mode once their
// memory was written, if they require grad: in grad mode, where it looks for their node.
void Writes::check_restricted_views(const Bind& bind, int target) const {
  for (int i : vars_.storage(vars_[target]).variables) {
    const Variable& v = vars_[i];
    const bool with_history = v.facts.tensor().requires_grad ||
                              vars_[target].facts.tensor().requires_grad || gives_history(bind);
    if (with_history && vars_.share_memory_secretly(i, target) &&
        may_overlap(v.facts, vars_[target].facts) &&
        (v.input != kNoValue || is_used_after(bind, i)))
      throw Refusal("FG-163", bind.op.id() +
                                  " writes memory that other tensors with a history have too, "
                                  "without being views (unsafe_split, ...)");
    if (v.made_by == nullptr || !ops::is_view(v.made_by->op) || ops::cuts_gradient(v.made_by->op) ||
        !with_history)
      continue;
    if ((!v.single || !v.made_by->grad_mode) &&
        ((bind.grad_mode && vars_.is_within(target, i)) || is_used_with_views_after(bind, i)))
      throw Refusal("FG-163", bind.op.id() +
                                  " writes memory of which there are views that require grad, made "
                                  "several at once (split, unbind) or without grad mode");
  }
}

void Writes::check_views_of_detached(const Bind& bind, int target) const {
  if (!vars_.is_written(vars_[target].facts.storage)) return;
  for (int i : vars_.storage(vars_[target]).variables)
    if (i != target && (vars_[i].input != kNoValue || is_used_after(bind, i)))
      throw Refusal("FG-154", bind.op.id() +
                                  " of a tensor of which there are views, on memory that is "
                                  "written");
}

void Writes::check_views_of_leaf(const Bind& bind, int target) const {
  for (int i : vars_.storage(vars_[target]).variables)
    if (i != target && vars_.is_within(i, target) && is_used_with_views_after(bind, i))
      throw Refusal("FG-187", "requires_grad_() was called on a tensor of which there are views");
}

// Does what it writes depend on something that requires grad?
bool Writes::gives_history(const Bind& bind) const {
  bool gives = false;
  for_each_arg(bind, [&](ValueId id) {
    gives = gives || (in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad);
  });
  return gives && bind.grad_mode;
}

// Whether the program uses the variable after this bind, or returns it.
bool Writes::is_used_after(const Bind& bind, int variable) const {
  return is_any_used_after(bind, /*for_history=*/false, [&](int v) { return v == variable; });
}

// The same for a history, and for its views. (To make a view without grad mode is no use.)
bool Writes::is_used_with_views_after(const Bind& bind, int variable) const {
  return is_any_used_after(bind, /*for_history=*/true,
                           [&](int v) { return vars_.is_within(v, variable); });
}

bool Writes::is_any_used_after(const Bind& bind, bool for_history,
                               const std::function<bool(int)>& is_one) const {
  std::unordered_set<ValueId> later;  // the same tensor after a write, and views of it
  auto shows = [&](ValueId id) {
    return id != kNoValue && in_.value(id).is_tensor() &&
           (is_one(vars_.of(id)) || later.count(id) > 0);
  };
  for (const Bind* b = &bind; b != in_.binds.data() + in_.binds.size(); ++b) {
    bool used = false;
    const bool is_none = b->op == prims::set_grad() || b->op == prims::set_requires_grad();
    if (b != &bind && !(for_history && (!b->grad_mode || is_none)))
      for_each_arg(*b, [&](ValueId id) { used = used || shows(id); });
    if (used) return true;
    if (!ops::is_view(b->op) && ops::written_arguments(*b).empty()) continue;
    for_each_arg(*b, [&](ValueId of) {
      if (!shows(of)) return;
      for_each_result(*b, [&](ValueId id) {
        if (in_.value(id).is_tensor() && in_.value(id).storage == in_.value(of).storage)
          later.insert(id);
      });
    });
  }
  return std::any_of(in_.outputs.begin(), in_.outputs.end(), shows);
}

}  // namespace fulgurite::passes
