// The registry of gradient rules that users give: by operator, an augmented forward, a backward, or
// both in one function. A rule's functions run on sample tensors when a program is compiled
// (passes/user_rules.h) and on real ones while a call is recorded (run/ruled.h); what they do is
// written down, so a rule is a trace like any other. They are opaque here: C++ lambdas, or Python
// behind one.
//
// All functions may be called from any thread. A change is a new generation; programs remember the
// generation that they were compiled in.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/errors.h"
#include "ir/op.h"

namespace fulgurite::rules {

// A rule is wrong: it has the wrong number of results, gives a wrong shape or dtype, cannot be
// traced. Unlike a Refusal it is raised to the user: to compute another gradient silently would be
// wrong.
class RuleError : public UserError {
 public:
  using UserError::UserError;
};

struct Augmented {
  std::vector<c10::IValue> results;  // one per result of the schema
  std::vector<c10::IValue> saved;    // anything; what the backward takes first
};

// Takes the arguments of the operator, in the order of its schema.
using AugmentedForward = std::function<Augmented(const std::vector<c10::IValue>& arguments)>;

// Takes what was saved, then one cotangent per tensor result (undefined for results that are not
// differentiable; zeros for those that nobody uses). Returns one gradient per tensor argument, flat
// (lists of tensors count by element, a number in place of a tensor counts); undefined: none.
using Backward = std::function<std::vector<at::Tensor>(const std::vector<c10::IValue>& saved,
                                                       const std::vector<at::Tensor>& cotangents)>;

// What a rule in one function asks: the cotangent of a result, and where a gradient goes.
class Gradients {
 public:
  virtual ~Gradients() = default;
  virtual at::Tensor get_grad(const at::Tensor& result) = 0;
  virtual void put_grad(const at::Tensor& argument, const at::Tensor& gradient) = 0;
};
using Joint = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>& arguments,
                                                     Gradients& gradients)>;

// What is registered for one operator. A part that is not given is the default one; `joint`
// excludes the others. The names are for messages: "my_rule (train.py:12)".
struct Rule {
  AugmentedForward forward;
  Backward backward;
  Joint joint;
  std::string forward_name;
  std::string backward_name;
  std::string joint_name;

  bool empty() const { return !forward && !backward && !joint; }
};

// Sets one part; an empty function takes it back to the default. Throws RuleError FG-322 for an
// operator that can have no rule (one that works in place; its functional form can).
void set_augmented_forward(const ir::Op& op, AugmentedForward forward, std::string name = "");
void set_backward(const ir::Op& op, Backward backward, std::string name = "");
void set_joint(const ir::Op& op, Joint joint, std::string name = "");

// nullptr if the default rule holds.
std::shared_ptr<const Rule> find(const ir::Op& op);
// Whether any operator has a rule of a user's; a relaxed load.
bool any();
// Increases with every change.
uint64_t generation();
// Whether the rule of one of these operators has changed after `since`.
bool changed(const std::vector<ir::Op>& ops, uint64_t since);

// The operator with this id: "aten.mul.Tensor", "aten.sin", "aten::sin". Throws RuleError FG-320
// naming the nearest one.
ir::Op op_by_id(const std::string& id);

}  // namespace fulgurite::rules
