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
  std::vector<ir::ValueId> views = {};           // Recording::views
  // The call registers hooks on its inputs: backward must reach none that eager's does not reach.
  bool separate_parts = false;
};

// A leaf that the core writes back (ops/open_leaf.h): `result` is what the caller gets for it.
struct LeafWrite {
  ir::ValueId result, source, destination;
  bool source_is_free;  // nobody else sees the memory of `source`
};

// What one node of the autograd graph runs (gradient_parts.h). Ids are those of the forward trace
// unless it says otherwise.
struct GradientPart {
  std::vector<ir::ValueId> attached;        // values that get a history
  std::vector<ir::ValueId> differentiable;  // of which it gives gradients
  std::vector<ir::ValueId> saved;
  ir::TracePtr backward, claimed_backward;  // the latter before reinplace
  // The backward before claim and reinplace: it can run under autograd, and every operator in it
  // says which gradient depends on which cotangent.
  ir::TracePtr differentiable_backward;
  ir::TracePtr functional;                       // what create_graph differentiates again
  std::vector<ir::ValueId> inputs;               // of `functional`: tensors, then numbers
  std::vector<ir::ValueId> functional_attached;  // `attached`, ids in `functional`
  // By bind of `functional`: the user's rule that it was differentiated by, or null.
  std::vector<std::shared_ptr<const Rule>> user_rules;
};

struct Lowered {
  ir::TracePtr forward;  // Computation, or AugmentedForward if it saves something for a backward
  ir::TracePtr functional;
  std::vector<GradientPart> parts;  // none without gradient
  std::vector<LeafWrite> leaf_writes;
  std::vector<Stage> stages;  // of the forward, from "recorded" to what runs
  std::vector<Stage> backward_stages;
  std::vector<Claim> claims, backward_claims;     // empty if everything was left to ATen
  std::vector<std::shared_ptr<const void>> kept;  // what the claims need
  // What the program depends on in the registry of rules (ops/rules.h).
  std::vector<ir::Op> operators;
  uint64_t rules_generation = 0;
};

// Throws Refusal if the program cannot be compiled soundly.
Lowered run_pipeline(const ir::TracePtr& recorded, const PipelineOptions& options);

}  // namespace fulgurite::passes
