#include "passes/functionalize.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/functional/checkpoints.h"
#include "passes/functional/epilogue.h"
#include "passes/functional/kept_history.h"
#include "passes/functional/overlap.h"
#include "passes/functional/region_map.h"
#include "passes/functional/shown.h"
#include "passes/functional/steps.h"
#include "passes/functional/variables.h"
#include "passes/functional/writes.h"

namespace fulgurite::passes {
namespace {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Result;
using ir::Trace;
using ir::Value;
using ir::ValueId;
using ir::ValueList;

// Carries the recorded binds over, one after the other.
class Functionalizer {
 public:
  Functionalizer(const Trace& recorded, bool write_back_at_once)
      : in_(recorded),
        e_(recorded),
        vars_(recorded, e_),
        writes_(recorded, e_, vars_),
        kept_(recorded),
        steps_(recorded, e_, vars_, kept_),
        shown_(recorded, e_, vars_, kept_, steps_),
        checkpoints_(recorded, vars_),
        write_back_at_once_(write_back_at_once) {}

  Functionalized run(const std::vector<record::SharedInput>& shared,
                     const std::vector<ValueId>& views) {
    vars_.add_roots(shared);
    for (ValueId id : views) vars_[vars_.of(id)].is_eager_view = true;
    RegionMap regions(in_, e_, vars_);
    for (size_t i = 0; i < in_.binds.size(); ++i) {
      e_.grad_mode = in_.binds[i].grad_mode;
      regions.enter(i);
      bind(in_.binds[i]);
      regions.leave(i);
    }
    shown_.returned();
    Epilogue(in_, e_, vars_, std::move(seen_)).write();
    Functionalized result;
    result.overwritten = vars_.take_overwritten();
    result.trace = e_.b.finish();
    Steps::check_saved(result);
    check_checkpoints(result);
    return result;
  }

 private:
  void bind(const Bind& bind) {
    e_.location = bind.location;
    e_.grad_mode = bind.grad_mode;
    checkpoints_.check(bind);
    if (bind.op == prims::set_grad()) {
      seen_.grads.push_back(&bind);
      return;
    }
    if (bind.op == prims::open_leaf()) return open_leaf(bind);
    if (bind.op == prims::close_leaf()) return close_leaf(bind);
    if (bind.op == prims::function()) {
      shown_.used_by(bind);
      return steps_.function_call(bind);
    }
    if (bind.op == prims::boundary()) return steps_.boundary(bind);
    if (bind.op == prims::bump_version_()) {
      vars_.storage(vars_[vars_.of(std::get<ValueId>(bind.args[0]))]).version_bumps +=
          static_cast<int>(std::get<IValue>(bind.args[1]).toInt());
      return;
    }
    if (bind.op == prims::set_requires_grad()) return requires_grad_set(bind);
    if (ops::changes_geometry_in_place(bind.op)) return geometry_change(bind);
    const std::vector<size_t> written = ops::written_arguments(bind);
    const bool is_alias = aliases_by_record(bind);
    if (!is_alias || !written.empty()) shown_.used_by(bind);
    if (!written.empty()) {
      writes_.carry_over(bind, written);
      if (write_back_at_once_) write_leaves_back(bind, written);
      return;
    }
    if (written_early_ && ops::has_effect(bind.op) && !ops::is_random(bind.op))
      throw Refusal("FG-186", bind.op.id() +
                                  " checks a value after a leaf was written in place, "
                                  "which skip_inplace_functionalization does at once");
    if (is_alias && ops::returns_fresh_memory(bind.op))
      throw Refusal("FG-170", bind.op.id() + " returned memory of an argument");
    if (ops::is_view(bind.op) || is_alias) return view(bind);
    Bind out{bind.op, {}, {}, bind.location, e_.region, bind.grad_mode};
    for (const Arg& a : bind.args) out.args.push_back(vars_.mapped(a));
    for (const Result& r : bind.results) out.results.push_back(vars_.define(r));
    e_.b.add_bind(std::move(out));
  }

