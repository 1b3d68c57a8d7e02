#include "ir/literal.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "ir/dtypes.h"
#include "ir/schema_args.h"

namespace fulgurite::ir {
namespace {

using c10::TypeKind;

Literal integer_literal(LiteralKind kind, int64_t value) {
  Literal literal;
  literal.kind = kind;
  literal.integer = value;
  return literal;
}

Literal text_literal(LiteralKind kind, std::string text) {
  Literal literal;
  literal.kind = kind;
  literal.text = std::move(text);
  return literal;
}

TypeKind element_kind(const c10::TypePtr& type) {
  if (const auto* list = type->castRaw<c10::ListType>())
    return strip_optional(list->getElementType())->kind();
  return TypeKind::AnyType;
}

Literal int_literal(int64_t value, TypeKind kind) {
  switch (kind) {
    case TypeKind::ScalarTypeType:
      return integer_literal(LiteralKind::Dtype, value);
    case TypeKind::LayoutType:
      return integer_literal(LiteralKind::Layout, value);
    case TypeKind::MemoryFormatType:
      return integer_literal(LiteralKind::MemoryFormat, value);
    default:
      return integer_literal(LiteralKind::Int, value);
  }
}

Literal constant_literal(const c10::IValue& v, const c10::TypePtr& type_or_optional) {
  const c10::TypePtr type = strip_optional(type_or_optional);
  Literal literal;
  if (v.isNone()) return literal;
  if (v.isInt()) return int_literal(v.toInt(), type->kind());
  if (v.isBool()) return integer_literal(LiteralKind::Bool, v.toBool() ? 1 : 0);
  if (v.isDouble()) {
    literal.kind = LiteralKind::Float;
    literal.real = v.toDouble();
    return literal;
  }
  if (v.isComplexDouble()) {
    literal.kind = LiteralKind::Complex;
    literal.real = v.toComplexDouble().real();
    literal.imaginary = v.toComplexDouble().imag();
    return literal;
  }
  if (v.isString()) return text_literal(LiteralKind::String, v.toStringRef());
  if (v.isDevice()) return text_literal(LiteralKind::Device, v.toDevice().str());
  if (v.isGenerator()) {
    if (v.toGenerator() == at::detail::getDefaultCPUGenerator())
      return integer_literal(LiteralKind::Generator, 0);
    return text_literal(LiteralKind::Opaque, "torch.Generator()");
  }
  if (v.isList()) {
    literal.kind = LiteralKind::List;
    c10::TypePtr element = c10::AnyType::get();
    if (const auto* list = type->castRaw<c10::ListType>()) element = list->getElementType();
    for (const c10::IValue& item : v.toList())
      literal.items.push_back(constant_literal(item, element));
    return literal;
  }
  return text_literal(LiteralKind::Opaque, "...");
}

std::string enum_text(const Literal& literal) {
  switch (literal.kind) {
    case LiteralKind::Dtype:
      return "torch." + torch_name(static_cast<at::ScalarType>(literal.integer));
    case LiteralKind::Layout:
      return "torch." + torch_name(static_cast<at::Layout>(literal.integer));
    default:
      return "torch." + torch_name(static_cast<at::MemoryFormat>(literal.integer));
  }
}

std::optional<c10::IValue> constant_list_of(const Literal& literal,
                                            const c10::TypePtr& element_type);

// A constant for a type without Optional around it.
std::optional<c10::IValue> constant_of(const Literal& literal, const c10::TypePtr& type) {
  const TypeKind kind = type->kind();
  const bool any_number =
      kind == TypeKind::NumberType || kind == TypeKind::TensorType || kind == TypeKind::AnyType;
  switch (literal.kind) {
    case LiteralKind::Int:
      if (kind == TypeKind::FloatType || kind == TypeKind::SymFloatType)
        return static_cast<double>(literal.integer);
      if (any_number || kind == TypeKind::IntType || kind == TypeKind::SymIntType ||
          kind == TypeKind::QSchemeType)
        return literal.integer;
      // Names that the table lacks print as numbers.
      if (kind == TypeKind::ScalarTypeType || kind == TypeKind::LayoutType ||
          kind == TypeKind::MemoryFormatType)
        return literal.integer;
      return std::nullopt;
    case LiteralKind::Float:
      if (any_number || kind == TypeKind::FloatType || kind == TypeKind::SymFloatType)
        return literal.real;
      return std::nullopt;
    case LiteralKind::Bool:
      if (any_number || kind == TypeKind::BoolType || kind == TypeKind::SymBoolType)
        return c10::IValue(literal.integer != 0);
      if (kind == TypeKind::IntType || kind == TypeKind::SymIntType) return literal.integer;
      return std::nullopt;
    case LiteralKind::Complex:
      if (any_number || kind == TypeKind::ComplexType)
        return c10::complex<double>(literal.real, literal.imaginary);
      return std::nullopt;
    case LiteralKind::String:
      if (kind == TypeKind::StringType || kind == TypeKind::AnyType) return literal.text;
      if (kind == TypeKind::DeviceObjType) break;
      return std::nullopt;
    case LiteralKind::Dtype:
      if (kind == TypeKind::ScalarTypeType || kind == TypeKind::IntType) return literal.integer;
      return std::nullopt;
    case LiteralKind::Layout:
      if (kind == TypeKind::LayoutType || kind == TypeKind::IntType) return literal.integer;
      return std::nullopt;
    case LiteralKind::MemoryFormat:
      if (kind == TypeKind::MemoryFormatType || kind == TypeKind::IntType) return literal.integer;
      return std::nullopt;
    case LiteralKind::Generator:
      if (kind == TypeKind::GeneratorType) return at::detail::getDefaultCPUGenerator();
      return std::nullopt;
    case LiteralKind::List:
      if (const auto* list = type->castRaw<c10::ListType>())
        return constant_list_of(literal, list->getElementType());
      return std::nullopt;
    case LiteralKind::Device:
      break;
    default:
      return std::nullopt;
  }
  if (kind != TypeKind::DeviceObjType && kind != TypeKind::AnyType) return std::nullopt;
  try {
    return c10::IValue(c10::Device(literal.text));
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

std::optional<c10::IValue> constant_list_of(const Literal& literal,
                                            const c10::TypePtr& element_type) {
  const c10::TypePtr element = strip_optional(element_type);
  // IValue keeps its integer and float lists by the types without symbols.
  c10::TypePtr stored = element_type;
  if (element->kind() != TypeKind::NumberType && element->kind() != TypeKind::BoolType &&
      element->kind() != TypeKind::StringType && element->kind() != TypeKind::FloatType &&
      element->kind() != TypeKind::ComplexType)
    stored = c10::IntType::get();
  c10::impl::GenericList list(stored);
  for (const Literal& item : literal.items) {
    if (item.kind == LiteralKind::None && element_type->kind() == TypeKind::OptionalType) {
      list.push_back(c10::IValue());
      continue;
    }
    auto constant = constant_of(item, element);
    if (!constant) return std::nullopt;
    list.push_back(*constant);
  }
  return c10::IValue(list);
}

// Of the tensor that PyTorch makes of a number.
at::ScalarType number_dtype(LiteralKind kind) {
  switch (kind) {
    case LiteralKind::Int:
      return at::kLong;
    case LiteralKind::Bool:
      return at::kBool;
    case LiteralKind::Complex:
      return at::kComplexDouble;
    default:
      return at::kDouble;
  }
}

bool same_double(double a, double b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}

}  // namespace

Literal value_literal(ValueId id) {
  Literal literal;
  if (id == kNoValue) return literal;
  literal.kind = LiteralKind::Value;
  literal.value = id;
  return literal;
}

Literal literal_of(const Arg& arg, const c10::TypePtr& type) {
  if (const auto* id = std::get_if<ValueId>(&arg)) return value_literal(*id);
  if (const auto* list = std::get_if<ValueList>(&arg)) {
    Literal literal;
    literal.kind = LiteralKind::List;
    for (ValueId item : *list) literal.items.push_back(value_literal(item));
    return literal;
  }
  return constant_literal(std::get<c10::IValue>(arg), type);
}

std::string float_text(double value) {
  if (std::isnan(value)) return "float('nan')";
  if (std::isinf(value)) return value > 0 ? "float('inf')" : "float('-inf')";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string string_text(const std::string& value) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "'";
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\' || c == '\'') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      text += "\\x";
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    } else {
      text += c;
    }
  }
  return text + "'";
}

