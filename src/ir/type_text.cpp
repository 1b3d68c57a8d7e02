#include "ir/type_text.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "ir/dtypes.h"
#include "ir/literal.h"
#include "ir/text.h"

namespace fulgurite::ir {
namespace {

constexpr auto kScalarNames = std::to_array<std::string_view>({"int", "float", "bool", "complex"});

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool eat(std::string_view& text, std::string_view token) {
  if (!text.starts_with(token)) return false;
  text.remove_prefix(token.size());
  return true;
}

std::string_view eat_word(std::string_view& text) {
  size_t n = 0;
  while (n < text.size() && is_word(text[n])) ++n;
  const std::string_view word = text.substr(0, n);
  text.remove_prefix(n);
  return word;
}

bool eat_dims(std::string_view& text, Dims& dims) {
  if (text.starts_with(']') || text.starts_with(';')) return true;
  do {
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    dims.push_back(n);
  } while (eat(text, ", "));
  return true;
}

void append_dims(std::string& text, const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
}

}  // namespace

std::string type_text(const Value& value) {
  if (!value.is_tensor())
    return std::string(kScalarNames.at(static_cast<size_t>(std::get<ScalarKind>(value.type))));
  const TensorType& type = value.tensor();
  std::string text = short_name(type.dtype) + "[";
  append_dims(text, type.sizes);
  if (type.strides != default_strides(type.sizes)) {
    text += "; ";
    append_dims(text, type.strides);
  }
  text += "]";
  if (type.device != c10::Device(c10::kCPU)) text += "@" + type.device.str();
  if (type.requires_grad) text += "+g";
  return text;
}

std::string constant_text(const c10::IValue& value, const c10::TypePtr& schema_type) {
  return literal_text(literal_of(Arg(value), schema_type), {});
}

std::optional<ValueType> read_type(std::string_view& text) {
  const std::string_view word = eat_word(text);
  if (!eat(text, "[")) {
    for (size_t i = 0; i < kScalarNames.size(); ++i)
      if (word == kScalarNames[i]) return static_cast<ScalarKind>(i);
    return std::nullopt;
  }
  TensorType type;
  const auto dtype = dtype_of_short_name(word);
  if (!dtype) return std::nullopt;
  type.dtype = *dtype;
  if (!eat_dims(text, type.sizes)) return std::nullopt;
  if (eat(text, "; ")) {
    if (!eat_dims(text, type.strides) || type.strides.size() != type.sizes.size())
      return std::nullopt;
  } else {
    type.strides = default_strides(type.sizes);
  }
  if (!eat(text, "]")) return std::nullopt;
  if (eat(text, "@")) {
    std::string device(eat_word(text));
    if (eat(text, ":")) device += ":" + std::string(eat_word(text));
    try {
      type.device = c10::Device(device);
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  }
  type.requires_grad = eat(text, "+g");
  return type;
}

// "f32[2] @s0+4"
std::optional<MarkedType> read_marked_type(std::string_view& text) {
  auto type = read_type(text);
  if (!type) return std::nullopt;
  MarkedType result{*type, ""};
  if (text.starts_with(" @")) {
    text.remove_prefix(2);
    const size_t end = std::min(text.find_first_of(", "), text.size());
    result.mark = std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return result;
}

std::optional<std::vector<MarkedType>> read_types(std::string_view text) {
  std::vector<MarkedType> types;
  while (true) {
    auto type = read_marked_type(text);
    if (!type) return std::nullopt;
    size_t count = 1;
    if (text.starts_with(" x")) {
      text.remove_prefix(2);
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
      if (error != std::errc()) return std::nullopt;
      text.remove_prefix(static_cast<size_t>(end - text.data()));
    }
    types.insert(types.end(), count, *type);
    if (text.empty()) return types;
    if (!text.starts_with(", ")) return std::nullopt;
    text.remove_prefix(2);
  }
}

}  // namespace fulgurite::ir
