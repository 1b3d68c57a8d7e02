// The write-back of a leaf that a recorded call wrote (ops/open_leaf.h), by what an executor has in
// the place of prims.copy_: the first call gives what later ones give.
#pragma once

#include <ATen/core/Tensor.h>

#include "passes/claim.h"

namespace fulgurite::run {

// Runs the executor's operator on a copy of `value` and the leaf, below autograd; returns what the
// caller gets for the leaf, a tensor of its own. Undefined, with nothing done, if ATen would run
// it. Throws ExecutorError.
at::Tensor write_back_by_executor(const passes::Claimer& claim, const at::Tensor& value,
                                  const at::Tensor& leaf);

}  // namespace fulgurite::run
