// Which operators are differentiated together, in one node of the autograd graph.
//
// Without autograd.Functions that is all of them. The backward of a Function is the user's Python,
// called by a node of eager's own (run/compiled.h), and splits the rest into parts: two operators
// are in the same part exactly if the same of the program's outputs and Functions depend on them.
// So the graph of the parts and Functions has the connections that eager's has: whatever is asked
// for, the same Functions run, and there are no circles.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

inline constexpr int kNoPart = -1;

struct GradientParts {
  size_t count = 0;
  std::vector<int> of_bind;   // kNoPart: the bind is not differentiated
  std::vector<int> of_value;  // whose node gives the value its history; kNoPart: an input, the
                              // result of a Function, or no history
  // Values that get a history, by part, in the order of `attached` and then of their use.
  std::vector<std::vector<ir::ValueId>> attached;
};

// The arguments of the call (prims.function) that autograd sees.
const ir::ValueList& function_inputs(const ir::Bind& function);
const ir::ValueList& function_results(const ir::Bind& function);

// `active`: the values that depend differentiably on an input that requires grad. `attached`: those
// that the caller gets. `one`: a single part, Functions included.
GradientParts gradient_parts(const ir::Trace& functional, const std::vector<bool>& active,
                             const std::vector<ir::ValueId>& attached, bool one = false);

}  // namespace fulgurite::passes
