// Which operators are differentiated together, in one node of the autograd graph.
//
// Without steps (ops::has_own_history) that is all of them. The backward of an autograd.Function is
// the user's Python, called by a node of eager's own (run/compiled.h), hooks have a node of their
// own (a boundary), and a leaf that the call makes ends the graph. They split the rest into parts:
// two operators are in the same part exactly if the same of the program's outputs and steps depend
// on them. So the graph of the parts and steps has the connections that eager's has: whatever is
// asked for, the same Functions and hooks run, and there are no circles.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

inline constexpr int kNoPart = -1;

struct GradientParts {
  size_t count = 0;
  std::vector<int> of_bind;   // kNoPart: the bind is not differentiated
  std::vector<int> of_value;  // whose node gives the value its history; kNoPart: an input, the
                              // result of a step, or no history
  // Values that get a history, by part, in the order of `attached` and then of their use.
  std::vector<std::vector<ir::ValueId>> attached;
};

// The arguments of the call (prims.function) that autograd sees.
const ir::ValueList& function_inputs(const ir::Bind& function);
const ir::ValueList& function_results(const ir::Bind& function);
// What gradients reach through a step: the inputs of a Function, the one of a boundary, none of a
// leaf.
ir::ValueList inputs_of_step(const ir::Bind& step);

// Whether one of them is computed from another, with a history: gradients of the one for the other
// are asked of the graph
// (`autograd.grad(loss, hidden)`, `hidden.retain_grad()`).
bool depend_on_each_other(const ir::Trace& functional, const std::vector<ir::ValueId>& attached);

// `active`: the values that depend differentiably on an input that requires grad. `attached`: those
// that the caller gets. `one`: a single part, steps included.
// `separate`: several, although there are no steps.
GradientParts gradient_parts(const ir::Trace& functional, const std::vector<bool>& active,
                             const std::vector<ir::ValueId>& attached, bool one = false,
                             bool separate = false);

}  // namespace fulgurite::passes
