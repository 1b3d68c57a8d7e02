#include "passes/explicit_rules.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/builder.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/infer.h"

namespace fulgurite::passes {
namespace {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::Op;
using ir::TensorType;
using ir::ValueId;

// Writes one rule: `g` is the cotangent of result 0.
class RuleWriter {
 public:
  RuleWriter(const Op& of, const TensorType& cotangent)
      : rule_(std::make_shared<Rule>()), b_("backward_" + of.base_name(), "rule") {
    b_.trace().kind = ir::TraceKind::Rule;
    b_.trace().functional = true;
    ir::Value v;
    v.name = "g0";
    v.type = cotangent;
    g = b_.add_input(std::move(v));
    rule_->inputs.push_back({Rule::Source::Cotangent, 0});
  }

  // A result of the operator, or one of its tensor arguments, as an input of the rule.
  ValueId result(size_t index, const TensorType& type) {
    return input(Rule::Source::Result, "result", index, type);
  }
  ValueId argument(size_t index, const TensorType& type) {
    return input(Rule::Source::Argument, "arg", index, type);
  }

  ValueId emit(const Op& op, std::vector<Arg> args, const TensorType& type) {
    ir::Value v;
    TensorType t = type;
    t.requires_grad = false;
    v.type = std::move(t);
    const ValueId id = b_.add_value(std::move(v));
    b_.add_bind(Bind{op, std::move(args), {ir::Result(id)}, -1, -1, false});
    return id;
  }

  // Of a type that is found out on samples.
  ValueId emit(const Op& op, std::vector<Arg> args) {
    const Bind bind{op, args, {}, -1, -1, false};
    const TensorType type = infer_types(b_.trace(), bind).at(0);
    return emit(op, std::move(args), type);
  }

  void gradient(size_t argument, ValueId value) {
    rule_->gradients_of.push_back(argument);
    b_.trace().outputs.push_back(value);
  }

  std::shared_ptr<const Rule> finish() {
    rule_->trace = b_.finish();
    return rule_;
  }

  ValueId g;

 private:
  ValueId input(Rule::Source source, const char* name, size_t index, const TensorType& type) {
    ir::Value v;
    v.name = name + std::to_string(index);
    v.type = type;
    rule_->inputs.push_back({source, index});
    return b_.add_input(std::move(v));
  }

