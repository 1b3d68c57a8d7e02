#include "passes/functional/writes.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/errors.h"
#include "ops/prims.h"
#include "passes/functional/overlap.h"
#include "passes/infer.h"

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

namespace {

bool differentiable_type(at::ScalarType t) { return at::isFloatingType(t) || at::isComplexType(t); }

bool written_is_hidden(const Bind& bind) { return !bind.op.schema().is_mutable(); }

}  // namespace

void Writes::carry_over(const Bind& bind, const std::vector<size_t>& written) {
  // The variables written, in the order of the schema.
  std::vector<int> targets;
  for (size_t i : written)
    ir::for_each_value(bind.args[i], [&](ValueId id) { targets.push_back(vars_.of(id)); });
  for (int t : targets) {
    if (overlaps_itself(vars_[t].facts.tensor()))
      throw Refusal("FG-165", bind.op.id() + " writes a tensor whose elements share memory");
    check_restricted_views(bind, t);
  }
  check_overlaps(bind, written);
  resize_empty_outs(bind, targets);
  std::vector<ValueId> contents;
  const auto functional = ops::functional_variant(bind.op);
  bool functional_applied = false;
  const bool is_copy = ops::copies_argument(bind.op);
  const size_t old_results = written_is_hidden(bind) ? bind.results.size() : 0;
  if (is_copy) {
    contents = {copied(bind, vars_[targets[0]].facts)};
    const ValueId before = vars_.read(targets[0]);
    if (bind.grad_mode && e_.requires_grad(before))
      contents[0] =
          e_.emit(prims::replace(), {Arg(before), Arg(contents[0])}, vars_[targets[0]].facts, true);
  } else if (functional && bind.op != functional->op && !draws_in_memory_order(bind, targets)) {
    contents = apply_functional(bind, *functional, written, old_results);
    functional_applied = true;
  } else {
    contents = apply_to_clones(bind, written);
  }
  if (!functional_applied) computed_by_ = e_.b.trace().binds.size() - 1;
  if (contents.size() != targets.size())
    throw Refusal("FG-155", bind.op.id() + ": expected " + std::to_string(targets.size()) +
                                " written tensors, found " + std::to_string(contents.size()));
  // Results that are the written tensors: the same variables, with the facts after the write.
  size_t next = 0;
  for (size_t r = 0; r < bind.results.size() && !written_is_hidden(bind); ++r) {
    const auto* alias = bind.op.schema().returns()[r].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    ir::for_each_value(bind.results[r], [&](ValueId id) {
      for (size_t t = 0; t < targets.size(); ++t) {
        const size_t pick = (next + t) % targets.size();
        if (vars_[targets[pick]].facts.storage == in_.value(id).storage) {
          if (vars_[targets[pick]].facts.tensor().sizes != in_.value(id).tensor().sizes)
            throw Refusal("FG-156", bind.op.id() +
                                        " resized a tensor that it writes, which had elements or "
                                        "shares memory");
          vars_.alias_of(id, targets[pick]);
          next = pick + 1;
          return;
        }
      }
      throw Refusal("FG-157", bind.op.id() + " returns a tensor that is none of those it writes");
    });
  }
  for (size_t t = 0; t < targets.size(); ++t)
    vars_.write(targets[t], contents[t], ops::bumps_versions(bind.op), computed_by_);
}

// An empty tensor that is given as out= takes the shape of the result. (One with elements does so
// with a warning: that is left to eager.)
void Writes::resize_empty_outs(const Bind& bind, const std::vector<int>& targets) {
  size_t next = 0;
  for (size_t r = 0; r < bind.results.size(); ++r) {
    const auto* alias = bind.op.schema().returns()[r].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    ir::for_each_value(bind.results[r], [&](ValueId id) {
      if (next >= targets.size()) return;
      Variable& v = vars_[targets[next++]];
      const bool own = v.parent < 0 && !v.is_constant && vars_.storage(v).variables.size() == 1 &&
                       v.facts.storage == in_.value(id).storage;
      if (!own || v.facts.tensor().numel() != 0) return;
      v.resized =
          v.resized || (v.is_given() && v.facts.tensor().sizes != in_.value(id).tensor().sizes);
      v.facts = in_.value(id);
    });
  }
}

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

