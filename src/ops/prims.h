// Our few operators of our own ("prims"), registered with the dispatcher under the namespace
// `fulgurite`, so that a trace names them like any other operator.
//
//   copy_(source, destination!)         write-back of a value into something that the caller can
//                                       see; its gradient goes to the source, none to the
//                                       destination
//   set_data(self, data)                the values of `data` under the autograd identity of `self`:
//                                       what a write under no_grad or through detach() leaves
//                                       behind
//   replace(self, data)                 data, as what copy_ under autograd makes of self: the
//   gradient
//                                       goes to data, zeros to self
//   data(self) -> alias                 Tensor.data: an alias with a version counter of its own
//   inference(self) -> alias            the same memory as a tensor of inference mode
//   conform(self, dtype, strides)       the same values in this dtype and with these strides, at
//                                       storage offset 0; self if it has them
//   strided_view(self, size, stride, offset) -> alias   as_strided, offset relative to self
//   strided_scatter(self, src, size, stride, offset)    self with src written through that view
//   index_sum(self, indices, size)      self[indices], summed to this size (Tensor.sum_to_size)
//   set_grad(leaf!, grad)               leaf.grad = grad
//   resize_output(self!, size, stride)  what an operator does first with an empty out= argument
//   bump_version_(self!, by)            counts writes that are no operators
//   set_requires_grad(self!, b)         Tensor.requires_grad_(b)
//   open_leaf(leaf) -> alias            a leaf, as a tensor that may be written under autograd
//   close_leaf(open)                    its value at the end, a tensor of its own (ops/open_leaf.h)
//   function(name, call, inputs, outputs, saved, view_of, written) -> results   the call of an
//                                       autograd.Function: `outputs`, which its forward computed,
//                                       with its history. By output: `view_of` is the input whose
//                                       memory it shows, -1 if there is none, -2 if it is a view of
//                                       memory of its own; `written` is the input that it is (of
//                                       mark_dirty), or -1
//   leaf(self, given) -> result         self as a leaf that the call makes: requires_grad_() on
//   what
//                                       has no history. `given`: on an argument, which it stays
//   boundary(self, number, base) -> result   self with a node of its own in the graph: where hooks
//                                       are, by number, or (-1) because the caller gets the tensor
//                                       as well; with a base, the view of it that self is
//   argument(self, given, written) -> result   the argument `given`, with the history that it has
//                                       once it holds self: it is written back first. `written`:
//                                       another argument on its memory that is written instead
//   checkpoint(preserves_random_state)  of regions: what torch.utils.checkpoint computes again in
//                                       backward instead of saving it
//   random_state() -> state             of the default generator
//   draw_again(state, self) -> (before, self)   what follows draws the numbers that were drawn in
//                                       that state
//   end_draw(before, drawn) -> drawn    the generator is as it was before
//   keep(values)                        the values are needed after the core has run
//   expect_int/float/bool(found, expected)  a value guard: the run is abandoned if they differ
//   expect_sizes(self, sizes)           the same for the shape of a result whose shape depends on
//   data
//   expect_values(self, values)         the same for the contents of an integer tensor
#pragma once

#include "ir/op.h"

namespace fulgurite::prims {

const ir::Op& copy_();
const ir::Op& set_data();
const ir::Op& replace();
const ir::Op& data();
const ir::Op& inference();
const ir::Op& conform();
const ir::Op& strided_view();
const ir::Op& strided_scatter();
const ir::Op& index_sum();
const ir::Op& set_grad();
const ir::Op& set_requires_grad();
const ir::Op& open_leaf();
const ir::Op& close_leaf();
const ir::Op& resize_output();
const ir::Op& bump_version_();
const ir::Op& function();
const ir::Op& leaf();
const ir::Op& boundary();
const ir::Op& argument();
const ir::Op& checkpoint();
const ir::Op& random_state();
const ir::Op& draw_again();
const ir::Op& end_draw();
const ir::Op& keep();
const ir::Op& expect_int();
const ir::Op& expect_float();
const ir::Op& expect_bool();
const ir::Op& expect_sizes();
const ir::Op& expect_values();

// Thrown by expect_*: what was found is not what the program was specialised on.
struct ValueGuardFailed {};

}  // namespace fulgurite::prims
