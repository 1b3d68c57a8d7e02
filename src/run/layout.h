// Where the elements of a tensor are, against where the program has them.
#pragma once

#include <ATen/core/Tensor.h>

#include "ir/trace.h"

namespace fulgurite::run {

// Whether the elements of `t` are where a tensor of these strides has them.
bool has_strides(const at::Tensor& t, const ir::Dims& strides);
// The values of `t` in memory of their own, with the strides of `type`, which has its sizes.
at::Tensor laid_out(const at::Tensor& t, const ir::TensorType& type);

}  // namespace fulgurite::run