  void open_leaf(const Bind& bind) {
    const int leaf = vars_.of(std::get<ValueId>(bind.args[0]));
    if (vars_[leaf].input == kNoValue || vars_[leaf].parent >= 0)
      throw Refusal("FG-184", "the leaf " + vars_[leaf].facts.name +
                                  " is written in place and shares memory with another input");
    vars_[leaf].open = true;
    vars_.alias_of(std::get<ValueId>(bind.results[0]), leaf);
  }

  // skip_inplace_functionalization: every write of an open leaf reaches it where the program
  // writes, and the program goes on with what the write-back gives.
  void write_leaves_back(const Bind& bind, const std::vector<size_t>& written) {
    for (size_t i : written)
      ir::for_each_value(bind.args[i], [&](ValueId id) {
        int root = vars_.of(id);
        while (vars_[root].parent >= 0) root = vars_[root].parent;
        Variable& leaf = vars_[root];
        if (!leaf.open) return;
        const ValueId value = vars_.fresh(root);
        leaf.current = e_.emit(prims::copy_(), {Arg(value), Arg(leaf.input)}, leaf.facts,
                               e_.requires_grad(value));
        leaf.written_back = written_early_ = true;
      });
  }

  // The write-back of a leaf is part of the differentiated program: the caller gets its result, and
  // gradients pass through it.
  void close_leaf(const Bind& bind) {
    const int leaf = vars_.of(std::get<ValueId>(bind.args[0]));
    const int result = vars_.new_variable(std::get<ValueId>(bind.results[0]));
    if (vars_[leaf].written_back) {
      vars_[result].current = vars_.read(leaf);
      return;
    }
    e_.location = vars_[leaf].write_location;
    const ValueId value = vars_.fresh(leaf);
    vars_[leaf].written_back = true;
    vars_[result].current = e_.emit(prims::copy_(), {Arg(value), Arg(vars_[leaf].input)},
                                    vars_[result].facts, e_.requires_grad(value));
  }

  // A result on memory that an argument already has, although the schema does not call it a view.
  bool aliases_by_record(const Bind& bind) {
    bool aliases = false;
    for_each_result(bind, [&](ValueId r) {
      if (!in_.value(r).is_tensor()) return;
      for_each_arg(bind, [&](ValueId a) {
        aliases = aliases || (in_.value(a).is_tensor() && in_.value(a).storage >= 0 &&
                              in_.value(a).storage == in_.value(r).storage);
      });
    });
    return aliases;
  }

