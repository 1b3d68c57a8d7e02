#include "passes/operator_call.h"

#include "ir/builder.h"
#include "ir/schema_args.h"
#include "ir/stack.h"
#include "ops/prims.h"
#include "record/recorder.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Bind;
using ir::kNoValue;
using ir::TensorType;
using ir::ValueId;
using ir::ValueList;

std::vector<Slot> slots_of(const Bind& bind) {
  std::vector<Slot> slots;
  int flat = 0;
  const auto& schema = bind.op.schema().arguments();
  for (size_t a = 0; a < bind.args.size(); ++a) {
    if (const auto* list = std::get_if<ValueList>(&bind.args[a])) {
      for (size_t e = 0; e < list->size(); ++e)
        slots.push_back({a, e, (*list)[e] == kNoValue ? -1 : flat + static_cast<int>(e)});
      flat += static_cast<int>(list->size());
    } else if (const auto* id = std::get_if<ValueId>(&bind.args[a])) {
      slots.push_back({a, 0, *id == kNoValue ? -1 : flat});
      ++flat;
    } else if (ir::is_tensor_type(schema[a].type())) {
      slots.push_back({a, 0, -1});
    }
  }
  return slots;
}

std::vector<IValue> call_operator(const ir::Op& op, const std::vector<IValue>& arguments) {
  torch::jit::Stack stack;
  const auto& schema = op.schema().arguments();
  for (size_t a = 0; a < arguments.size(); ++a) {
    const IValue& v = arguments[a];
    stack.push_back(v.isTensor() || v.isList() ? v : ir::boxed_constant(v, schema[a].type()));
  }
  op.handle().callBoxed(&stack);
  return stack;
}

std::vector<at::Tensor> tensors_of(const std::vector<IValue>& results) {
  std::vector<at::Tensor> flat;
  for (const IValue& v : results) {
    if (v.isTensor()) flat.push_back(v.toTensor());
    if (v.isTensorList())
      for (const IValue& e : v.toListRef()) flat.push_back(e.toTensor());
  }
  return flat;
}

at::Tensor conform(const at::Tensor& t, const TensorType& type) {
  if (t.strides() == at::IntArrayRef(type.strides)) return t;
  torch::jit::Stack stack{IValue(t), IValue(static_cast<int64_t>(type.dtype)),
                          IValue(std::vector<int64_t>(type.strides.begin(), type.strides.end()))};
  prims::conform().handle().callBoxed(&stack);
  return stack.back().toTensor();
}

OneBind one_bind(const ir::Op& op, const std::vector<IValue>& arguments) {
  ir::TraceBuilder b("rule", "rule");
  OneBind one{nullptr, Bind{op, {}, {}}, {}};
  auto add = [&](const at::Tensor& t) {
    if (!t.defined()) return kNoValue;
    for (size_t i = 0; i < one.tensors.size(); ++i)
      if (one.tensors[i].is_same(t)) return b.trace().inputs[i];
    ir::Value v;
    v.type = ir::type_of(t);
    v.name = "arg" + std::to_string(one.tensors.size());
    one.tensors.push_back(t);
    return b.add_input(std::move(v));
  };
  const auto& schema = op.schema().arguments();
  for (size_t a = 0; a < schema.size(); ++a) {
    const IValue v = a < arguments.size() ? arguments[a] : schema[a].default_value().value();
    if (v.isTensor()) {
      const at::Tensor& t = v.toTensor();
      if (t.defined() && t.unsafeGetTensorImpl()->is_wrapped_number()) {
        record::Pause pause;
        one.bind.args.emplace_back(IValue(t.item()));
      } else {
        one.bind.args.emplace_back(add(t));
      }
    } else if (v.isTensorList() || v.isOptionalTensorList()) {
      ValueList list;
      for (const IValue& e : v.toListRef())
        list.push_back(e.isTensor() ? add(e.toTensor()) : kNoValue);
      one.bind.args.emplace_back(std::move(list));
    } else {
      one.bind.args.emplace_back(v);
    }
  }
  ir::normalize_args(one.bind.args, op.schema());
  one.trace = b.finish();
  return one;
}

}  // namespace fulgurite::passes
