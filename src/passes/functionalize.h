// functionalize: in-place operators and views become values.
//
//   y = x.t()                 t0 = x.t()
//   y.mul_(2)           =>    t1 = torch.mul(t0, 2)
//   return x.sum()            t2 = t1.t()
//                             t3 = torch.sum(t2)
//                             x.copy_(t2)            # epilogue: what the caller can see
//                             return t3
//
// Generic over schemas: alias annotations say what an operator writes, *recorded storages* say what
// aliases what. A write through a view is carried back to its base through the recorded chain of
// views; the other aliases are derived again from the base when they are next read.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/trace.h"
#include "record/recorder.h"

namespace fulgurite::passes {

// When the recorded program overwrote the memory of a value for the last time. 2 * i: by what bind
// i computed; 2 * i - 1: between binds i - 1 and i. A bind before that whose gradient needs the
// value is one that eager refuses to differentiate, if a version counter told of it. (After a write
// through .data it goes on with what was written.)
struct Overwriting {
  static constexpr int64_t kNever = -2;
  int64_t last = kNever;
  int64_t last_counted = kNever;  // by a version counter
};

struct Functionalized {
  ir::TracePtr trace;
  std::vector<Overwriting> overwritten;  // by value of `trace`
};

// Throws Refusal FG-15x for programs whose aliasing it cannot express. `write_back_at_once`: leaves
// that require grad are written where the program writes them, not at the end.
// `shared`: what is known of inputs that share memory. `views`: inputs that are views to autograd.
Functionalized functionalize(const ir::Trace& recorded, bool write_back_at_once = false,
                             const std::vector<record::SharedInput>& shared = {},
                             const std::vector<ir::ValueId>& views = {});

// By input of a recorded trace: whether it has to be guarded that it is a view to autograd. Writes
// give the nodes of views another place in the graph than those of other tensors.
std::vector<bool> inputs_whose_views_matter(const ir::Trace& recorded);

}  // namespace fulgurite::passes