  void view(const Bind& bind) {
    ValueId source = kNoValue;
    ValueId first = kNoValue;
    for_each_result(bind, [&](ValueId r) { first = first == kNoValue ? r : first; });
    if (first == kNoValue) return;
    for_each_arg(bind, [&](ValueId a) {
      if (source == kNoValue && in_.value(a).is_tensor() &&
          in_.value(a).storage == in_.value(first).storage)
        source = a;
    });
    if (source == kNoValue) {
      // A view by its schema that gave fresh memory (reshape that copied, to(), ...).
      Bind out{bind.op, {}, {}, bind.location, e_.region, bind.grad_mode};
      for (const Arg& a : bind.args) out.args.push_back(vars_.mapped(a));
      for (const Result& r : bind.results) out.results.push_back(vars_.define(r));
      e_.b.add_bind(std::move(out));
      return;
    }
    const int parent = vars_.of(source);
    if (vars_[parent].is_changed)
      throw Refusal("FG-154", "the tensor " + vars_[parent].facts.name +
                                  " is used as it was before it was changed in place");
    if (ops::lifts_constant(bind.op)) {
      vars_.alias_of(std::get<ValueId>(bind.results[0]), parent);
      return;
    }
    const bool schema_view = ops::is_view(bind.op) &&
                             std::holds_alternative<ValueId>(bind.args[0]) &&
                             std::get<ValueId>(bind.args[0]) == source;
    const bool absolute = bind.op.name() == "aten::as_strided";
    Bind out{bind.op, {}, {}, bind.location, e_.region, bind.grad_mode};
    // What gradients do not pass needs no leaf.
    const bool grad_mode =
        std::exchange(e_.grad_mode, e_.grad_mode && !ops::cuts_gradient(bind.op));
    for (const Arg& a : bind.args) out.args.push_back(vars_.mapped(a));
    e_.grad_mode = grad_mode;
    if (schema_view)
      out.args[0] = Arg(vars_.taken_of(bind.op, parent, std::get<ValueId>(out.args[0])));
    const bool single =
        bind.results.size() == 1 && std::holds_alternative<ValueId>(bind.results[0]);
    auto make = [&](ValueId recorded) {
      if (recorded == kNoValue) return kNoValue;
      const int v = vars_.new_variable(recorded);
      vars_[v].parent = parent;
      if (schema_view && !absolute)
        vars_[v].view = single ? &bind : vars_.taken_alone(bind, recorded);
      vars_[v].made_by = &bind;
      vars_[v].single = single;
      vars_[v].cut = ops::cuts_gradient(bind.op) || (in_.value(source).tensor().requires_grad &&
                                                     !in_.value(recorded).tensor().requires_grad);
      vars_[v].rename =
          !schema_view;  // _unsafe_view and the like: eager does not know it as a view
      vars_[v].separate_version = bind.op == prims::data() || ops::shares_memory_secretly(bind.op);
      return vars_[v].current = e_.b.add_value(
                 Emitter::typed(vars_[v].facts.tensor(), vars_[v].facts.tensor().requires_grad));
    };
    if (absolute) {
      // as_strided counts from the start of the storage; a value has none. Count from its base
      // instead.
      const auto result = std::get<ValueId>(bind.results[0]);
      const Value& facts = in_.value(result);
      check_within(facts, vars_[parent].facts);
      out.op = prims::strided_view();
      out.args = {out.args[0], Arg(ints(facts.tensor().sizes)), Arg(ints(facts.tensor().strides)),
                  Arg(IValue(facts.offset - vars_[parent].facts.offset))};
    }
    for (const Result& r : bind.results) {
      if (const auto* id = std::get_if<ValueId>(&r)) {
        out.results.emplace_back(make(*id));
      } else {
        ValueList list;
        for (ValueId e : std::get<ValueList>(r)) list.push_back(make(e));
        out.results.emplace_back(std::move(list));
      }
    }
    e_.b.add_bind(std::move(out));
  }

  // A value is only the elements of its variable, not the rest of the storage that as_strided can
  // reach.
  void check_within(const Value& view, const Value& base) const {
    const auto [lo, hi] = extent(view);
    const auto [base_lo, base_hi] = extent(base);
    const bool within = lo >= base_lo && hi <= base_hi && base.tensor().is_dense();
    if (!within && vars_.is_written(base.storage))
      throw Refusal(
          "FG-167",
          "as_strided reaches beyond the tensor it is taken of, on memory that the program writes");
  }

  // t_, squeeze_, ...: the variable becomes a view of what it was.
  void geometry_change(const Bind& bind) {
    const auto functional = ops::view_variant(bind.op);
    if (!functional || !std::holds_alternative<ValueId>(bind.args[0]) || bind.results.size() != 1)
      throw Refusal("FG-154",
                    bind.op.id() + " changes what a tensor is, in a way that is not compiled yet");
    const int changed = vars_.of(std::get<ValueId>(bind.args[0]));
    if (ops::cuts_gradient(*functional)) {
      const auto now = std::get<ValueId>(bind.results[0]);
      const bool had_history = in_.value(std::get<ValueId>(bind.args[0])).tensor().requires_grad ||
                               e_.requires_grad(vars_.read(changed));
      if (had_history == in_.value(now).tensor().requires_grad)
        return vars_.alias_of(now, changed);  // there was no history, or inference mode keeps it
      writes_.check_views_of_detached(bind, changed);
    }
    views_of_changes_.push_back(std::make_unique<Bind>(bind));
    views_of_changes_.back()->op = *functional;
    writes_.check_restricted_views(bind, changed);
    if (vars_[changed].requires_grad_set && !vars_.storage(vars_[changed]).visible)
      throw Refusal("FG-154", bind.op.id() + " after requires_grad_()");
    views_of_changes_.back()->grad_mode = bind.grad_mode || keeps_history(bind);
    // Its version counter moves; not that of what is detached.
    if (!ops::cuts_gradient(*functional))
      vars_.mark_changed(changed, 2 * static_cast<int64_t>(e_.b.trace().binds.size()) - 1);
    view(*views_of_changes_.back());
    const auto result = std::get<ValueId>(bind.results[0]);
    if (result == kNoValue || vars_.of(result) < 0) return;
    const int after = vars_.of(result);
    vars_[after].rename = true;
    vars_[after].change = &bind;
    vars_[changed].is_changed = true;
    if (vars_.storage(vars_[changed]).visible)
      seen_.changes.push_back({changed, after, after, &bind});
  }

