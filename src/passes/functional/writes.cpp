#include "passes/functional/writes.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <unordered_map>

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

// Random numbers are drawn in the order of the memory that they fill: another layout, other
// numbers.
bool Writes::draws_in_memory_order(const Bind& bind, const std::vector<int>& targets) const {
  if (!ops::is_random(bind.op)) return false;
  for (int t : targets)
    if (!vars_[t].facts.tensor().is_contiguous()) return true;
  return false;
}

// What a functional operator gives in that place of its lists (_foreach_): of the tensors there.
bool Writes::gives_history(const Bind& functional, size_t position) const {
  bool gives = false;
  auto look = [&](ValueId id) {
    gives = gives || (id != kNoValue && e_.b.value(id).is_tensor() && e_.requires_grad(id));
  };
  for (const Arg& a : functional.args) {
    if (const auto* id = std::get_if<ValueId>(&a)) look(*id);
    if (const auto* list = std::get_if<ValueList>(&a); list != nullptr && position < list->size())
      look((*list)[position]);
  }
  return gives;
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
  bool mixed = false;  // with tensors that can have no history
  bool any = false;
  auto result_like = [&](ValueId recorded, size_t position) {
    const Variable& v = vars_[vars_.of(recorded)];
    targets.push_back(vars_.of(recorded));
    const size_t k = contents.size();
    bool rg = v.facts.tensor().requires_grad;
    if (k < recorded_after.size()) rg = in_.value(recorded_after[k]).tensor().requires_grad;
    if (recorded_after.empty() && old_results == 0) rg = gives_history(out, position);
    mixed = mixed || !differentiable_type(v.facts.tensor().dtype);
    any = any || rg;
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
      out.results.emplace_back(result_like(*id, 0));
    } else {
      ValueList list;
      for (ValueId e : std::get<ValueList>(bind.args[i]))
        list.push_back(result_like(e, list.size()));
      out.results.emplace_back(std::move(list));
    }
  }
  if (mixed && any && contents.size() > 1)
    throw Refusal("FG-174", bind.op.id() + " writes tensors with a history and integers");
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
