// The rule of an operator: its backward, as a trace. Explicit rules come first (ops/rules); all
// others are derived from PyTorch's own formulas, by running the operator and the C++ autograd
// engine under the recorder on sample tensors of the recorded geometry. A rule is derived once per
// operator, constants and geometry, and cached for the process.
#pragma once

#include <memory>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

struct Rule {
  enum class Source : uint8_t { Argument, Result, Cotangent };
  struct Input {
    Source source;
    size_t
        index;  // among the tensors of the bind's arguments (flat), results (flat), results (flat)
  };
  ir::TracePtr trace;  // kind Rule; returns one gradient or kNoValue per entry of `gradients_of`
  std::vector<Input> inputs;         // what each input of `trace` is
  std::vector<size_t> gradients_of;  // flat argument indices
};

// Flat tensor arguments and results of a bind; kNoValue for holes.
std::vector<ir::ValueId> tensor_arguments(const ir::Trace& trace, const ir::Bind& bind);
std::vector<ir::ValueId> tensor_results(const ir::Trace& trace, const ir::Bind& bind);

// `cotangents`: by flat result, the type of the cotangent, or nullptr where there is none.
// `wanted`: by flat argument, whether its gradient is wanted.
// Throws Refusal FG-17x if the operator has no derivative that can be expressed.
std::shared_ptr<const Rule> derive(const ir::Trace& trace, const ir::Bind& bind,
                                   const std::vector<const ir::TensorType*>& cotangents,
                                   const std::vector<bool>& wanted);

struct DeriveStatistics {
  size_t derived = 0;
  size_t reused = 0;
};
DeriveStatistics derive_statistics();

}  // namespace fulgurite::passes
