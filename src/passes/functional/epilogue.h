// The epilogue of the functional trace: what the caller can see. Writes into inputs, .grad, and
// outputs that are views of inputs or of each other.
#pragma once

#include <utility>
#include <vector>

#include "passes/functional/variables.h"

namespace fulgurite::passes {

class Epilogue {
 public:
  // `grads_set`: the recorded binds that set a leaf's .grad.
  Epilogue(const ir::Trace& recorded, Emitter& e, Variables& vars,
           std::vector<const ir::Bind*> grads_set)
      : in_(recorded), e_(e), vars_(vars), grads_set_(std::move(grads_set)) {}

  // Throws Refusal FG-122, FG-159, FG-162.
  void write();

 private:
  int origin(int v) const;
  int root(int v) const;
  bool changed(int v);

  const ir::Trace& in_;
  Emitter& e_;
  Variables& vars_;
  std::vector<const ir::Bind*> grads_set_;
};

}  // namespace fulgurite::passes
