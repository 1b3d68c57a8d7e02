// Operators that executors bring along. They are operators of PyTorch's dispatcher like all others,
// in a namespace of their executor, so that programs and rules can call them and traces print them;
// a plan calls their implementation without going through the dispatcher.
#pragma once

#include "exec/executor.h"

namespace fulgurite::exec {

struct Operator {
  ir::Op op;
  std::string executor;
  ImplementationPtr implementation;
  ImplementationPtr meta;      // on meta tensors: what the results are like
  bool calls_kernels = false;  // it is the executor's `fused_operator`
};
using OperatorPtr = std::shared_ptr<const Operator>;

struct OperatorTraits {
  bool has_effect = false;  // must run although nobody uses its results
  bool is_random = false;
  bool calls_kernels = false;
};

// Defines "<namespace>::<name>" with this schema, "(Tensor a, float b) -> Tensor". The same name
// again puts another implementation in place, if the schema is the same.
// Throws UserError FG-403 for a schema that cannot be used.
ir::Op define_operator(Executor& executor, const std::string& name, const std::string& schema,
                       ImplementationPtr implementation, ImplementationPtr meta,
                       OperatorTraits traits = {});

bool any_operators();  // are there any
// nullptr for all other operators.
OperatorPtr find_operator(const ir::Op& op);

// ---- kernels of groups: "<namespace>::fused(Tensor[] inputs, int kernel) -> Tensor[]" ----
// The number under which the kernel is called; it lives as long as somebody holds it. `group`: what
// it computes.
int64_t add_kernel(const ImplementationPtr& kernel, ir::TracePtr group);
// Throws ExecutorError FG-416 if it is gone.
ImplementationPtr find_kernel(int64_t number);
ir::TracePtr group_of_kernel(int64_t number);  // nullptr if it is gone
// The executor's operator that calls kernels.
ir::Op fused_operator(Executor& executor);

}  // namespace fulgurite::exec
