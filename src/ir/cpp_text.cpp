#include "ir/cpp_text.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>

#include <cmath>
#include <limits>
#include <unordered_set>

#include "ir/literal.h"
#include "ir/schema_args.h"

namespace fulgurite::ir {

using c10::TypeKind;

bool is_cpp_word(const std::string& name) {
  static const std::unordered_set<std::string> words = {"alignas",
                                                        "alignof",
                                                        "asm",
                                                        "auto",
                                                        "bool",
                                                        "break",
                                                        "case",
                                                        "catch",
                                                        "char",
                                                        "class",
                                                        "concept",
                                                        "const",
                                                        "consteval",
                                                        "constexpr",
                                                        "constinit",
                                                        "continue",
                                                        "decltype",
                                                        "default",
                                                        "delete",
                                                        "do",
                                                        "double",
                                                        "else",
                                                        "enum",
                                                        "explicit",
                                                        "export",
                                                        "extern",
                                                        "false",
                                                        "float",
                                                        "for",
                                                        "friend",
                                                        "goto",
                                                        "if",
                                                        "inline",
                                                        "int",
                                                        "long",
                                                        "mutable",
                                                        "namespace",
                                                        "new",
                                                        "noexcept",
                                                        "nullptr",
                                                        "operator",
                                                        "private",
                                                        "protected",
                                                        "public",
                                                        "register",
                                                        "requires",
                                                        "return",
                                                        "short",
                                                        "signed",
                                                        "sizeof",
                                                        "static",
                                                        "struct",
                                                        "switch",
                                                        "template",
                                                        "this",
                                                        "throw",
                                                        "true",
                                                        "try",
                                                        "typedef",
                                                        "typeid",
                                                        "typename",
                                                        "union",
                                                        "unsigned",
                                                        "using",
                                                        "virtual",
                                                        "void",
                                                        "volatile",
                                                        "while",
                                                        "xor",
                                                        "and",
                                                        "or",
                                                        "not",
                                                        "bitand",
                                                        "bitor",
                                                        "compl",
                                                        "at",
                                                        "c10",
                                                        "std",
                                                        "constant",
                                                        "written",
                                                        "computation",
                                                        "errno",
                                                        "char8_t",
                                                        "char16_t",
                                                        "char32_t",
                                                        "const_cast",
                                                        "static_cast",
                                                        "and_eq",
                                                        "or_eq",
                                                        "xor_eq",
                                                        "not_eq",
                                                        "thread_local",
                                                        "static_assert",
                                                        "reinterpret_cast",
                                                        "dynamic_cast",
                                                        "wchar_t",
                                                        "co_await",
                                                        "co_return",
                                                        "co_yield",
                                                        "stdin",
                                                        "stdout",
                                                        "stderr",
                                                        "EOF",
                                                        "NULL",
                                                        "INFINITY",
                                                        "NAN"};
  return words.contains(name);
}

std::string cpp_float(double value) {
  if (std::isnan(value)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(value))
    return std::string(value < 0 ? "-" : "") + "std::numeric_limits<double>::infinity()";
  return float_text(value);
}

std::string cpp_int(int64_t value) {
  if (value == std::numeric_limits<int64_t>::min()) return "std::numeric_limits<int64_t>::min()";
  return "int64_t(" + std::to_string(value) + ")";
}

std::string cpp_string(const std::string& value) {
  static constexpr std::string_view kOctal = "01234567";
  std::string text = "\"";
  for (char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      text += '\\';
      for (int shift : {6, 3, 0}) text += kOctal[(byte >> shift) & 7U];
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string cpp_dims(const Dims& dims) {
  std::vector<std::string> items;
  for (int64_t n : dims) items.push_back(std::to_string(n));
  return "at::IntArrayRef(" + (items.empty() ? "" : "{" + joined(items) + "}") + ")";
}

std::string cpp_dtype(at::ScalarType dtype) {
  return std::string("at::ScalarType::") + c10::toString(dtype);
}

std::string cpp_array(const c10::TypePtr& element, const std::vector<std::string>& items,
                      const std::optional<int32_t>& length) {
  const std::string braces = items.empty() ? "" : "{" + joined(items) + "}";
  switch (element->kind()) {
    case TypeKind::SymIntType:
      return "c10::fromIntArrayRefSlow(at::IntArrayRef(" + braces + "))";
    case TypeKind::FloatType:
      return "at::ArrayRef<double>(" + braces + ")";
    case TypeKind::NumberType:
      return "at::ArrayRef<at::Scalar>(" + braces + ")";
    case TypeKind::BoolType:
      if (length) return "std::array<bool, " + std::to_string(*length) + ">{" + joined(items) + "}";
      return "at::ArrayRef<bool>(" + braces + ")";
    case TypeKind::StringType:
      return "at::ArrayRef<std::string_view>(" + braces + ")";
    default:
      return "at::IntArrayRef(" + braces + ")";
  }
}

std::string cpp_number(const c10::IValue& v) {
  if (v.isInt()) return cpp_int(v.toInt());
  if (v.isBool()) return v.toBool() ? "true" : "false";
  if (v.isDouble()) return cpp_float(v.toDouble());
  const auto z = v.toComplexDouble();
  return "c10::complex<double>(" + cpp_float(z.real()) + ", " + cpp_float(z.imag()) + ")";
}

std::string cpp_constant(const c10::IValue& v, const c10::TypePtr& type_or_optional,
                         const std::optional<int32_t>& length) {
  if (v.isNone()) return "std::nullopt";
  const c10::TypePtr type = strip_optional(type_or_optional);
  switch (type->kind()) {
    case TypeKind::TensorType:
      return "at::native::wrapped_scalar_tensor(" + cpp_number(v) + ")";
    case TypeKind::NumberType:
      return "at::Scalar(" + cpp_number(v) + ")";
    case TypeKind::SymIntType:
      return "c10::SymInt(" + cpp_number(v) + ")";
    case TypeKind::ScalarTypeType:
      return cpp_dtype(static_cast<at::ScalarType>(v.toInt()));
    case TypeKind::LayoutType:
      return "static_cast<at::Layout>(" + std::to_string(v.toInt()) + ")";
    case TypeKind::MemoryFormatType:
      return "static_cast<at::MemoryFormat>(" + std::to_string(v.toInt()) + ")";
    case TypeKind::StringType:
      return cpp_string(v.toStringRef());
    case TypeKind::DeviceObjType:
      return "at::Device(\"" + v.toDevice().str() + "\")";
    case TypeKind::GeneratorType:
      return "at::globalContext().defaultGenerator(at::kCPU)";
    case TypeKind::ListType: {
      const c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
      std::vector<std::string> items;
      for (const c10::IValue& item : v.toList())
        items.push_back(strip_optional(element)->kind() == TypeKind::SymIntType
                            ? std::to_string(item.toInt())
                            : cpp_constant(item, element, std::nullopt));
      return cpp_array(element, items, length);
    }
    default:
      return cpp_number(v);
  }
}

std::string cpp_boxed_list(const c10::IValue& v) {
  std::vector<std::string> items;
  std::string element = "int64_t";
  for (const c10::IValue& item : v.toList()) {
    items.push_back(item.isString() ? cpp_string(item.toStringRef()) : cpp_number(item));
    element = item.isString()   ? "std::string"
              : item.isBool()   ? "bool"
              : item.isDouble() ? "double"
                                : element;
  }
  if (v.isDoubleList()) element = "double";
  return "c10::List<" + element + ">(std::initializer_list<" + element + ">{" + joined(items) +
         "})";
}

}  // namespace fulgurite::ir
