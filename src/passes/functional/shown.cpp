#include "passes/functional/shown.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/functional/overlap.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Value;
using ir::ValueId;

Shown::Shown(const ir::Trace& recorded, Emitter& e, Variables& vars, const KeptHistory& kept,
             Steps& steps)
    : in_(recorded), e_(e), vars_(vars), kept_(kept), steps_(steps) {
  std::unordered_set<ValueId> apart, uncounted;             // detach() and .data, and views of them
  std::vector<ValueId> given(in_.values.size(), kNoValue);  // the input that a value is a view of
  std::vector<ValueId> first(in_.values.size());  // of the values of one tensor (before its writes)
  for (size_t id = 0; id < first.size(); ++id) first[id] = static_cast<ValueId>(id);
  for (ValueId id : in_.inputs) given[id] = id;
  for (const Bind& b : in_.binds) {
    for_each_arg(b, [&](ValueId a) {
      for_each_result(b, [&](ValueId r) {
        if (in_.value(a).storage < 0 || in_.value(a).storage != in_.value(r).storage) return;
        given[r] = given[a];
        const bool same = is_same_tensor(b, a, r);
        if (same) first[r] = first[a];
        if (!same && !ops::is_view(b.op) && !ops::cuts_gradient(b.op)) return;
        if (ops::cuts_gradient(b.op) || apart.count(a) > 0) apart.insert(r);
        if (b.op == prims::data() || uncounted.count(a) > 0) uncounted.insert(r);
      });
    });
    if (ops::changes_geometry_in_place(b.op))
      if (const auto* id = std::get_if<ValueId>(&b.args[0]))
        reshaped_.insert(in_.value(*id).storage);
    for (size_t a : ops::written_arguments(b)) {
      size_t position = 0;
      ir::for_each_value(b.args[a], [&](ValueId id) {
        const bool silent = !b.grad_mode || !takes_history(b, position++) || apart.count(id) > 0;
        writes_[in_.value(id).storage].push_back(
            {&b, id, given[id], silent, ops::bumps_versions(b.op) && uncounted.count(id) == 0});
      });
    }
  }
  for (ValueId id : in_.outputs)
    if (id != kNoValue) outputs_.push_back(first[id]);
}

// What is written in that place of a list (_foreach_) depends on what stands in the same place.
bool Shown::takes_history(const Bind& b, size_t position) const {
  bool any = false;
  auto look = [&](ValueId id) {
    any = any ||
          (id != kNoValue && in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad);
  };
  for (const Arg& a : b.args) {
    if (const auto* id = std::get_if<ValueId>(&a)) look(*id);
    const auto* list = std::get_if<ir::ValueList>(&a);
    if (list == nullptr) continue;
    if (!b.results.empty()) {
      ir::for_each_value(a, look);
    } else if (position < list->size()) {
      look((*list)[position]);
    }
  }
  return any;
}

// Is the result the very tensor that was given, after a write or requires_grad_()?
bool Shown::is_same_tensor(const Bind& b, ValueId given, ValueId result) const {
  if (b.op == prims::set_requires_grad() || b.op == prims::boundary()) return true;
  const Value& x = in_.value(given);
  const Value& y = in_.value(result);
  bool is_written = false;
  for (size_t a : ops::written_arguments(b))
    ir::for_each_value(b.args[a], [&](ValueId id) { is_written = is_written || id == given; });
  return is_written && x.offset == y.offset && x.tensor().dtype == y.tensor().dtype &&
         x.tensor().sizes == y.tensor().sizes && x.tensor().strides == y.tensor().strides;
}

void Shown::used_by(const Bind& bind) {
  if (!bind.grad_mode || !gives_kept_history(bind)) return;
  for_each_arg(bind, [&](ValueId id) {
    if (in_.value(id).is_tensor() && vars_.of(id) >= 0) use(vars_.of(id), bind);
  });
}

