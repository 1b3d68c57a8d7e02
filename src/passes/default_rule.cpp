#include "passes/default_rule.h"

#include <ATen/ops/scalar_tensor.h>

#include "ir/builder.h"
#include "ir/errors.h"
#include "ir/schema_args.h"
#include "ir/stack.h"
#include "ops/traits.h"
#include "passes/cut_rule.h"
#include "passes/infer.h"
#include "record/recorder.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::TensorType;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

DefaultRule::DefaultRule(const Trace& trace, const Bind& bind, std::vector<TensorType> results,
                         const std::string& place)
    : slots_(slots_of(bind)), types_(std::move(results)), bind_(bind) {
  record::Pause pause;
  widen(trace, bind);
  std::vector<const TensorType*> cotangents;
  for (const TensorType& t : types_)
    cotangents.push_back(is_differentiable(t.dtype) ? &t : nullptr);
  try {
    rule_ = derive(*trace_, bind_, cotangents, wanted_);
  } catch (const Refusal& r) {
    throw rules::RuleError("FG-327", place + ": the operator has no default rule (" + r.message() +
                                         "); give both an augmented forward and a backward");
  }
}

void DefaultRule::widen(const Trace& trace, const Bind& bind) {
  ir::TraceBuilder b("rule", "rule");
  bind_.results.clear();
  auto add = [&](TensorType type) {
    type.requires_grad = is_differentiable(type.dtype);
    ir::Value v;
    v.type = type;
    v.name = "arg" + std::to_string(wanted_.size());
    wanted_.push_back(type.requires_grad);
    return b.add_input(std::move(v));
  };
  auto one = [&](ValueId& id) {
    if (id == kNoValue) {
      wanted_.push_back(false);
    } else if (trace.value(id).is_tensor()) {
      id = add(trace.value(id).tensor());
    } else {
      throw Refusal("FG-171", bind.op.id() + ": a user's rule for an operator whose argument " +
                                  trace.value(id).name + " is a number that varies");
    }
  };
  const auto& schema = bind.op.schema().arguments();
  at::ScalarType common = at::kFloat;
  for_each_arg(bind, [&](ValueId id) {
    if (trace.value(id).is_tensor() && is_differentiable(trace.value(id).tensor().dtype))
      common = trace.value(id).tensor().dtype;
  });
  for (size_t a = 0; a < bind_.args.size(); ++a) {
    Arg& arg = bind_.args[a];
    if (auto* id = std::get_if<ValueId>(&arg)) {
      one(*id);
    } else if (auto* list = std::get_if<ValueList>(&arg)) {
      for (ValueId& e : *list) one(e);
    } else if (std::get<IValue>(arg).isScalar() && ir::is_tensor_type(schema[a].type())) {
      TensorType type;
      type.dtype = common;
      arg = Arg(add(type));
    }
  }
  trace_ = b.finish();
}

bool DefaultRule::has_its_cotangents(const std::vector<at::Tensor>& cotangents) const {
  for (const Rule::Input& in : rule_->inputs)
    if (in.source == Rule::Source::Cotangent &&
        (in.index >= cotangents.size() || !cotangents[in.index].defined()))
      return false;
  return true;
}

rules::Augmented DefaultRule::forward(const std::vector<IValue>& arguments) const {
  rules::Augmented a;
  a.results = call_operator(bind_.op, arguments);
  const std::vector<at::Tensor> flat = tensors_of(a.results);
  auto argument = [&](size_t slot) {
    const Slot& s = slots_.at(slot);
    const IValue& v = arguments.at(s.argument);
    return v.isList() ? IValue(v.toListRef()[s.element]) : v;
  };
  for (const Rule::Input& in : rule_->inputs) {
    if (in.source == Rule::Source::Argument) a.saved.push_back(argument(in.index));
    if (in.source == Rule::Source::Result) a.saved.emplace_back(flat.at(in.index));
  }
  return a;
}

std::vector<at::Tensor> DefaultRule::backward(const std::vector<IValue>& saved,
                                              const std::vector<at::Tensor>& cotangents) const {
  const Trace& t = *rule_->trace;
  std::vector<IValue> env(t.values.size());
  size_t k = 0;
  for (size_t i = 0; i < t.inputs.size(); ++i) {
    const TensorType& type = t.value(t.inputs[i]).tensor();
    if (rule_->inputs[i].source == Rule::Source::Cotangent) {
      env[t.inputs[i]] = conform(cotangents[rule_->inputs[i].index], type);
    } else {
      const IValue& v = saved[k++];
      env[t.inputs[i]] = v.isTensor() ? v : IValue(at::scalar_tensor(v.toScalar(), type.dtype));
    }
  }
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant) env[id] = t.values[id].constant;
  torch::jit::Stack stack;
  for (const Bind& b : t.binds) ir::run_bind(b, env, stack);
  std::vector<at::Tensor> gradients(slots_.size());
  for (size_t g = 0; g < rule_->gradients_of.size(); ++g)
    if (t.outputs[g] != kNoValue) gradients[rule_->gradients_of[g]] = env[t.outputs[g]].toTensor();
  return gradients;
}

DefaultRuleTraces DefaultRule::traces() const {
  ir::TraceBuilder f(*trace_, "rule");
  f.trace().kind = ir::TraceKind::AugmentedForward;
  f.trace().functional = true;
  f.trace().name = "augmented_forward_" + bind_.op.base_name();
  Bind bind = bind_;
  std::vector<ValueId> results;
  for (const TensorType& t : types_) {
    ir::Value v;
    v.type = t;
    results.push_back(f.add_value(std::move(v)));
  }
  size_t in_list = results.size(), next = 0;
  for (const c10::Argument& r : bind.op.schema().returns())
    if (ir::is_tensor_type(r.type()) && in_list > 0) --in_list;
  for (const c10::Argument& r : bind.op.schema().returns()) {
    if (ir::is_tensor_type(r.type()) && next < results.size()) {
      bind.results.emplace_back(results[next++]);
    } else if (ir::is_tensor_list_type(r.type())) {
      ValueList list;
      for (size_t k = 0; k < in_list; ++k) list.push_back(results[next++]);
      bind.results.emplace_back(std::move(list));
    } else {
      bind.results.emplace_back(kNoValue);
    }
  }
  const std::vector<ValueId> arguments = tensor_arguments(*trace_, bind);
  if (ops::is_mutable(bind.op)) f.begin_epilogue();
  f.add_bind(bind);
  if (!ops::is_mutable(bind.op)) f.begin_epilogue();
  f.trace().outputs = results;
  for (const Rule::Input& in : rule_->inputs) {
    if (in.source == Rule::Source::Argument) f.trace().saved.push_back(arguments.at(in.index));
    if (in.source == Rule::Source::Result) f.trace().saved.push_back(results.at(in.index));
  }
  auto backward = std::make_shared<Trace>(*rule_->trace);
  backward->outputs.assign(slots_.size(), kNoValue);
  for (size_t g = 0; g < rule_->gradients_of.size(); ++g)
    backward->outputs.at(rule_->gradients_of[g]) = rule_->trace->outputs[g];
  return {f.finish(), backward};
}

DefaultRuleTraces default_rule_traces(const ir::Op& op, const std::vector<IValue>& arguments) {
  const OneBind one = one_bind(op, arguments);
  return DefaultRule(*one.trace, one.bind, infer_types(*one.trace, one.bind), op.id()).traces();
}

}  // namespace fulgurite::passes
