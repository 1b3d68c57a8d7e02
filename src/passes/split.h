// split: the joint trace becomes two programs.
//
//   forward(x, w):                       backward(saved, cotangents):
//       t0 = torch.mm(x, w)                  x, t1 = saved; g = cotangents
//       t1 = torch.tanh(t0)                  t2 = aten.tanh_backward(g, t1)
//       return t1, saved: (x, t1)            ...
//
// Whatever forward does not need for its own results is computed in backward. Of what backward
// needs, as little as possible is saved: never a view (its base is saved, and the view taken
// again), never something that is cheap to compute from what is saved anyway and is not smaller,
// and of an activation checkpoint nothing but what the rest of the program uses: backward computes
// its values again, with the random numbers of the forward.
#pragma once

#include <vector>

#include "passes/differentiate.h"

namespace fulgurite::passes {

struct SplitTraces {
  ir::TracePtr forward;   // AugmentedForward
  ir::TracePtr backward;  // Backward: saved values, then one cotangent per attached value
};

SplitTraces split(const Joint& joint);

}  // namespace fulgurite::passes
