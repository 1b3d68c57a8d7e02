// What variables hold, as values: views of a new base, bases after a view was written, copies.
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/errors.h"
#include "ops/cards.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/functional/overlap.h"
#include "passes/functional/variables.h"
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

ValueId Variables::taken_of(const Op& op, int parent, ValueId base) {
  static const Op resolve = Op::get("aten::resolve_conj");
  const ops::Card* card = ops::card_of(op);
  if (card == nullptr || (card->traits & ops::kTakesNoConjugate) == 0) return base;
  for (int i = parent; i >= 0; i = vars_[i].parent)
    if (vars_[i].view != nullptr && ops::inverse_of_value_view(vars_[i].view->op) != nullptr)
      return e_.emit(resolve, {Arg(base)}, vars_[parent].facts, e_.requires_grad(base));
  return base;
}

// The view `v` of a new value of its parent.
ValueId Variables::derive(const Variable& v, ValueId base) {
  const Variable& p = vars_[v.parent];
  if (v.view != nullptr) {
    std::vector<Arg> args = v.view->args;
    args[0] = Arg(taken_of(v.view->op, v.parent, base));
    return e_.emit(v.view->op, std::move(args), v.facts, e_.requires_grad(base) && !v.cut);
  }
  // Of an expanded tensor, that would be as_strided's gradient: shared among the elements in one
  // place.
  const bool by_operator =
      v.made_by != nullptr && !v.single && std::holds_alternative<ValueId>(v.made_by->args[0]);
  if (by_operator && overlaps_itself(p.facts.tensor())) return derive_with_others(v, base);
  require_same_dtype(v, p);
  return e_.emit(prims::strided_view(),
                 {Arg(base), Arg(ints(v.facts.tensor().sizes)), Arg(ints(v.facts.tensor().strides)),
                  Arg(IValue(v.facts.offset - p.facts.offset))},
                 v.facts, e_.requires_grad(base) && !v.cut);
}

// One of several results of its operator.
ValueId Variables::derive_with_others(const Variable& v, ValueId base) {
  Bind again{v.made_by->op, v.made_by->args, {}, e_.location, e_.region, e_.grad_mode};
  again.args[0] = Arg(base);
  ValueId wanted = kNoValue;
  auto one = [&](ValueId recorded) {
    if (recorded == kNoValue) return kNoValue;
    const Variable& other = vars_[variable_of_[recorded]];
    const ValueId id =
        e_.b.add_value(Emitter::typed(other.facts.tensor(), e_.requires_grad(base) && !other.cut));
    if (&other == &v) wanted = id;
    return id;
  };
  for (const Result& r : v.made_by->results) {
    if (const auto* id = std::get_if<ValueId>(&r)) {
      again.results.emplace_back(one(*id));
      continue;
    }
    ValueList list;
    for (ValueId id : std::get<ValueList>(r)) list.push_back(one(id));
    again.results.emplace_back(std::move(list));
  }
  e_.b.add_bind(std::move(again));
  return wanted;
}

void Variables::require_same_dtype(const Variable& v, const Variable& p) const {
  if (v.facts.tensor().dtype != p.facts.tensor().dtype)
    throw Refusal("FG-153", "a view of another dtype (" + v.facts.name +
                                ") is written or shares memory that is written");
}

// The parent's value after its view `v` was given the value `contents`.
ValueId Variables::scatter(const Variable& v, ValueId base, ValueId contents) {
  const Variable& p = vars_[v.parent];
  const bool rg = e_.requires_grad(base) || (e_.requires_grad(contents) && !v.cut);
  const auto& vt = v.facts.tensor();
  const auto& pt = p.facts.tensor();
  if (v.view != nullptr) {
    if (const char* inverse = ops::inverse_of_value_view(v.view->op))
      return conformed(Op::get(inverse), {Arg(contents)}, p.facts, rg);
  }
  if (vt.sizes == pt.sizes && vt.strides == pt.strides && vt.dtype == pt.dtype &&
      v.facts.offset == p.facts.offset)
    return contents;
  if (v.view != nullptr) {
    const ops::Card* card = ops::card_of(v.view->op);
    // These have no gradient for complex numbers.
    const bool has_gradient = !rg || !c10::isComplexType(pt.dtype);
    if (card != nullptr && card->scatter != nullptr && has_gradient) {
      std::vector<Arg> args{Arg(base), Arg(contents)};
      args.insert(args.end(), v.view->args.begin() + 1, v.view->args.end());
      return e_.emit(Op::get(card->scatter), std::move(args), p.facts, rg);
    }
    if (auto inverse = ops::inverse_permutation(*v.view, contents))
      return e_.emit(inverse->op, std::move(inverse->args), p.facts, rg);
    if (v.facts.offset == p.facts.offset && vt.numel() == pt.numel() && vt.is_contiguous() &&
        pt.is_contiguous() && vt.dtype == pt.dtype) {
      return e_.emit(Op::get("aten::view"), {Arg(contents), Arg(ints(pt.sizes))}, p.facts, rg);
    }
  }
  return scatter_strided(v, p, base, contents);
}

