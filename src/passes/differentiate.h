// differentiate: one joint trace of forward and backward.
//
//   def f(x+g, w+g):              def f(x+g, w+g, g_t1):
//       t0 = torch.mm(x, w)           t0 = torch.mm(x, w)
//       t1 = torch.tanh(t0)   =>      t1 = torch.tanh(t0)
//       return t1                     t2 = aten.tanh_backward(g_t1, t1)
//                                     t3 = t0's cotangents: x.t(), mm, ...
//                                     return t1, t5, t7
//
// Every bind on the way from an input that requires grad to a value that leaves the trace with
// history is differentiated by its rule (passes/user_rules.h, passes/derive.h). Cotangents are
// added where a value is used more than once.
#pragma once

#include <memory>
#include <vector>

#include "passes/derive.h"
#include "passes/functionalize.h"
#include "passes/gradient_parts.h"

namespace fulgurite::passes {

// What one node of the autograd graph is made for (passes/gradient_parts.h). Ids of the forward.
struct NodeValues {
  std::vector<ir::ValueId> attached;        // values that get a history; one cotangent each
  std::vector<ir::ValueId> differentiable;  // of which the node gives gradients, in order
};

struct Joint {
  // Inputs: the forward's, then one cotangent per attached value of each part; outputs: the
  // forward's, then the gradients of each part.
  ir::TracePtr trace;
  size_t forward_inputs = 0;
  size_t forward_outputs = 0;
  std::vector<NodeValues> parts;
  GradientParts partition;
  // By bind of the functional trace: the user's rule that it was differentiated by, or null.
  std::vector<std::shared_ptr<const Rule>> user_rules;
};

// Throws Refusal if a rule is missing (FG-17x), or if eager's backward would raise because a tensor
// that it needs was overwritten (FG-180).
// `to_read`: one program for people, in which the backward of an autograd.Function is an operator.
// `separate`: in parts, although the program has no steps.
Joint differentiate(const Functionalized& functional, bool to_read = false, bool separate = false);

// Values of the functional part that the caller gets, directly or through the epilogue, and that
// have a history.
std::vector<ir::ValueId> attached_values(const ir::Trace& functional);

}  // namespace fulgurite::passes
