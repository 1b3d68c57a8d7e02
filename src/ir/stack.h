// Calling the operator of a bind: its arguments as the dispatcher's boxed convention wants them.
#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

// A constant as an argument of this schema type: a number where a Tensor is wanted becomes a
// wrapped number, None where a Tensor is wanted an undefined tensor.
c10::IValue boxed_constant(const c10::IValue& constant, const c10::TypePtr& type);
// A list of values as what `type` says: tensors (an undefined one stands for None) or numbers.
c10::IValue boxed_list(const std::vector<c10::IValue>& items, const c10::TypePtr& type);

// Pushes all arguments; `env` holds the values by id.
void push_arguments(const Bind& bind, const std::vector<c10::IValue>& env,
                    std::vector<c10::IValue>& stack);
// Runs the bind and stores its results in `env`.
void run_bind(const Bind& bind, std::vector<c10::IValue>& env, std::vector<c10::IValue>& stack);

}  // namespace fulgurite::ir