ValueId Variables::scatter_strided(const Variable& v, const Variable& p, ValueId base,
                                   ValueId contents) {
  require_same_dtype(v, p);
  const auto& vt = v.facts.tensor();
  return e_.emit(prims::strided_scatter(),
                 {Arg(base), Arg(contents), Arg(ints(vt.sizes)), Arg(ints(vt.strides)),
                  Arg(IValue(v.facts.offset - p.facts.offset))},
                 p.facts, e_.requires_grad(base) || (e_.requires_grad(contents) && !v.cut));
}

const Bind* Variables::taken_alone(const Bind& view, ValueId recorded) {
  const auto [it, is_new] = taken_one_by_one_.try_emplace(&view);
  if (is_new) it->second = ops::taken_one_by_one(in_, view);
  if (it->second.empty()) return nullptr;
  const auto& all = std::get<ValueList>(view.results[0]);
  return &it->second[static_cast<size_t>(std::find(all.begin(), all.end(), recorded) -
                                         all.begin())];
}

ValueId Variables::copy_of(ValueId id, bool requires_grad) {
  static const Op clone = Op::get("aten::clone");
  return conformed(clone, {Arg(id), Arg(IValue())}, e_.b.value(id), requires_grad);
}

ValueId Variables::conformed(const Op& op, std::vector<Arg> args, Value like, bool requires_grad) {
  if (like.tensor().is_dense()) return e_.emit(op, std::move(args), like, requires_grad);
  Value dense = like;
  dense.type = infer_types(e_.b.trace(), Bind{op, args, {}, -1, -1, false}).at(0);
  const ValueId result = e_.emit(op, std::move(args), dense, requires_grad);
  if (overlaps_itself(like.tensor()) || dense.tensor().strides == like.tensor().strides)
    return result;
  return e_.emit(prims::conform(),
                 {Arg(result), Arg(IValue(static_cast<int64_t>(like.tensor().dtype))),
                  Arg(ints(like.tensor().strides))},
                 like, requires_grad);
}

ValueId Variables::in_recorded_layout(ValueId id, const Variable& v) {
  const Value& facts = v.facts;
  if (facts.offset != 0 || !v.written) return id;
  // Where a dimension has one element, operators choose its stride in their own ways.
  const auto& sizes = facts.tensor().sizes;
  const bool any_stride = std::find(sizes.begin(), sizes.end(), 1) != sizes.end();
  const auto& binds = e_.b.trace().binds;
  ValueId memory = id;  // the value whose memory it has
  for (size_t i = binds.size(); i-- > 0;) {
    bool made = false;
    ir::for_each_result(binds[i], [&](ValueId r) { made = made || r == memory; });
    if (!made) continue;
    if (!any_stride && ops::is_view(binds[i].op) &&
        std::holds_alternative<ValueId>(binds[i].args[0])) {
      memory = std::get<ValueId>(binds[i].args[0]);
      continue;
    }
    if (!any_stride && !ops::keeps_offset(binds[i].op)) return id;
    const auto& type = e_.b.value(id).tensor();
    return e_.emit(
        prims::conform(),
        {Arg(id), Arg(IValue(static_cast<int64_t>(type.dtype))), Arg(ints(type.strides))}, facts,
        type.requires_grad);
  }
  return id;
}

// Something the caller may keep: made by the trace, and given to nobody else.
ValueId Variables::fresh(int r) {
  const ValueId id = vars_[r].current = in_recorded_layout(read(r), vars_[r]);
  auto [it, is_new] = given_out_.emplace(id, r);
  if (e_.b.value(id).kind == ir::ValueKind::Result && (is_new || it->second == r)) return id;
  const ValueId copy = copy_of(id, e_.requires_grad(id));
  vars_[r].current = copy;
  given_out_.emplace(copy, r);
  return copy;
}

}  // namespace fulgurite::passes
