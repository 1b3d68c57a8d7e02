// simplify: what costs nothing to leave out.
//
//   t0 = torch.t(w)                 t0 = torch.t(w)
//   t1 = torch.t(w)          =>     t2 = torch.mm(x, t0)
//   t2 = torch.mm(x, t1)            return t2
//   t3 = torch.sin(x)
//   return t2
//
// dce: binds without effects whose results nobody uses go. cse: a pure bind equal to an earlier one
// is that one. no-ops: detach and other identities inside the functional part, conversions to what
// a value is. What leaves the trace (outputs, values used by the epilogue) is never merged: two
// results that the caller gets are two tensors.
#pragma once

#include "ir/trace.h"

namespace fulgurite::passes {

// Returns the same object if nothing changes.
ir::TracePtr simplify(const ir::TracePtr& trace);
ir::TracePtr eliminate_dead_code(const ir::TracePtr& trace);

}  // namespace fulgurite::passes