bool Shown::gives_kept_history(const Bind& bind) const {
  bool kept = false;
  auto has_history = [&](ValueId id) {
    return in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad;
  };
  for_each_result(bind, [&](ValueId id) { kept = kept || (has_history(id) && kept_.is_kept(id)); });
  if (kept || ops::written_arguments(bind).empty()) return kept;
  for_each_arg(bind, [&](ValueId id) { kept = kept || has_history(id); });
  return kept;
}

bool Shown::is_output(int v) const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [&](ValueId id) { return vars_.of(id) == v; });
}

bool Shown::is_shown(int v) const { return is_output(v) || is_argument(v); }

// Perhaps under another shape (t_, squeeze_, ...).
bool Shown::is_argument(int v) const {
  while (vars_[v].change != nullptr) v = vars_[v].parent;
  return vars_[v].is_given();
}

// Is it a view from before a write of its memory? It has got another node since, which leads to its
// base at once. (`by`: up to there; nullptr: to the end.)
bool Shown::is_older(int v, const Bind* by) const {
  return vars_[v].change == nullptr &&
         is_written_since(v, by, [&](const Write& w) { return moves(v, w); });
}

// Was its memory written after it was made?
bool Shown::is_written_since(int v, const Bind* by,
                             const std::function<bool(const Write&)>& counts) const {
  const Bind* made_by = vars_[v].made_by;
  const auto it = writes_.find(vars_[v].facts.storage);
  return it != writes_.end() && made_by != nullptr &&
         std::any_of(it->second.begin(), it->second.end(), [&](const Write& w) {
           return w.bind >= made_by && (by == nullptr || w.bind < by) && counts(w);
         });
}

// Did the last operator that wrote its memory write several tensors there?
bool Shown::is_written_with_others(int v, const Bind* by) const {
  const std::vector<Write>& writes = writes_.at(vars_[v].facts.storage);
  const auto last = std::find_if(writes.rbegin(), writes.rend(), [&](const Write& w) {
    return (by == nullptr || w.bind < by) && moves(v, w);
  });
  return std::count_if(writes.begin(), writes.end(),
                       [&](const Write& w) { return w.bind == last->bind; }) > 1;
}

// Autograd takes older views of the base again, and not through views that the caller has.
void Shown::hang_older_on_base(int v, const Bind* by) {
  const int origin = vars_.origin(v);
  for (int i = v; i >= 0 && e_.requires_grad(vars_.read(v)); i = vars_[i].parent)
    check_secret_part(i, by);
  if (origin == v || !e_.requires_grad(vars_.read(origin))) return;
  for (int i = v; i != origin; i = vars_[i].parent) {
    if (!is_older(i, by)) continue;
    const bool is_base = !vars_[origin].is_eager_view;
    const int base = is_base ? origin : vars_[origin].cut ? -1 : vars_[origin].parent;
    bool passes = !is_base && (base >= 0 || by == nullptr || vars_[origin].hooked != kNoValue);
    for (int k = vars_[i].parent; k != origin; k = vars_[k].parent)
      passes = passes || is_output(k) || vars_[k].hooked != kNoValue;
    // _foreach_add_ counts all writes first, and then gives one after the other its history.
    if ((passes || is_shown(origin)) && is_written_with_others(i, by)) refuse(v, by);
    if (passes && (base < 0 || !vars_.hang_on(i, base))) refuse(v, by);
    return;
  }
}

// Of unsafe_chunk and the like, which autograd does not know to be views.
bool Shown::is_secret_part(int v) const { return vars_[v].rename && vars_[v].change == nullptr; }

// Older than a write, it keeps the node that it had, which its tensor has no longer.
void Shown::check_secret_part(int v, const Bind* by) const {
  if (!is_secret_part(v) || !is_written_since(v, by, [](const Write&) { return true; })) return;
  for (int i = vars_[v].parent; i >= 0; i = vars_[i].parent)
    if (is_shown(i)) refuse(v, by);
}

void Shown::returned() {
  for (ValueId id : in_.outputs)
    if (id != kNoValue) hang_older_on_base(vars_.of(id), nullptr);
}