  std::shared_ptr<Rule> rule_;
  ir::TraceBuilder b_;
};

IValue ints(const ir::Dims& d) { return IValue(std::vector<int64_t>(d.begin(), d.end())); }

// The cotangent as a gradient of a tensor of this type.
ValueId conformed(RuleWriter& w, const TensorType& cotangent, const TensorType& of) {
  if (cotangent.dtype == of.dtype && cotangent.strides == of.strides) return w.g;
  TensorType type = of;
  return w.emit(prims::conform(),
                {Arg(w.g), Arg(IValue(static_cast<int64_t>(of.dtype))), Arg(ints(of.strides))},
                type);
}

// self with src written through a strided view: self's gradient is zero there, src's is that part
// of g. (The gradient that PyTorch derives for as_strided_scatter's self is that part, too; so this
// is ours.)
std::shared_ptr<const Rule> strided_scatter_rule(const ir::Trace& trace, const Bind& bind,
                                                 const TensorType& cotangent,
                                                 const std::vector<bool>& wanted) {
  static const Op zeros = Op::get("aten::zeros");
  const TensorType& self = trace.value(std::get<ValueId>(bind.args[0])).tensor();
  const TensorType& src = trace.value(std::get<ValueId>(bind.args[1])).tensor();
  RuleWriter w(bind.op, cotangent);
  TensorType type = cotangent;
  ValueId g = w.g;
  if (type.strides != self.strides) {
    type.strides = self.strides;
    g = w.emit(prims::conform(),
               {Arg(g), Arg(IValue(static_cast<int64_t>(type.dtype))), Arg(ints(self.strides))},
               type);
  }
  const std::vector<Arg> where(bind.args.begin() + 2, bind.args.end());
  TensorType part = src;
  if (wanted.at(0)) {
    part.strides = ir::default_strides(part.sizes);
    const IValue none;
    const ValueId zero = w.emit(zeros,
                                {Arg(ints(src.sizes)), Arg(IValue(static_cast<int64_t>(src.dtype))),
                                 Arg(none), Arg(IValue(src.device)), Arg(none)},
                                part);
    std::vector<Arg> args{Arg(g), Arg(zero)};
    args.insert(args.end(), where.begin(), where.end());
    w.gradient(0, w.emit(prims::strided_scatter(), std::move(args), type));
  }
  if (wanted.at(1)) {
    std::vector<Arg> args{Arg(g)};
    args.insert(args.end(), where.begin(), where.end());
    const auto strides = std::get<IValue>(bind.args[3]).toIntVector();
    part.strides.assign(strides.begin(), strides.end());
    w.gradient(1, w.emit(prims::strided_view(), std::move(args), part));
  }
  return w.finish();
}

// self with src written through a view, where PyTorch has no formula: complex numbers.
std::shared_ptr<const Rule> scatter_rule(const Bind& bind, const TensorType& cotangent,
                                         const Op& view, const std::vector<bool>& wanted) {
  static const Op zeros_like = Op::get("aten::zeros_like");
  RuleWriter w(bind.op, cotangent);
  auto with_place = [&](std::vector<Arg> args) {
    args.insert(args.end(), bind.args.begin() + 2, bind.args.end());
    return args;
  };
  const ValueId shown = w.emit(view, with_place({Arg(w.g)}));
  if (wanted.at(0)) {
    const Arg none{IValue()};
    const ValueId zeros = w.emit(zeros_like, {Arg(shown), none, none, none, none, none});
    w.gradient(0, w.emit(bind.op, with_place({Arg(w.g), Arg(zeros)})));
  }
  if (wanted.at(1)) w.gradient(1, shown);
  return w.finish();
}

// The formula of PyTorch's derivatives.yaml. It cannot be derived on samples: lengths must be
// positive, and add up to the size of the result.
std::shared_ptr<const Rule> pack_padded_sequence_rule(const ir::Trace& trace, const Bind& bind,
                                                      const TensorType& cotangent) {
  static const Op backward = Op::get("aten::_pack_padded_sequence_backward");
  const TensorType& input = trace.value(std::get<ValueId>(bind.args[0])).tensor();
  const TensorType& batch_sizes = trace.value(std::get<ValueId>(bind.results[1])).tensor();
  RuleWriter w(bind.op, cotangent);
  const ValueId sizes = w.result(1, batch_sizes);
  TensorType type = input;
  type.strides = ir::default_strides(type.sizes);
  if (std::get<IValue>(bind.args[2]).toBool()) {  // made time first, then transposed
    type.strides[0] = type.strides[1];
    type.strides[1] *= type.sizes[0];
  }
  w.gradient(0,
             w.emit(backward, {Arg(w.g), Arg(ints(input.sizes)), Arg(sizes), bind.args[2]}, type));
  return w.finish();
}

bool is_mask(const ir::Value& v) {
  return v.tensor().dtype == at::kBool || v.tensor().dtype == at::kByte;
}

// index_put with a mask among its indices: how many elements it chooses is known only when it runs.
// The formula of PyTorch's derivatives.yaml, but for an operator that gives the gradient of values
// in one step.
std::shared_ptr<const Rule> masked_index_put_rule(const ir::Trace& trace, const Bind& bind,
                                                  const TensorType& cotangent,
                                                  const std::vector<bool>& wanted) {
  static const Op zeros = Op::get("aten::zeros");
  const TensorType& self = trace.value(std::get<ValueId>(bind.args[0])).tensor();
  const auto& indices = std::get<ir::ValueList>(bind.args[1]);
  const Arg& accumulate = bind.args[3];
  RuleWriter w(bind.op, cotangent);
  ir::ValueList places;
  for (size_t i = 0; i < indices.size(); ++i)
    places.push_back(indices[i] == ir::kNoValue
                         ? ir::kNoValue
                         : w.argument(1 + i, trace.value(indices[i]).tensor()));
  if (wanted.at(0)) {
    ValueId g = conformed(w, cotangent, self);
    if (!std::get<IValue>(accumulate).toBool()) {
      const Arg none{IValue()}, dtype{IValue(static_cast<int64_t>(self.dtype))};
      const ValueId zero =
          w.emit(zeros, {Arg(ints({})), dtype, none, Arg(IValue(self.device)), none});
      g = w.emit(bind.op, {Arg(g), Arg(places), Arg(zero), accumulate});
    }
    w.gradient(0, g);
  }
  if (const size_t last = 1 + indices.size(); wanted.at(last)) {
    TensorType values = trace.value(std::get<ValueId>(bind.args[2])).tensor();
    values.strides = ir::default_strides(values.sizes);
    w.gradient(
        last, w.emit(prims::index_sum(), {Arg(w.g), Arg(places), Arg(ints(values.sizes))}, values));
  }
  return w.finish();
}

bool has_mask(const ir::Trace& trace, const Bind& bind) {
  const auto* indices = std::get_if<ir::ValueList>(&bind.args[1]);
  return indices != nullptr && std::any_of(indices->begin(), indices->end(), [&](ValueId id) {
           return id != ir::kNoValue && is_mask(trace.value(id));
         });
}

}  // namespace

std::shared_ptr<const Rule> explicit_rule(const ir::Trace& trace, const Bind& bind,
                                          const std::vector<const TensorType*>& cotangents,
                                          const std::vector<bool>& wanted) {
  if (bind.op == prims::copy_()) {
    // The write-back: its gradient goes to the source.
    const TensorType& source = trace.value(std::get<ValueId>(bind.args[0])).tensor();
    RuleWriter w(bind.op, *cotangents.at(0));
    if (wanted.at(0)) w.gradient(0, conformed(w, *cotangents.at(0), source));
    return w.finish();
  }
  if (bind.op == prims::set_data()) {
    RuleWriter w(bind.op, *cotangents.at(0));
    w.gradient(0, w.g);
    return w.finish();
  }
  if (bind.op == prims::replace()) {
    static const Op zeros_like = Op::get("aten::zeros_like");
    RuleWriter w(bind.op, *cotangents.at(0));
    const Arg none{IValue()};
    if (wanted.at(0)) w.gradient(0, w.emit(zeros_like, {Arg(w.g), none, none, none, none, none}));
    if (wanted.at(1)) w.gradient(1, w.g);
    return w.finish();
  }
  if (bind.op == prims::strided_scatter())
    return strided_scatter_rule(trace, bind, *cotangents.at(0), wanted);
  if (const auto view = ops::written_view(bind.op);
      view && at::isComplexType(cotangents.at(0)->dtype))
    return scatter_rule(bind, *cotangents.at(0), *view, wanted);
  static const Op pack_padded_sequence = Op::get("aten::_pack_padded_sequence");
  if (bind.op == pack_padded_sequence)
    return pack_padded_sequence_rule(trace, bind, *cotangents.at(0));
  static const Op index_put = Op::get("aten::index_put");
  if (bind.op == index_put && has_mask(trace, bind))
    return masked_index_put_rule(trace, bind, *cotangents.at(0), wanted);
  return nullptr;
}

}  // namespace fulgurite::passes
