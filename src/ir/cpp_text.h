// Constants as C++ expressions for print_cpp.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

// Keywords, macros of the standard library, and what the printed program itself uses.
bool is_cpp_word(const std::string& name);

std::string cpp_float(double value);
std::string cpp_int(int64_t value);
std::string cpp_string(const std::string& value);
std::string cpp_dtype(at::ScalarType dtype);
std::string cpp_dims(const Dims& dims);             // "at::IntArrayRef({2, 3})"
std::string cpp_number(const c10::IValue& number);  // int, float, bool or complex
std::string joined(const std::vector<std::string>& items);

// A list of items as the array type that ATen's C++ functions take for this element type.
std::string cpp_array(const c10::TypePtr& element, const std::vector<std::string>& items,
                      const std::optional<int32_t>& length);
// A constant as an argument of this schema type; `length` is that of a list such as int[2].
std::string cpp_constant(const c10::IValue& constant, const c10::TypePtr& type,
                         const std::optional<int32_t>& length);
// A list of constants as an IValue takes it.
std::string cpp_boxed_list(const c10::IValue& list);

}  // namespace fulgurite::ir
