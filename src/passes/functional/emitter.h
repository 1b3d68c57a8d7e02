// What the parts of functionalize write their binds with: the functional trace under construction
// and the context (line, region, grad mode) of the recorded bind that is being carried over.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "ir/trace.h"

namespace fulgurite::passes {

struct Emitter {
  explicit Emitter(const ir::Trace& recorded);

  // One bind with one result, a tensor of the type of `like`.
  ir::ValueId emit(const ir::Op& op, std::vector<ir::Arg> args, const ir::Value& like,
                   bool requires_grad);
  static ir::Value typed(const ir::TensorType& type, bool requires_grad);
  bool requires_grad(ir::ValueId functional) const {
    return b.value(functional).tensor().requires_grad;
  }

  ir::TraceBuilder b;
  int32_t location = -1;
  int32_t region = -1;
  bool grad_mode = true;
};

inline c10::IValue ints(c10::IntArrayRef v) { return c10::IValue(v.vec()); }

}  // namespace fulgurite::passes