void Shown::use(int v, const Bind& by) {
  if (reshaped_.count(vars_[v].facts.storage) > 0 && vars_[vars_.origin(v)].is_given() &&
      e_.requires_grad(vars_[v].current))
    refuse(v, &by);
  if (e_.requires_grad(vars_[v].current)) check_changed_base(v, by);
  if (!is_written_later(v, by)) hang_older_on_base(v, &by);
  std::vector<int> shown;  // from `v` up
  for (int i = v; i >= 0; i = vars_[i].is_given() && vars_[i].cut ? -1 : vars_[i].parent) {
    if (!is_shown(i) || will_be_another(i, by)) continue;
    shown.push_back(i);
    if (vars_[i].is_given()) break;  // its own node leads on
  }
  // A view is taken of what holds the new contents.
  const int origin = vars_.origin(v);
  const bool of_written = !shown.empty() && shown.front() != origin && vars_[origin].is_given() &&
                          vars_[origin].written;
  if (of_written && is_written_later(v, by)) refuse(v, &by);
  if (of_written && shown.back() != origin) shown.push_back(origin);
  for (auto i = shown.rbegin(); i != shown.rend(); ++i) {
    of_written && *i == origin ? show_argument(*i, by) : show(*i, by);
    const ValueId now = vars_[*i].current;
    if (vars_[*i].is_given() && vars_[*i].hooked != now) continue;
    std::vector<int> below;
    for (int b = v; b != *i; b = vars_[b].parent) {
      if (b != v && vars_[b].is_given() && vars_[b].hooked != kNoValue) refuse(v, &by);
      below.push_back(b);
    }
    for (auto b = below.rbegin(); b != below.rend(); ++b) {
      if (vars_[*b].hooked != kNoValue && vars_[*b].hooked == vars_[*b].current) break;
      if (ValueId& from = derived_from_.emplace(*b, kNoValue).first->second; from != now) {
        from = now;
        vars_[*b].version = -1;
      }
    }
  }
}

bool Shown::is_written_later(int v, const Bind& by) const {
  const auto it = writes_.find(vars_[v].facts.storage);
  return it != writes_.end() && it->second.back().bind >= &by;
}

// Does it write through an argument that is no view to autograd of what `v` is one of, or the other
// way round (x.detach(), beside x)?
bool Shown::is_apart(int v, const Write& w) const {
  auto base = [&](int i) {
    while (i >= 0 && vars_[i].is_given() && vars_[i].parent >= 0 && !vars_[i].cut)
      i = vars_[i].parent;
    return i;
  };
  const int origin = vars_.origin(v);
  return w.given != kNoValue && vars_[origin].is_given() && base(origin) != base(vars_.of(w.given));
}

// Will a later write give it another node?
bool Shown::will_be_another(int v, const Bind& by) const {
  const auto it = writes_.find(vars_[v].facts.storage);
  if (it == writes_.end()) return false;
  bool silent = false;
  bool moved = false;
  for (const Write& w : it->second) {
    if (w.bind < &by) continue;
    const int target = vars_.of(w.target);
    const bool is_secret = target >= 0 && vars_.share_memory_secretly(v, target);
    if (is_secret && !may_overlap(vars_[v].facts, vars_[target].facts)) continue;
    if (!w.is_silent && !is_secret && !is_apart(v, w)) return true;
    silent = true;
    moved = moved || moves(v, w);
  }
  if (!silent || !e_.requires_grad(vars_[v].current)) return false;
  if (vars_[v].is_eager_view && moved) return true;
  // The caller's tensor keeps this node, with other contents: an argument's is the one that it had
  // before the call, and a leaf is given as it is.
  if (vars_[v].own_history || vars_[v].leaf_to_be) return false;
  if (!vars_[v].is_given() || vars_[v].history_changed) refuse(v, &by);
  return false;
}

// Does it move the version counter of `v`?
bool Shown::moves(int v, const Write& w) const {
  const bool own = vars_.has_own_version(v);
  return w.is_counted && (w.given == kNoValue || vars_.has_own_version(vars_.of(w.given)) == own);
}

