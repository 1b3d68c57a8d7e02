// write_through: a scatter into a value that nobody reads again writes into its memory.
//
//   t1 = torch.select(t0, 0, 1)                  t1 = torch.select(t0, 0, 1)
//   t2 = torch.add(t1, v)                        t2 = t1.add_(v)
//   t3 = torch.select_scatter(t0, t2, 0, 1)  =>
//   t4 = torch.select(t3, 0, 2)                  t4 = torch.select(t0, 0, 2)
//
// So that a loop of `x[i] += v` costs what it costs in eager, not a copy of x for each step. Where
// the new contents do not come from one operator on the view, they are copied into it.
#pragma once

#include "ir/trace.h"
#include "passes/memory_groups.h"

namespace fulgurite::passes {

// Part of reinplace.
Body write_through(const Body& body);

}  // namespace fulgurite::passes
