// Constant tensors as Python expressions, and back.
//
//   torch.tensor([[1.0, 2.0]], dtype=torch.float32)         up to 16 elements
//   torch.full([64, 64], 0.5, dtype=torch.float32)          all elements equal
//   torch.frombuffer(bytearray(base64.b64decode('...')), dtype=torch.float32).reshape([64, 64])
//   torch.empty_strided([2, 3], [1, 2], dtype=torch.float32).copy_(<one of the above>)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/literal.h"

namespace fulgurite::ir {

// With `elide`, a large constant is "..." (Python's Ellipsis).
std::string constant_expression(const at::Tensor& constant, bool elide = false);
bool prints_as_base64(const at::Tensor& constant);

// The elements in logical (row major) order, on the CPU.
std::vector<uint8_t> constant_bytes(const at::Tensor& constant);
// A tensor of this type whose elements in logical order are `bytes`; sizes must agree.
at::Tensor make_constant(const TensorType& type, const std::vector<uint8_t>& bytes);

// Appends one element of the dtype; false if the literal is no such element.
bool append_element(const Literal& literal, at::ScalarType dtype, std::vector<uint8_t>& bytes);

std::string base64_encode(const std::vector<uint8_t>& bytes);
bool base64_decode(const std::string& text, std::vector<uint8_t>& bytes);

}  // namespace fulgurite::ir
