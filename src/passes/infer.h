// What an operator would return, by running it on made-up tensors of the recorded geometry. Used rarely:
// recorded types are facts, and only where a pass puts another operator in place is there none.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

// A tensor of this type, with contents that most operators accept: zeros for integers (valid indices),
// positive numbers for floats, a well conditioned symmetric matrix where the last two sizes agree.
at::Tensor sample(const ir::TensorType& type);


// Types of the tensor results, flat. Throws Refusal FG-160 if the operator does not run on samples.
std::vector<ir::TensorType> infer_types(const ir::Trace& trace, const ir::Bind& bind);

}  // namespace fulgurite::passes