// Random numbers are drawn in the order of the memory that they fill: another layout, other
// numbers.
bool Writes::draws_in_memory_order(const Bind& bind, const std::vector<int>& targets) const {
  if (!ops::is_random(bind.op)) return false;
  for (int t : targets)
    if (!vars_[t].facts.tensor().is_contiguous()) return true;
  return false;
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
    if (i != target && vars_.is_within(i, target) && is_used_after(bind, i))
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
  return is_any_used_after(bind, /*in_grad_mode=*/false, [&](int v) { return v == variable; });
}

// The same in grad mode, and for its views. (Views that are made later are no use: they begin with
// what the memory holds then.)
bool Writes::is_used_with_views_after(const Bind& bind, int variable) const {
  return is_any_used_after(bind, /*in_grad_mode=*/true,
                           [&](int v) { return vars_.is_within(v, variable); });
}

bool Writes::is_any_used_after(const Bind& bind, bool in_grad_mode,
                               const std::function<bool(int)>& is_one) const {
  std::unordered_set<ValueId> later;  // what operators that write one return: the same tensor
  auto shows = [&](ValueId id) {
    return id != kNoValue && in_.value(id).is_tensor() &&
           (is_one(vars_.of(id)) || later.count(id) > 0);
  };
  for (const Bind* b = &bind; b != in_.binds.data() + in_.binds.size(); ++b) {
    bool used = false;
    if (b != &bind && (b->grad_mode || !in_grad_mode))
      for_each_arg(*b, [&](ValueId id) { used = used || shows(id); });
    if (used) return true;
    for (size_t a : ops::written_arguments(*b))
      ir::for_each_value(b->args[a], [&](ValueId written) {
        if (!shows(written)) return;
        for_each_result(*b, [&](ValueId id) {
          if (in_.value(id).is_tensor() && in_.value(id).storage == in_.value(written).storage)
            later.insert(id);
        });
      });
  }
  return std::any_of(in_.outputs.begin(), in_.outputs.end(), shows);
}

// copy_(self, src): the values of src in the geometry of self, in memory of its own.
ValueId Writes::copied(const Bind& bind, const Value& target) {
  static const Op to_copy = Op::get("aten::_to_copy");
  static const Op clone = Op::get("aten::clone");
  static const Op expand = Op::get("aten::expand");
  if (!std::holds_alternative<ValueId>(bind.args[1]))
    throw Refusal("FG-161", "copy_ of a number into a tensor is not compiled yet");
  ValueId src = vars_.read_recorded(std::get<ValueId>(bind.args[1]));
  const ir::TensorType& want = target.tensor();
  const ir::TensorType have = e_.b.value(src).tensor();
  const bool differentiable =
      e_.requires_grad(src) && bind.grad_mode && differentiable_type(want.dtype);
  Value like = e_.b.value(src);
  ir::TensorType& type = std::get<ir::TensorType>(like.type);
  type.dtype = want.dtype;
  type.device = want.device;
  type.strides = ir::default_strides(type.sizes);
  const IValue none;
  if (have.dtype != want.dtype || have.device != want.device) {
    src = e_.emit(to_copy,
                  {Arg(src), Arg(IValue(static_cast<int64_t>(want.dtype))), Arg(none),
                   Arg(IValue(want.device)), Arg(none), Arg(IValue(false)),
                   Arg(IValue(static_cast<int64_t>(at::MemoryFormat::Contiguous)))},
                  like, differentiable);
  } else {
    src =
        e_.emit(clone, {Arg(src), Arg(IValue(static_cast<int64_t>(at::MemoryFormat::Contiguous)))},
                like, differentiable);
  }
  if (have.sizes != want.sizes) {
    type.strides = {};
    const auto lead = want.sizes.size() - have.sizes.size();
    const ir::Dims dense = ir::default_strides(have.sizes);
    for (size_t d = 0; d < want.sizes.size(); ++d)
      type.strides.push_back(d < lead || have.sizes[d - lead] != want.sizes[d] ? 0
                                                                               : dense[d - lead]);
    type.sizes = want.sizes;
    src = e_.emit(expand, {Arg(src), Arg(ints(want.sizes)), Arg(IValue(false))}, like,
                  differentiable);
  }
  if (type.strides != want.strides) {
    type.strides = want.strides;
    src =
        e_.emit(prims::conform(),
                {Arg(src), Arg(IValue(static_cast<int64_t>(want.dtype))), Arg(ints(want.strides))},
                like, differentiable);
  }
  return src;
}

