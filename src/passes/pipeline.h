// The pipeline: the list of passes that a recorded trace goes through, and every stage it leaves
// behind.
#pragma once

#include <string>
#include <vector>

#include "ir/trace.h"
#include "passes/claim.h"

namespace fulgurite::passes {

// One stage, as it is kept for the user to read.
struct Stage {
  std::string name;
  ir::TracePtr trace;
  double milliseconds = 0;  // that the pass took
};

struct PipelineOptions {
  bool reinplace = true;
  Claimer claim = {};
};

struct Lowered {
  ir::TracePtr forward;   // Computation, or AugmentedForward if there is a backward
  ir::TracePtr backward;  // null without gradient
  // The backward before it was claimed: operators in one piece would hide which gradient depends on
  // which cotangent.
  ir::TracePtr unclaimed_backward;
  ir::TracePtr functional;  // what create_graph differentiates again; same inputs as forward
  std::vector<ir::ValueId> attached;             // values that get a history, ids in forward
  std::vector<ir::ValueId> functional_attached;  // the same, ids in functional
  std::vector<size_t> differentiable;  // inputs that have a gradient, one output of backward each
  std::vector<Stage> stages;           // of the forward, from "recorded" to what runs
  std::vector<Stage> backward_stages;
  std::vector<Claim> claims, backward_claims;     // empty if everything was left to ATen
  std::vector<std::shared_ptr<const void>> kept;  // what the claims need
};

// Throws Refusal if the program cannot be compiled soundly.
Lowered run_pipeline(const ir::TracePtr& recorded, const PipelineOptions& options);

}  // namespace fulgurite::passes
