// The rule of an operator: its backward, as a trace. A user's rule comes first (user_rules.h), then
// explicit ones (explicit_rules.h); all others are derived from PyTorch's own formulas, by running
// the operator and the C++ autograd engine under the recorder on sample tensors of the recorded
// geometry. A rule is derived once per operator, constants and geometry, and cached for the
// process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

struct Rule {
  enum class Source : uint8_t { Argument, Result, Cotangent, Saved };
  struct Input {
    Source source;
    size_t index;  // among the tensors of the bind's arguments (flat), results (flat), results
                   // (flat), saved values of `forward`
  };
  ir::TracePtr trace;  // kind Rule; returns one gradient or kNoValue per entry of `gradients_of`
  std::vector<Input> inputs;         // what each input of `trace` is
  std::vector<size_t> gradients_of;  // flat argument indices

  // What runs in place of the operator where it is differentiated, if the rule says so: kind
  // AugmentedForward; takes the tensors `forward_arguments` (flat), returns the results (flat) and
  // saves what `trace` needs. Null: the operator itself.
  ir::TracePtr forward;
  std::vector<size_t> forward_arguments;
  bool of_user = false;
  // Of derived ones: the binds of PyTorch's formula, as they were recorded. Null: not known.
  std::shared_ptr<const std::vector<ir::Bind>> formula;
};

// Flat tensor arguments and results of a bind; kNoValue for holes.
std::vector<ir::ValueId> tensor_arguments(const ir::Trace& trace, const ir::Bind& bind);
std::vector<ir::ValueId> tensor_results(const ir::Trace& trace, const ir::Bind& bind);

// `cotangents`: by flat result, the type of the cotangent, or nullptr where there is none.
// `wanted`: by flat argument, whether its gradient is wanted.
// Throws Refusal FG-17x if the operator has no derivative that can be expressed. Users' rules are
// not asked.
std::shared_ptr<const Rule> derive(const ir::Trace& trace, const ir::Bind& bind,
                                   const std::vector<const ir::TensorType*>& cotangents,
                                   const std::vector<bool>& wanted);

struct DeriveStatistics {
  size_t derived = 0;
  size_t reused = 0;
};
DeriveStatistics derive_statistics();

}  // namespace fulgurite::passes