// A view of the caller's whose version counter moved, if through another tensor, has another node
// than it had.
bool Shown::is_moved(int v) const {
  if (!vars_[v].is_eager_view || vars_[v].history_changed) return false;
  const auto it = writes_.find(vars_[v].facts.storage);
  return reshaped_.count(vars_[v].facts.storage) > 0 ||
         (it != writes_.end() && std::any_of(it->second.begin(), it->second.end(),
                                             [&](const Write& w) { return moves(v, w); }));
}

// A view of what was t_()ed (squeeze_, ...) afterwards hangs on what that is now.
void Shown::check_changed_base(int v, const Bind& by) const {
  for (int i = v; i >= 0; i = vars_[i].parent) {
    const int base = vars_[i].parent;
    if (base < 0 || !vars_[base].is_changed || vars_[i].change != nullptr) continue;
    for (int k : vars_.storage(vars_[base]).variables)
      if (vars_[k].change != nullptr && !vars_[k].cut && vars_.is_within(k, base) && is_output(k))
        refuse(v, &by);
  }
}

// Is another output on the memory of an origin, with another origin?
bool Shown::has_other_origin(int origin) const {
  return std::any_of(outputs_.begin(), outputs_.end(), [&](ValueId id) {
    if (vars_.of(id) < 0 || in_.value(id).storage != vars_[origin].facts.storage) return false;
    const int other = vars_.origin(vars_.of(id));
    return other != origin && !vars_[other].own_history &&
           !(vars_[other].is_given() && vars_[origin].is_given());
  });
}

void Shown::show(int v, const Bind& by) {
  const Variable& var = vars_[v];
  if (!e_.requires_grad(vars_.read(v))) return;
  if (var.own_history || (var.hooked != kNoValue && var.hooked == var.current)) return;
  if (var.is_given()) {
    if (is_moved(v) || (var.history_changed && !var.open)) show_argument(v, by);
    return;
  }
  if (is_argument(v)) refuse(v, &by);
  if (var.is_constant) return;
  const int origin = vars_.origin(v);
  const bool alone = !has_other_origin(origin);
  if (origin == v && alone) {
    vars_.fresh(v);
    vars_[v].written = false;
    return;
  }
  if (!alone || !steps_.view_boundary(v, Arg(IValue(int64_t{-1})))) refuse(v, &by);
}

// The one that the program wrote is written back; it gives others on its memory their history, too.
void Shown::show_argument(int v, const Bind& by) {
  if (vars_[v].hooked != kNoValue && vars_[v].hooked == vars_[v].current) return;
  int written = -1;
  for (int i : vars_.storage(vars_[v]).variables) {
    const Variable& other = vars_[i];
    if (!other.is_given() || !other.written_directly) continue;
    if (written >= 0 || other.resized || !other.version_bumped || other.separate_version ||
        other.written_back || other.open || other.requires_grad_set)
      refuse(v, &by);
    written = i;
  }
  if (written < 0 || vars_[v].separate_version) refuse(v, &by);
  auto emit = [&](int i, Arg instead) {
    const ValueId contents = vars_.read(i);
    vars_[i].current = vars_[i].hooked =
        e_.emit(prims::argument(), {Arg(contents), Arg(vars_[i].input), std::move(instead)},
                vars_[i].facts, true);
  };
  if (vars_[written].hooked == kNoValue || vars_[written].hooked != vars_[written].current) {
    if (!e_.requires_grad(vars_.read(written))) refuse(v, &by);
    emit(written, Arg(IValue()));
  }
  if (v != written) emit(v, Arg(vars_[written].current));
}

void Shown::refuse(int v, const Bind* by) const {
  throw Refusal("FG-195", (by != nullptr ? by->op.id() : "the return") + " uses " +
                              vars_[v].facts.name +
                              ", which the caller gets as well, and whose place in the graph could "
                              "not be given back");
}

}  // namespace fulgurite::passes
