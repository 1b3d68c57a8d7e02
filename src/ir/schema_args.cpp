#include "ir/schema_args.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <utility>

namespace fulgurite::ir {
namespace {

using c10::TypeKind;

bool is_int_like(TypeKind kind) {
  return kind == TypeKind::IntType || kind == TypeKind::SymIntType ||
         kind == TypeKind::ScalarTypeType || kind == TypeKind::LayoutType ||
         kind == TypeKind::MemoryFormatType || kind == TypeKind::QSchemeType;
}

c10::TypePtr list_element(const c10::TypePtr& type) {
  return type->castRaw<c10::ListType>()->getElementType();
}

bool is_number(const c10::IValue& v) {
  return v.isInt() || v.isDouble() || v.isBool() || v.isComplexDouble();
}

c10::IValue normalized_constant(const c10::IValue& v, const c10::TypePtr& type,
                                std::optional<int> length) {
  const TypeKind kind = type->kind();
  // A SymInt that carries a plain number is that number; symbolic ones do not occur in traces.
  if (v.isSymInt() && !v.toSymInt().is_symbolic()) return v.toSymInt().expect_int();
  if (v.isSymFloat() && !v.toSymFloat().is_symbolic()) return v.toSymFloat().expect_float();
  if (v.isSymBool() && !v.toSymBool().is_heap_allocated()) return v.toSymBool().guard_bool("", 0);
  if (v.isNone()) return v;
  if (kind == TypeKind::FloatType || kind == TypeKind::SymFloatType) {
    if (v.isInt()) return static_cast<double>(v.toInt());
    if (v.isBool()) return v.toBool() ? 1.0 : 0.0;
  } else if (is_int_like(kind)) {
    if (v.isBool()) return static_cast<int64_t>(v.toBool());
  } else if (kind == TypeKind::ListType) {
    const c10::TypePtr element = strip_optional(list_element(type));
    if (is_int_like(element->kind())) {
      if (length && v.isInt()) return std::vector<int64_t>(static_cast<size_t>(*length), v.toInt());
      if (v.isList() && !v.isIntList()) {
        std::vector<int64_t> ints;
        for (const c10::IValue& item : v.toListRef()) {
          c10::IValue x = normalized_constant(item, element, std::nullopt);
          if (!x.isInt()) return v;
          ints.push_back(x.toInt());
        }
        return ints;
      }
    } else if (element->kind() == TypeKind::FloatType) {
      if (length && (v.isInt() || v.isDouble()))
        return std::vector<double>(static_cast<size_t>(*length),
                                   v.isInt() ? static_cast<double>(v.toInt()) : v.toDouble());
      if (v.isList() && !v.isDoubleList()) {
        std::vector<double> doubles;
        for (const c10::IValue& item : v.toListRef()) {
          c10::IValue x = normalized_constant(item, element, std::nullopt);
          if (!x.isDouble()) return v;
          doubles.push_back(x.toDouble());
        }
        return doubles;
      }
    }
  }
  return v;
}

std::string describe(const c10::IValue& v) {
  if (v.isNone()) return "None";
  return "a constant of type " + v.tagKind();
}

// Lists of what is not a tensor: every element must fit.
bool constant_list_fits(const c10::IValue& v, const c10::TypePtr& element_type);

bool constant_fits(const c10::IValue& v, const c10::TypePtr& type) {
  if (const auto* optional = type->castRaw<c10::OptionalType>())
    return v.isNone() || constant_fits(v, optional->getElementType());
  switch (type->kind()) {
    case TypeKind::TensorType:
    case TypeKind::NumberType:
      return is_number(v);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::QSchemeType:
      return v.isInt();
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return v.isDouble();
    case TypeKind::ComplexType:
      return v.isComplexDouble();
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return v.isBool();
    case TypeKind::StringType:
      return v.isString();
    case TypeKind::DeviceObjType:
      return v.isDevice();
    case TypeKind::GeneratorType:
      return v.isGenerator();
    case TypeKind::StreamObjType:
      return v.isStream();
    case TypeKind::NoneType:
      return v.isNone();
    case TypeKind::ListType:
      return constant_list_fits(v, list_element(type));
    // Custom classes, dictionaries, Any: no operator of a trace needs more than to pass them on.
    default:
      return !v.isTensor();
  }
}

bool constant_list_fits(const c10::IValue& v, const c10::TypePtr& element_type) {
  if (!v.isList()) return false;
  const c10::TypePtr element = strip_optional(element_type);
  if (is_tensor_type(element))
    return false;  // tensors are values, so a list of them is a ValueList
  if (is_int_like(element->kind())) return v.isIntList();
  if (element->kind() == TypeKind::FloatType) return v.isDoubleList();
  for (const c10::IValue& item : v.toListRef())
    if (!constant_fits(item, element_type)) return false;
  return true;
}

bool scalar_fits(ScalarKind found, TypeKind wanted) {
  switch (wanted) {
    case TypeKind::TensorType:
    case TypeKind::NumberType:
      return true;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return found == ScalarKind::Int || found == ScalarKind::Bool;
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return found != ScalarKind::Complex;
    case TypeKind::ComplexType:
      return true;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return found == ScalarKind::Bool;
    default:
      return false;
  }
}

bool known(ValueId id, const std::vector<Value>& values) {
  return id >= 0 && static_cast<size_t>(id) < values.size();
}

std::string value_misfit(ValueId id, const c10::TypePtr& type, const std::vector<Value>& values) {
  const TypeKind kind = strip_optional(type)->kind();
  if (id == kNoValue) {
    // Backward formulas take undefined tensors where their schemas say Tensor.
    return kind == TypeKind::TensorType ? "" : "has no value, but is no tensor";
  }
  if (!known(id, values)) return "names the value " + std::to_string(id) + ", which does not exist";
  const Value& value = values[static_cast<size_t>(id)];
  if (kind == TypeKind::AnyType) return "";
  if (value.is_tensor()) {
    return kind == TypeKind::TensorType ? "" : "is the tensor '" + value.name + "'";
  }
  return scalar_fits(std::get<ScalarKind>(value.type), kind) ? ""
                                                             : "is the number '" + value.name + "'";
}

std::string list_misfit(const ValueList& list, const c10::TypePtr& type,
                        const std::vector<Value>& values) {
  const c10::TypePtr stripped = strip_optional(type);
  if (stripped->kind() != TypeKind::ListType) return "is a list of values";
  const c10::TypePtr element = list_element(stripped);
  if (list.empty() && !is_tensor_type(element)) return "is an empty list of values";
  for (ValueId id : list) {
    std::string why = value_misfit(id, element, values);
    if (!why.empty()) return "has an element that " + why;
  }
  return "";
}

std::string quoted(const c10::Argument& argument, const std::string& what) {
  return what + " '" + argument.name() + "' ";
}

std::string wanted(const c10::Argument& argument) {
  return "; the schema wants " + full_type(argument)->str();
}

}  // namespace

c10::TypePtr strip_optional(const c10::TypePtr& type) {
  if (const auto* optional = type->castRaw<c10::OptionalType>()) return optional->getElementType();
  return type;
}

bool is_tensor_type(const c10::TypePtr& type) {
  return strip_optional(type)->kind() == TypeKind::TensorType;
}

bool is_tensor_list_type(const c10::TypePtr& type) {
  const c10::TypePtr stripped = strip_optional(type);
  return stripped->kind() == TypeKind::ListType && is_tensor_type(list_element(stripped));
}

Arg normalized(Arg arg, const c10::Argument& argument) {
  auto* constant = std::get_if<c10::IValue>(&arg);
  if (constant == nullptr) return arg;
  const c10::TypePtr& type = full_type(argument);
  if (constant->isNone() || (constant->isTensor() && !constant->toTensor().defined())) {
    if (is_tensor_type(type)) return kNoValue;
    return arg;
  }
  if (constant->isList() && is_tensor_list_type(type)) {
    ValueList list;
    for (const c10::IValue& item : constant->toListRef()) {
      if (!item.isNone() && !(item.isTensor() && !item.toTensor().defined())) return arg;
      list.push_back(kNoValue);
    }
    return list;
  }
  return normalized_constant(*constant, strip_optional(type), argument.N());
}

void normalize_args(std::vector<Arg>& args, const c10::FunctionSchema& schema) {
  const auto& formal = schema.arguments();
  for (size_t i = args.size(); i < formal.size() && formal[i].default_value(); ++i)
    args.emplace_back(*formal[i].default_value());
  for (size_t i = 0; i < args.size() && i < formal.size(); ++i)
    args[i] = normalized(std::move(args[i]), formal[i]);
}

std::string misfit(const Arg& arg, const c10::Argument& argument,
                   const std::vector<Value>& values) {
  const c10::TypePtr& type = full_type(argument);
  std::string why;
  if (const auto* id = std::get_if<ValueId>(&arg)) {
    why = value_misfit(*id, type, values);
  } else if (const auto* list = std::get_if<ValueList>(&arg)) {
    why = list_misfit(*list, type, values);
  } else {
    const auto& constant = std::get<c10::IValue>(arg);
    if (constant.isNone() && is_tensor_type(type)) {
      why = "is None as a constant instead of kNoValue";
    } else if (!constant_fits(constant, type)) {
      why = "is " + describe(constant);
    } else if (is_tensor_type(type) && argument.alias_info() != nullptr &&
               argument.alias_info()->isWrite()) {
      why = "is a number, but is written to";
    } else if (argument.N() && constant.isBoolList() &&
               constant.toBoolList().size() != static_cast<size_t>(*argument.N())) {
      why = "has " + std::to_string(constant.toBoolList().size()) + " elements instead of " +
            std::to_string(*argument.N());
    }
  }
  if (why.empty()) return why;
  return quoted(argument, "the argument") + why + wanted(argument);
}

std::string misfit(const Result& result, const c10::Argument& argument,
                   const std::vector<Value>& values) {
  const c10::TypePtr& type = full_type(argument);
  std::string why;
  if (const auto* id = std::get_if<ValueId>(&result)) {
    // Nobody has to name a result, whatever its type.
    if (*id != kNoValue) why = value_misfit(*id, type, values);
    // A number can be given for a Tensor, but does not come out as one.
    if (why.empty() && known(*id, values) && is_tensor_type(type) &&
        !values[static_cast<size_t>(*id)].is_tensor())
      why = "is the number '" + values[static_cast<size_t>(*id)].name + "'";
  } else {
    why = list_misfit(std::get<ValueList>(result), type, values);
  }
  if (why.empty()) return why;
  return (argument.name().empty() ? "the result " : quoted(argument, "the result")) + why +
         wanted(argument);
}

}  // namespace fulgurite::ir
