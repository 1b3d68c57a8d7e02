// Users' rules (ops/rules.h) as traces: the rule's functions run on sample tensors under the
// recorder.
//
//   backward(x, g) { return {g * x.cos()}; }   =>   backward_sin(arg0, g0): cos, mul
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/rules.h"
#include "passes/derive.h"

namespace fulgurite::passes {

// The rule that a user has registered for the operator of `bind`; nullptr if there is none. `bind`
// need not have results. Every floating result has a cotangent. `where` is the user's line, for
// messages.
// Throws rules::RuleError FG-32x if the rule is wrong, and whatever the rule itself throws.
std::shared_ptr<const Rule> user_rule(const ir::Trace& trace, const ir::Bind& bind,
                                      const std::vector<bool>& wanted, const std::string& where);

// While a rule is traced on this thread: what it is traced for ("aten.sin at train.py:12"), else
// "".
std::string rule_place();

// The default rules, for rules that want to go on with them. Both work while a rule is traced on
// this thread, for its operator; they throw RuleError FG-329 otherwise.
rules::Augmented default_augmented_forward(const std::vector<c10::IValue>& arguments);
std::vector<at::Tensor> default_backward(const std::vector<c10::IValue>& saved,
                                         const std::vector<at::Tensor>& cotangents);

// What `get_grad` and `put_grad` of the rule that is traced on this thread mean; throws RuleError
// FG-329 outside one.
rules::Gradients& gradients_of_rule();

}  // namespace fulgurite::passes