std::vector<ValueId> Writes::apply_functional(const Bind& bind, const ops::Functional& f,
                                              const std::vector<size_t>& written,
                                              size_t old_results) {
  Bind out{f.op, {}, {}, bind.location, e_.region, bind.grad_mode};
  for (int a : f.argument_of) out.args.push_back(vars_.mapped(bind.args[static_cast<size_t>(a)]));
  for (size_t r = 0; r < old_results; ++r) out.results.push_back(vars_.define(bind.results[r]));
  std::vector<ValueId> contents;
  std::vector<ValueId> recorded_after;  // results of the recorded op that are the written tensors
  if (old_results == 0)
    for (const Result& r : bind.results)
      ir::for_each_value(r, [&](ValueId id) { recorded_after.push_back(id); });
  std::vector<int> targets;
  auto result_like = [&](ValueId recorded) {
    const Variable& v = vars_[vars_.of(recorded)];
    targets.push_back(vars_.of(recorded));
    const size_t k = contents.size();
    bool rg = v.facts.tensor().requires_grad;
    if (k < recorded_after.size()) rg = in_.value(recorded_after[k]).tensor().requires_grad;
    contents.push_back(e_.b.add_value(Emitter::typed(v.facts.tensor(), rg && bind.grad_mode)));
    return contents.back();
  };
  for (size_t i = 0; i < bind.args.size(); ++i) {
    if (!ops::writes_argument(bind.op, i)) continue;
    if (std::find(written.begin(), written.end(), i) == written.end()) {
      // An empty list, or None: the functional operator has a result for it all the same.
      const bool is_list =
          bind.op.schema().arguments()[i].type()->kind() == c10::TypeKind::ListType;
      out.results.push_back(is_list ? Result(ValueList()) : Result(kNoValue));
    } else if (const auto* id = std::get_if<ValueId>(&bind.args[i])) {
      out.results.emplace_back(result_like(*id));
    } else {
      ValueList list;
      for (ValueId e : std::get<ValueList>(bind.args[i])) list.push_back(result_like(e));
      out.results.emplace_back(std::move(list));
    }
  }
  const bool into_out = bind.op.schema().arguments()[written[0]].kwarg_only();
  conform(out, contents, into_out);
  return contents;
}

// Whether a functional operator returns the dtype that the written tensors have: comparisons do
// not.
bool Writes::has_same_dtype(const Bind& out, const std::vector<ValueId>& contents) const {
  static thread_local std::unordered_map<std::string, bool> known;
  std::ostringstream key;
  key << out.op.id();
  auto value = [&](ValueId id) {
    if (id == kNoValue) return;
    const Value& v = e_.b.value(id);
    key << ' ' << v.type.index();
    if (v.is_tensor())
      key << static_cast<int>(v.tensor().dtype) << (v.tensor().sizes.empty() ? 's' : 't');
  };
  for (const Arg& a : out.args) {
    key << '|';
    if (const auto* id = std::get_if<ValueId>(&a)) value(*id);
    if (const auto* list = std::get_if<ValueList>(&a))
      for (ValueId id : *list) value(id);
    if (const auto* c = std::get_if<IValue>(&a)) {
      key << c->tagKind();
      if (c->isInt()) key << c->toInt();  // perhaps a dtype
    }
  }
  auto [it, is_new] = known.emplace(key.str(), true);
  if (is_new) {
    const std::vector<ir::TensorType> real = infer_types(e_.b.trace(), out);
    const size_t skip = real.size() - contents.size();
    for (size_t k = 0; k < contents.size(); ++k)
      it->second = it->second && real[skip + k].dtype == e_.b.value(contents[k]).tensor().dtype;
  }
  return it->second;
}

