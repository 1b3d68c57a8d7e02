// The executors that are known by name, and those that a program gets if nobody says otherwise.
#pragma once

#include "exec/executor.h"

namespace fulgurite::exec {

// Makes it known by its name; an executor of that name that was known before is known no more.
void register_executor(ExecutorPtr executor);
// Throws UserError FG-401 if there is none. Programs that used it are dropped, and it takes nothing
// any more until it is registered again.
void deregister_executor(const std::string& name);
// nullptr if there is none.
ExecutorPtr find_executor(const std::string& name);
ExecutorList all_executors();  // in the order of registration, aten last

// The default list, in order; aten is its last one. `always` are tried before aten in every
// program, whatever its list.
ExecutorList default_executors();
ExecutorList always_executors();
void add_default(const ExecutorPtr& executor);
void add_always(const ExecutorPtr& executor);
void remove_default(const Executor& executor);
void remove_always(const Executor& executor);

// The list that a program with this list has: with the `always` executors, and aten at its end.
ExecutorList completed(ExecutorList list);

}  // namespace fulgurite::exec
