// reinplace: values become buffers again where nobody can tell.
//
//   t0 = torch.mm(x, w)                  t0 = torch.mm(x, w)
//   t1 = torch.mul(t0, 2)        =>      t1 = t0.mul_(2)          # t0 is not read again
//
// A bind turns into its in-place variant if the value it would overwrite was made by the trace
// itself, has the type of the result, shares memory with nothing that is read later, and is not
// saved or given out; or if it is the caller's own, and nothing can go wrong any more
// (passes/direct_writes.h).
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

// `later`: values that are used when the core has run, beside outputs, saved values and those of
// the epilogue. Returns the same object if nothing changes.
ir::TracePtr reinplace(const ir::TracePtr& trace, const std::vector<ir::ValueId>& later = {});

}  // namespace fulgurite::passes
