// The rule that an operator has without a user's, as something that a user's rule can go on with:
// its two halves can be called and printed, over all tensor arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/rules.h"
#include "passes/derive.h"
#include "passes/operator_call.h"

namespace fulgurite::passes {

struct DefaultRuleTraces {
  ir::TracePtr augmented_forward;  // takes the tensors among the arguments
  ir::TracePtr backward;           // returns one gradient or None per tensor argument
};

class DefaultRule {
 public:
  // `results`: types of the results, flat. `place` is for messages. Throws RuleError FG-327 if
  // there is none.
  DefaultRule(const ir::Trace& trace, const ir::Bind& bind, std::vector<ir::TensorType> results,
              const std::string& place);

  size_t saves() const { return rule_->trace->num_saved_inputs; }  // how many values
  bool has_its_cotangents(const std::vector<at::Tensor>& cotangents) const;

  // The operator itself, and what the rule wants saved.
  rules::Augmented forward(const std::vector<c10::IValue>& arguments) const;
  // By slot.
  std::vector<at::Tensor> backward(const std::vector<c10::IValue>& saved,
                                   const std::vector<at::Tensor>& cotangents) const;
  // Both halves as programs.
  DefaultRuleTraces traces() const;

 private:
  // The bind with every floating argument differentiable, and tensors in place of numbers: what the
  // rule saves must not depend on what happens to require grad. Each tensor, hole and number has
  // one place in both.
  void widen(const ir::Trace& trace, const ir::Bind& bind);

  std::vector<Slot> slots_;
  std::vector<ir::TensorType> types_;  // of the results, flat
  ir::TracePtr trace_;                 // wide
  ir::Bind bind_;                      // wide, without results
  std::vector<bool> wanted_;           // by slot
  std::shared_ptr<const Rule> rule_;   // of `bind_`
};

// The default rule of an operator for these arguments, of which dtypes and shapes count: every
// floating argument gets a gradient. Throws RuleError FG-327 if there is none.
DefaultRuleTraces default_rule_traces(const ir::Op& op, const std::vector<c10::IValue>& arguments);

}  // namespace fulgurite::passes
