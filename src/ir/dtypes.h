// The names of dtypes, layouts and memory formats: PyTorch's ("float32") and, for dtypes, the short
// one of printed types ("f32").
#pragma once

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace fulgurite::ir {

std::string torch_name(at::ScalarType dtype);
std::string short_name(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_of_torch_name(std::string_view name);
std::optional<at::ScalarType> dtype_of_short_name(std::string_view name);

std::string torch_name(at::Layout layout);
std::optional<at::Layout> layout_of_torch_name(std::string_view name);

std::string torch_name(at::MemoryFormat format);
std::optional<at::MemoryFormat> memory_format_of_torch_name(std::string_view name);

}  // namespace fulgurite::ir
