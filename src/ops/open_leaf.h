// In-place operators on leaves that require grad.
//
// Eager refuses them: the leaf would stop being one. Seen as a program they have a meaning: the
// value before the call is the variable, what is written is a value computed from it. An *open*
// leaf has, for autograd, a history of one node that leads to its own gradient accumulator; so it
// can be written, read and viewed like any other tensor. *Closing* it makes it a leaf again, which
// holds the new data and whose .grad will be the gradient with respect to the data before; the
// value itself, with its history, is handed out as a tensor of its own.
#pragma once

#include <ATen/core/Tensor.h>

namespace fulgurite::ops {

// Would eager refuse to write `t` in place under grad mode? Then the leaf that has to be opened:
// `t` itself or the leaf that it is a view of; undefined otherwise.
at::Tensor leaf_that_forbids_writing(const at::Tensor& t);

// `leaf` must be a leaf that requires grad.
void open_leaf(const at::Tensor& leaf);
// Makes it a leaf again. Returns its value: a copy, with the history. Nothing happens to a tensor
// that is not open; the result is then undefined.
at::Tensor close_leaf(const at::Tensor& leaf);

}  // namespace fulgurite::ops
