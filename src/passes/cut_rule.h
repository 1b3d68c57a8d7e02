// cut_rule: one recorded run of an operator and its backward becomes a rule.
//
//   sin(arg0), cos(arg0), mul(g0, c)   =>   backward(arg0, g0): cos, mul
//
// The operator's results become inputs of the backward, and what only computed them goes. If the
// run began with an augmented forward, that is cut off as a trace of its own, and the values that
// cross the cut are saved.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "passes/derive.h"

namespace fulgurite::passes {

// Ids are those of `trace`, kNoValue for holes.
struct JointRun {
  ir::TracePtr trace;                     // functional
  std::vector<ir::ValueId> arguments;     // flat
  std::vector<ir::ValueId> results;       // flat
  std::vector<ir::ValueId> cotangents;    // by result
  std::vector<ir::ValueId> saved;         // what the augmented forward saves explicitly
  std::vector<ir::ValueId> gradients;     // by entry of gradients_of
  std::vector<std::size_t> gradients_of;  // flat argument indices
  bool augmented = false;                 // the forward part is not the operator itself
  // By flat argument: the kind of one that is a number. It is a wrapped number in the run, and a
  // number in the rule.
  std::vector<std::optional<ir::ScalarKind>> numbers = {};
};

// `result_types`: by result, the type that the augmented forward must give (strides included).
// Throws Refusal FG-172 and FG-173 for a backward that cannot be a rule.
std::shared_ptr<Rule> cut_rule(const ir::Bind& bind, const JointRun& joint,
                               const std::vector<ir::TensorType>& result_types = {});

}  // namespace fulgurite::passes