// The functional operator may choose another dtype or other strides than the variable has.
void Writes::conform(Bind& out, std::vector<ValueId>& contents, bool into_out) {
  bool sure = true;
  for (ValueId c : contents) {
    const ir::TensorType& type = e_.b.value(c).tensor();
    sure = sure && type.strides == ir::default_strides(type.sizes);
  }
  for_each_arg(out, [&](ValueId a) {
    const Value& v = e_.b.value(a);
    if (!v.is_tensor()) return;
    sure = sure && v.tensor().is_contiguous();
    if (v.tensor().dtype != e_.b.value(contents[0]).tensor().dtype && !v.tensor().sizes.empty())
      sure = false;
    if (v.tensor().sizes.empty() && !contents.empty() &&
        v.tensor().dtype != e_.b.value(contents[0]).tensor().dtype)
      sure = false;
  });
  sure = sure && has_same_dtype(out, contents);
  std::vector<ir::TensorType> real;
  if (!sure) real = infer_types(e_.b.trace(), out);
  std::vector<std::pair<size_t, ir::TensorType>> differ;
  if (!sure) {
    // Results of `out` in flat order end with the written ones.
    const size_t skip = real.size() - contents.size();
    for (size_t k = 0; k < contents.size(); ++k) {
      ir::TensorType& type = std::get<ir::TensorType>(e_.b.trace().values[contents[k]].type);
      ir::TensorType& found = real[skip + k];
      if (found.dtype != type.dtype && into_out)
        throw Refusal(
            "FG-168",
            out.op.id() +
                " is given an out= of another dtype than its result, in which it computes");
      if (found.dtype == type.dtype && found.strides == type.strides) continue;
      differ.emplace_back(k, type);
      if (type.requires_grad && !differentiable_type(found.dtype))
        throw Refusal("FG-174", out.op.id() + " has a result without history, written in place");
      found.requires_grad = type.requires_grad;
      type = found;
    }
  }
  e_.b.add_bind(std::move(out));
  computed_by_ = e_.b.trace().binds.size() - 1;  // not what follows to conform
  for (auto& [k, type] : differ) {
    Value like;
    like.type = type;
    const ValueId result = contents[k];
    contents[k] = e_.emit(
        prims::conform(),
        {Arg(contents[k]), Arg(IValue(static_cast<int64_t>(type.dtype))), Arg(ints(type.strides))},
        like, type.requires_grad);
    vars_.is_result(contents[k], result);
  }
}

// No functional variant (custom operators): run the operator itself on copies made for it.
std::vector<ValueId> Writes::apply_to_clones(const Bind& bind, const std::vector<size_t>& written) {
  Bind out{bind.op, {}, {}, bind.location, e_.region, bind.grad_mode};
  std::vector<ValueId> contents;
  for (size_t i = 0; i < bind.args.size(); ++i) {
    Arg a = vars_.mapped(bind.args[i]);
    if (std::find(written.begin(), written.end(), i) != written.end()) {
      auto copy = [&](ValueId id) {
        contents.push_back(vars_.copy_of(id, e_.requires_grad(id) && bind.grad_mode));
        return contents.back();
      };
      if (auto* id = std::get_if<ValueId>(&a)) *id = copy(*id);
      if (auto* list = std::get_if<ValueList>(&a))
        for (ValueId& id : *list) id = copy(id);
    }
    out.args.push_back(std::move(a));
  }
  for (ValueId c : contents)
    if (e_.requires_grad(c))
      throw Refusal(
          "FG-158",
          bind.op.id() + " writes a tensor that requires grad and has no functional variant");
  for (size_t i = 0; i < bind.results.size(); ++i) {
    const Result& r = bind.results[i];
    const auto* alias = bind.op.schema().returns()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) {
      out.results.push_back(vars_.define(r));
      continue;
    }
    Result nothing = r;
    if (auto* id = std::get_if<ValueId>(&nothing)) *id = kNoValue;
    if (auto* list = std::get_if<ValueList>(&nothing))
      for (ValueId& id : *list) id = kNoValue;
    out.results.push_back(std::move(nothing));
  }
  e_.b.add_bind(std::move(out));
  return contents;
}

}  // namespace fulgurite::passes
