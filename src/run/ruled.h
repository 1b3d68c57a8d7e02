// Operators under users' rules, run one by one on real tensors: while a call is recorded or runs
// eagerly, and when a compiled program is differentiated again. The results get an autograd node
// that runs the rule's backward, which autograd can differentiate in turn.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/trace.h"
#include "passes/derive.h"

namespace fulgurite::run {

// Runs `bind` with the values in `env`, by `rule`. Autograd must be on.
void run_ruled(const ir::Bind& bind, const std::shared_ptr<const passes::Rule>& rule,
               std::vector<c10::IValue>& env);

// Runs `op` on the arguments on top of the stack by the rule that a user has registered for it (for
// an in-place operator: for its functional form), and leaves the results there. False, with nothing
// done, if there is none, or no gradient is wanted. Throws rules::RuleError.
bool apply_user_rule(const ir::Op& op, std::vector<c10::IValue>& stack, const std::string& where);

}  // namespace fulgurite::run
