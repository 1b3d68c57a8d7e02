// The traces of one part (gradient_parts.h), cut out of those of the whole program.
#pragma once

#include <memory>
#include <vector>

#include "passes/differentiate.h"

namespace fulgurite::passes {

// Indices [begin, end) of outputs and cotangents of a backward trace.
struct Range {
  size_t begin, end;
};

struct BackwardSlice {
  ir::TracePtr trace;         // takes what it needs of the saved values, then its cotangents
  std::vector<size_t> saved;  // which, among those of the whole
};
BackwardSlice slice_backward(const ir::Trace& backward, Range gradients, Range cotangents);

struct FunctionalSlice {
  ir::TracePtr trace;                 // the part's operators, and those without history they need
  std::vector<ir::ValueId> inputs;    // of the whole program: one per input of `trace`
  std::vector<ir::ValueId> attached;  // ids in `trace`
  std::vector<std::shared_ptr<const Rule>> user_rules;  // by bind of `trace`
};
FunctionalSlice slice_functional(const ir::Trace& functional, const Joint& joint, size_t part);

}  // namespace fulgurite::passes
