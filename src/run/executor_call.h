// Calls of executors' operators: straight to the implementation that the operator had when the plan
// was made, with what it returned compared to what the trace has there.
#pragma once

#include <optional>

#include "exec/operators.h"
#include "run/plan.h"

namespace fulgurite::run {

struct ExecutorCall {
  exec::ImplementationPtr implementation;
  std::string who;                                   // "executor mine, mine.sin, train.py:6"
  std::vector<std::optional<ir::TensorType>> types;  // of the results, flat; none: nobody uses it
  std::vector<bool> may_alias;  // per argument: results that are declared aliases may be it
  std::vector<bool> is_alias;   // per return of the schema
  bool by_number = false;       // the last argument is the kernel's number
  bool in_epilogue = false;
};

// nullptr if the operator of `bind` is none of an executor's.
std::shared_ptr<const ExecutorCall> executor_call(const ir::Trace& trace, const ir::Bind& bind,
                                                  bool in_epilogue);

// Throws ExecutorError: FG-411 if the implementation raised, FG-412 if it returned something else
// than the program has there. Results that share memory with an argument against the schema become
// tensors of their own, and results get the strides that the program has.
void run_executor_call(const Instruction& in, Frame& frame, std::vector<c10::IValue>& stack);

}  // namespace fulgurite::run