  // Without grad mode a tensor keeps its history, whose gradients have the geometry from before.
  bool keeps_history(const Bind& bind) const {
    const auto& before = in_.value(std::get<ValueId>(bind.args[0])).tensor();
    const auto after = std::get<ValueId>(bind.results[0]);
    if (after == kNoValue || !before.requires_grad ||
        ops::cuts_gradient(*ops::view_variant(bind.op)))
      return false;
    const auto& now = in_.value(after).tensor();
    if (now.sizes != before.sizes || now.strides != before.strides)
      throw Refusal("FG-154", bind.op.id() + " without grad mode of a tensor that requires grad");
    return true;
  }

  // requires_grad_(): the same contents, from here on with or without a history.
  void requires_grad_set(const Bind& bind) {
    const int tensor = vars_.of(std::get<ValueId>(bind.args[0]));
    const auto after = std::get<ValueId>(bind.results[0]);
    const bool on = in_.value(after).tensor().requires_grad;
    if (!on) vars_[tensor].leaf_to_be = false;
    if (vars_.storage(vars_[tensor]).visible &&
        (on || vars_.is_written(vars_[tensor].facts.storage)))
      writes_.check_views_of_leaf(bind, tensor);
    if (!on && e_.requires_grad(vars_.read(tensor))) {
      static const ir::Op detach = ir::Op::get("aten::detach");
      vars_[tensor].current =
          e_.emit(detach, {Arg(vars_.read(tensor))}, vars_[tensor].facts, false);
    }
    vars_.alias_of(after, tensor);
    vars_[tensor].requires_grad_set = true;
    vars_[tensor].leaf_to_be =
        on && kept_.is_used(after) && writes_.is_used_with_views_after(bind, tensor);
    if (vars_[tensor].leaf_to_be && vars_[tensor].change != nullptr &&
        vars_.storage(vars_[tensor]).visible)
      throw Refusal("FG-187", "requires_grad_() was called on an argument after detach_()");
    seen_.changes.push_back({tensor, tensor, vars_.size(), &bind});
  }

  const Trace& in_;
  Emitter e_;
  Variables vars_;
  Writes writes_;
  KeptHistory kept_;
  Steps steps_;
  Shown shown_;
  Checkpoints checkpoints_;
  bool write_back_at_once_;
  bool written_early_ = false;
  std::vector<std::unique_ptr<Bind>> views_of_changes_;
  SeenByCaller seen_;
};

}  // namespace

std::vector<bool> inputs_whose_views_matter(const Trace& recorded) {
  std::set<int32_t> written;
  for (const Bind& b : recorded.binds)
    for (size_t a : ops::written_arguments(b))
      ir::for_each_value(b.args[a],
                         [&](ValueId id) { written.insert(recorded.value(id).storage); });
  std::vector<bool> matter;
  for (ValueId id : recorded.inputs) {
    const Value& v = recorded.value(id);
    matter.push_back(v.is_tensor() && v.tensor().requires_grad && written.count(v.storage) > 0);
  }
  return matter;
}

Functionalized functionalize(const Trace& recorded, bool write_back_at_once,
                             const std::vector<record::SharedInput>& shared,
                             const std::vector<ValueId>& views) {
  return Functionalizer(recorded, write_back_at_once).run(shared, views);
}

}  // namespace fulgurite::passes
