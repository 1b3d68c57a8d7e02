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

#include <vector>

#include "ir/trace.h"
#include "record/recorder.h"

namespace fulgurite::passes {

struct Functionalized {
  ir::TracePtr trace;
  // For each value of `trace`: when the recorded program overwrote its memory, or SIZE_MAX. 2 * i:
  // by what bind i computed; 2 * i - 1: between binds i - 1 and i. A bind before that whose
  // gradient needs the value is one that eager refuses to differentiate (or, for a write through
  // .data, differentiates with what was written).
  std::vector<size_t> overwritten_at;
  // Whether a version counter told of it: eager's backward raises, if it needs the value. (After a
  // write through .data it goes on with what was written.)
  std::vector<bool> overwriting_counted;
};

// Throws Refusal FG-15x for programs whose aliasing it cannot express. `write_back_at_once`: leaves
// that require grad are written where the program writes them, not at the end.
// `shared`: what is known of inputs that share memory.
Functionalized functionalize(const ir::Trace& recorded, bool write_back_at_once = false,
                             const std::vector<record::SharedInput>& shared = {});

}  // namespace fulgurite::passes
