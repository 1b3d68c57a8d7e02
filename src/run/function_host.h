// Who gives the results of custom autograd.Functions their history, and knows the hooks on what the
// call makes: in Python, eager's own autograd.Function machinery, with the user's class
// (python/functions.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fulgurite::run {

// One call of a Function, as the program computed it (prims.function).
struct FunctionTensors {
  std::vector<at::Tensor> inputs;   // with the history that they have
  std::vector<at::Tensor> outputs;  // without; where `view_of` says so, views of inputs
  std::vector<at::Tensor> saved;    // the very tensors among inputs and outputs where they are one
};

class FunctionHost {
 public:
  virtual ~FunctionHost() = default;
  // The outputs, with their history. `call`: the number of prims.function. Throws
  // std::runtime_error.
  virtual std::vector<at::Tensor> give_history(int64_t call,
                                               const FunctionTensors& tensors) const = 0;
  // The result of prims.boundary `number`: what becomes of the gradient there is up to its hooks.
  virtual void hooked(int64_t number, const at::Tensor& tensor) const = 0;
};

}  // namespace fulgurite::run
