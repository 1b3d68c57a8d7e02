// One operator with its arguments, as gradient rules see it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

// The place of one tensor among the arguments, by the schema. A number in place of a tensor is one.
struct Slot {
  size_t argument;     // of the schema
  size_t element = 0;  // of a list
  int flat = -1;       // among the tensors of the bind, -1: no tensor
};
std::vector<Slot> slots_of(const ir::Bind& bind);

// One result per return of the schema.
std::vector<c10::IValue> call_operator(const ir::Op& op, const std::vector<c10::IValue>& arguments);
// The tensors among them; undefined ones are left out of lists, as a bind has them.
std::vector<at::Tensor> tensors_of(const std::vector<c10::IValue>& results);

inline bool is_differentiable(at::ScalarType t) {
  return at::isFloatingType(t) || at::isComplexType(t);
}
// The same values with the strides of `type`.
at::Tensor conform(const at::Tensor& t, const ir::TensorType& type);

// One operator on these arguments (schema order) as a bind of a trace that has nothing else.
struct OneBind {
  ir::TracePtr trace;
  ir::Bind bind;
  std::vector<at::Tensor> tensors;  // by input of the trace
};
OneBind one_bind(const ir::Op& op, const std::vector<c10::IValue>& arguments);

}  // namespace fulgurite::passes
