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

// One operator on these arguments (schema order) as a bind of a trace that has nothing else.
struct OneBind {
  ir::TracePtr trace;
  ir::Bind bind;
  std::vector<at::Tensor> tensors;  // by input of the trace
};
OneBind one_bind(const ir::Op& op, const std::vector<c10::IValue>& arguments);

// The default rule of an operator for these arguments, of which dtypes and shapes count: every
// floating argument gets a gradient. Throws RuleError FG-327 if there is none.
struct DefaultRuleTraces {
  ir::TracePtr augmented_forward;  // takes the tensors among the arguments
  ir::TracePtr backward;           // returns one gradient or None per tensor argument
};
DefaultRuleTraces default_rule_traces(const ir::Op& op, const std::vector<c10::IValue>& arguments);

}  // namespace fulgurite::passes
