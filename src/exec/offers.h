// Asking executors: who will have an operator, and what stands in its place then.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "exec/executor.h"
#include "passes/claim.h"

namespace fulgurite::exec {

using Declined = std::vector<std::pair<std::string, std::string>>;

// Does the checker take it? Throws ExecutorError FG-410 if it raises.
Verdict ask(const Executor& executor, const Checker& checker, const Candidate& candidate);

// The arguments of `as` in the place of `candidate`; the reason if an argument that it does not
// take has not its default, or is None where it takes none.
std::optional<std::vector<ir::Arg>> arguments_for(const ir::Op& as, const Candidate& candidate,
                                                  std::string* why_not);

// "executor mine, aten.mul.Tensor, train.py:6": how errors begin.
std::string who(const std::string& executor, const Candidate& candidate);

// Runs the meta function of an executor's operator on what the trace says of its arguments, and
// compares with what it says of the results. Throws ExecutorError FG-413. Operators of others pass.
void check_meta(const std::string& executor, const ir::Op& as, const std::vector<ir::Arg>& args,
                const Candidate& candidate);

}  // namespace fulgurite::exec
