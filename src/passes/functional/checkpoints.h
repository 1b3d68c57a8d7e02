// Whether what a checkpoint computes can be computed again from values: eager calls the function
// again in backward, with what the variables around it hold by then, and does again whatever it
// did.
#pragma once

#include <unordered_map>

#include "passes/functional/variables.h"
#include "passes/functionalize.h"

namespace fulgurite::passes {

class Checkpoints {
 public:
  Checkpoints(const ir::Trace& recorded, Variables& vars) : in_(recorded), vars_(vars) {}

  // Before a recorded bind is carried over. Throws Refusal FG-194 if it does more than compute its
  // results, or would compute others.
  void check(const ir::Bind& recorded);

 private:
  const ir::Trace& in_;
  Variables& vars_;
  std::unordered_map<int32_t, int> first_variable_;  // by checkpoint: variables made since it began
};

// Throws Refusal FG-194 if something that a checkpoint reads is overwritten after it.
void check_checkpoints(const Functionalized& f);

}  // namespace fulgurite::passes
