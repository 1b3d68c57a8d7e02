// What has a history of its own (ops::has_own_history): calls of autograd.Functions, and places for
// hooks. Leaves that the call makes are made where they are read (variables.cpp).
#pragma once

#include "passes/functional/kept_history.h"
#include "passes/functional/variables.h"
#include "passes/functionalize.h"

namespace fulgurite::passes {

class Steps {
 public:
  Steps(const ir::Trace& recorded, Emitter& e, Variables& vars, const KeptHistory& kept)
      : in_(recorded), e_(e), vars_(vars), kept_(kept) {}

  // Both throw Refusal (FG-191, FG-193).
  void function_call(const ir::Bind& bind);
  void boundary(const ir::Bind& bind);
  // A boundary where the view is, taken of its base by eager's operator; false if that would be
  // another kind of view.
  bool view_boundary(int view, const ir::Arg& number);
  static void check_saved(const Functionalized& f);

 private:
  ir::ValueId base_of(int view);
  const ir::Trace& in_;
  Emitter& e_;
  Variables& vars_;
  const KeptHistory& kept_;
};

}  // namespace fulgurite::passes