bool is_constant_number(const Literal& literal) {
  return literal.kind == LiteralKind::Int || literal.kind == LiteralKind::Float ||
         literal.kind == LiteralKind::Bool || literal.kind == LiteralKind::Complex;
}

std::string literal_text(const Literal& literal, const std::vector<Value>& values) {
  if (literal.as_tensor) {
    Literal number = literal;
    number.as_tensor = false;
    return "torch.tensor(" + literal_text(number, values) + ", dtype=torch." +
           torch_name(number_dtype(literal.kind)) + ")";
  }
  switch (literal.kind) {
    case LiteralKind::None:
      return "None";
    case LiteralKind::Value:
      return values.at(static_cast<size_t>(literal.value)).name;
    case LiteralKind::Int:
      return std::to_string(literal.integer);
    case LiteralKind::Float:
      return float_text(literal.real);
    case LiteralKind::Bool:
      return literal.integer != 0 ? "True" : "False";
    case LiteralKind::Complex:
      return "complex(" + float_text(literal.real) + ", " + float_text(literal.imaginary) + ")";
    case LiteralKind::String:
      return string_text(literal.text);
    case LiteralKind::Dtype:
    case LiteralKind::Layout:
    case LiteralKind::MemoryFormat:
      return enum_text(literal);
    case LiteralKind::Device:
      return "torch.device('" + literal.text + "')";
    case LiteralKind::Generator:
      return "torch.default_generator";
    case LiteralKind::Opaque:
      return literal.text;
    case LiteralKind::List:
      break;
  }
  std::string text = "[";
  for (size_t i = 0; i < literal.items.size(); ++i)
    text += (i > 0 ? ", " : "") + literal_text(literal.items[i], values);
  return text + "]";
}

