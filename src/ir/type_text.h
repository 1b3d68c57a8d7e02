// Types as text and back; `type_text` itself is declared in text.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

using ValueType = std::variant<TensorType, ScalarKind>;

// Reads one type (without storage mark) from the front of `text` and removes it from there.
std::optional<ValueType> read_type(std::string_view& text);

struct MarkedType {
  ValueType type;
  std::string mark;  // of the storage (storage_text.h), "" if there is none
};
std::optional<MarkedType> read_marked_type(std::string_view& text);

// "f32[2], i64[2] x3"; nothing if the text is no list of types.
std::optional<std::vector<MarkedType>> read_types(std::string_view text);

}  // namespace fulgurite::ir
