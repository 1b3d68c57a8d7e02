// The pass claim (passes/claim.h says what it makes): each operator of a trace goes to the first
// executor of the list that will have it.
//
//   regions   A composite operator is offered as a whole first, if nothing inside it is needed
//             elsewhere; its parts are offered if nobody takes it.
//   groups    What is left for an executor that fuses is gathered into groups (exec/groups.h), each
//             offered to its `fuse`; what it declines goes to the next executors.
//   aten      takes everything: its binds stay as they are.
//
// The result of an executor's operator must be what the program has there: its meta function is
// asked now (FG-413), and what it returns is compared in each call (run/executor_call.h).
#pragma once

#include "exec/executor.h"
#include "passes/claim.h"

namespace fulgurite::exec {

// For a completed list (exec/registry.h). An empty function if aten alone is in it, and no
// executor's operator is known. Claiming throws ExecutorError FG-41x.
passes::Claimer claimer(const ExecutorList& list);

// "train.py:6", "" if unknown.
std::string place(const ir::Trace& trace, int32_t location);

}  // namespace fulgurite::exec