std::optional<Arg> arg_of(const Literal& literal, const c10::Argument& argument) {
  const c10::TypePtr& full = full_type(argument);
  const c10::TypePtr type = strip_optional(full);
  switch (literal.kind) {
    case LiteralKind::None:
      if (is_tensor_type(full)) return Arg(kNoValue);
      if (full->kind() == TypeKind::OptionalType || full->kind() == TypeKind::AnyType)
        return Arg(c10::IValue());
      return std::nullopt;
    case LiteralKind::Value:
      return Arg(literal.value);
    case LiteralKind::List: {
      bool of_values = !literal.items.empty() || element_kind(type) == TypeKind::TensorType;
      for (const Literal& item : literal.items)
        of_values =
            of_values &&
            (item.kind == LiteralKind::Value ||
             (item.kind == LiteralKind::None && element_kind(type) == TypeKind::TensorType));
      if (!of_values) break;
      ValueList list;
      for (const Literal& item : literal.items) list.push_back(item.value);
      return Arg(std::move(list));
    }
    default:
      break;
  }
  auto constant = constant_of(literal, type);
  if (!constant && argument.N() && element_kind(type) != TypeKind::TensorType)
    constant = constant_of(literal, type->castRaw<c10::ListType>() != nullptr
                                        ? type->castRaw<c10::ListType>()->getElementType()
                                        : type);
  if (!constant) return std::nullopt;
  return normalized(Arg(*constant), argument);
}

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.isList() && b.isList()) {
    const auto x = a.toList();
    const auto y = b.toList();
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!same_constant(x.get(i), y.get(i))) return false;
    return true;
  }
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isNone()) return true;
  if (a.isInt()) return a.toInt() == b.toInt();
  if (a.isBool()) return a.toBool() == b.toBool();
  if (a.isDouble()) return same_double(a.toDouble(), b.toDouble());
  if (a.isComplexDouble())
    return same_double(a.toComplexDouble().real(), b.toComplexDouble().real()) &&
           same_double(a.toComplexDouble().imag(), b.toComplexDouble().imag());
  if (a.isString()) return a.toStringRef() == b.toStringRef();
  if (a.isDevice()) return a.toDevice() == b.toDevice();
  if (a.isGenerator()) return a.toGenerator() == b.toGenerator();
  return a.is(b);
}

bool same_arg(const Arg& a, const Arg& b) {
  if (a.index() != b.index()) return false;
  if (const auto* id = std::get_if<ValueId>(&a)) return *id == std::get<ValueId>(b);
  if (const auto* list = std::get_if<ValueList>(&a)) return *list == std::get<ValueList>(b);
  return same_constant(std::get<c10::IValue>(a), std::get<c10::IValue>(b));
}

}  // namespace fulgurite::ir
