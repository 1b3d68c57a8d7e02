// In-place operators on leaves that require grad.
//
// Eager refuses them: the leaf would stop being one. Seen as a program they have a meaning: the
// value before the call is the variable, what is written is a value computed from it. An open leaf
// is a second tensor on the memory of the leaf, whose history begins at the leaf; it can be
// written, read and viewed under autograd like any tensor, and the leaf stays a leaf: it holds the
// new data, and its .grad will be the gradient with respect to the data before.
#pragma once

#include <ATen/core/Tensor.h>

namespace fulgurite::ops {

// Would eager refuse to write `t` in place under grad mode? Then the leaf that has to be opened:
// `t` itself or the leaf that it is a view of; undefined otherwise.
at::Tensor leaf_that_forbids_writing(const at::Tensor& t);

// The open leaf: shares memory and version counter with `leaf`, which requires grad.
at::Tensor open_leaf(const at::Tensor& leaf);

}  // namespace fulgurite::ops
