// The pipeline: the list of passes that a recorded trace goes through, and every stage it leaves
// behind.
#pragma once

#include <string>
#include <vector>

#include "ir/trace.h"
#include "passes/claim.h"
#include "passes/derive.h"
#include "record/recorder.h"

namespace fulgurite::passes {

// One stage, as it is kept for the user to read.
struct Stage {
  std::string name;
  ir::TracePtr trace;
  double milliseconds = 0;  // that the pass took
};

struct PipelineOptions {
  bool reinplace = true;
  bool write_back_at_once = false;  // of leaves that require grad: skip_inplace_functionalization
  Claimer claim = {};
  std::vector<record::SharedInput> shared = {};  // Recording::shared
};

// A leaf that the core writes back (ops/open_leaf.h): `result` is what the caller gets for it.
struct LeafWrite {
  ir::ValueId result, source, destination;
  bool source_is_free;  // nobody else sees the memory of `source`
};

struct Lowered {
  ir::TracePtr forward;   // Computation, or AugmentedForward if there is a backward
  ir::TracePtr backward;  // null without gradient
  // The backward before claim and reinplace: it can run under autograd, and every operator in it
  // says which gradient depends on which cotangent.
  ir::TracePtr differentiable_backward;
  ir::TracePtr functional;  // what create_graph differentiates again; same inputs as forward
  std::vector<ir::ValueId> attached;             // values that get a history, ids in forward
  std::vector<ir::ValueId> functional_attached;  // the same, ids in functional
  std::vector<size_t> differentiable;  // inputs that have a gradient, one output of backward each
  std::vector<LeafWrite> leaf_writes;
  std::vector<Stage> stages;  // of the forward, from "recorded" to what runs
  std::vector<Stage> backward_stages;
  std::vector<Claim> claims, backward_claims;     // empty if everything was left to ATen
  std::vector<std::shared_ptr<const void>> kept;  // what the claims need
  // By bind of `functional`: the user's rule that it was differentiated by, or null; empty without
  // gradient.
  std::vector<std::shared_ptr<const Rule>> user_rules;
  // What the program depends on in the registry of rules (ops/rules.h).
  std::vector<ir::Op> operators;
  uint64_t rules_generation = 0;
};

// Throws Refusal if the program cannot be compiled soundly.
Lowered run_pipeline(const ir::TracePtr& recorded, const PipelineOptions& options);

}  // namespace fulgurite::passes
