// Execution transforms: an operator written in other operators. The transform runs on sample
// tensors of the recorded geometry and is recorded, as rules are; what it did is what stands in the
// operator's place.
#pragma once

#include "exec/executor.h"

namespace fulgurite::exec {

// The transform as a trace: inputs are the candidate's tensor arguments (flat, each once), outputs
// its results (flat). Throws ExecutorError FG-414 if the transform raises, cannot be recorded, or
// returns something else than the program has there.
struct Expansion {
  ir::TracePtr trace;
  std::vector<ir::ValueId> inputs;   // ids of the program
  std::vector<ir::ValueId> results;  // ids of the program, kNoValue where nobody uses them
};
Expansion expand(const std::string& executor, const Implementation& transform,
                 const Candidate& candidate);

}  // namespace fulgurite::exec
