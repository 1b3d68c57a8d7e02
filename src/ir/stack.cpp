#include "ir/stack.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>

#include "ir/errors.h"

namespace fulgurite::ir {
namespace {

c10::TypePtr unwrap_optional(const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

}  // namespace

c10::IValue boxed_constant(const c10::IValue& constant, const c10::TypePtr& type) {
  const c10::TypePtr inner = unwrap_optional(type);
  if (inner->kind() == c10::TypeKind::TensorType) {
    if (constant.isNone())
      return type->kind() == c10::TypeKind::TensorType ? c10::IValue(at::Tensor()) : constant;
    if (constant.isScalar()) {
      at::Tensor number = c10::scalar_to_tensor(constant.toScalar());
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      return number;
    }
  }
  return constant;
}

c10::IValue boxed_list(const std::vector<c10::IValue>& items, const c10::TypePtr& type) {
  const c10::TypePtr inner = unwrap_optional(type);
  auto list_type = inner->cast<c10::ListType>();
  const c10::TypeKind element =
      list_type ? list_type->getElementType()->kind() : c10::TypeKind::TensorType;
  auto tensor = [](const c10::IValue& v) { return v.isTensor() ? v.toTensor() : at::Tensor(); };
  if (element == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(items.size());
    for (const c10::IValue& v : items) {
      const at::Tensor t = tensor(v);
      list.push_back(t.defined() ? std::optional<at::Tensor>(t) : std::nullopt);
    }
    return list;
  }
  if (element != c10::TypeKind::TensorType) {
    c10::impl::GenericList list(list_type->getElementType());
    list.reserve(items.size());
    for (const c10::IValue& v : items) list.push_back(v);
    return c10::IValue(std::move(list));
  }
  c10::List<at::Tensor> list;
  list.reserve(items.size());
  for (const c10::IValue& v : items) list.push_back(tensor(v));
  return list;
}

void push_arguments(const Bind& bind, const std::vector<c10::IValue>& env,
                    std::vector<c10::IValue>& stack) {
  const auto& arguments = bind.op.schema().arguments();
  for (size_t i = 0; i < bind.args.size(); ++i) {
    const Arg& a = bind.args[i];
    const auto& type = arguments[i].real_type();
    if (const auto* id = std::get_if<ValueId>(&a)) {
      if (*id == kNoValue) {
        stack.push_back(boxed_constant(c10::IValue(), type));
      } else {
        stack.push_back(boxed_constant(env[*id], type));
      }
    } else if (const auto* list = std::get_if<ValueList>(&a)) {
      std::vector<c10::IValue> items;
      for (ValueId e : *list) items.push_back(e == kNoValue ? c10::IValue() : env[e]);
      stack.push_back(boxed_list(items, type));
    } else {
      stack.push_back(boxed_constant(std::get<c10::IValue>(a), type));
    }
  }
}

void run_bind(const Bind& bind, std::vector<c10::IValue>& env, std::vector<c10::IValue>& stack) {
  stack.clear();
  push_arguments(bind, env, stack);
  bind.op.handle().callBoxed(&stack);
  for (size_t r = 0; r < bind.results.size(); ++r) {
    if (const auto* id = std::get_if<ValueId>(&bind.results[r])) {
      if (*id != kNoValue) env[*id] = std::move(stack[r]);
    } else {
      const auto& list = std::get<ValueList>(bind.results[r]);
      auto tensors = stack[r].toTensorVector();
      if (tensors.size() != list.size())
        throw InternalError(bind.op.id() + " returned " + std::to_string(tensors.size()) +
                            " tensors, recorded were " + std::to_string(list.size()));
      for (size_t k = 0; k < list.size(); ++k)
        if (list[k] != kNoValue) env[list[k]] = std::move(tensors[k]);
    }
  }
  stack.clear();
}

}  // namespace fulgurite::ir
