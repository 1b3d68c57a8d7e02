// How a call whose data left one program at a value guard goes on in another one, with what the
// first has computed.
//
// The other program starts behind the steps that both have in common. Of these it needs what its
// later steps read, saved values and outputs included; each such register is
//   taken    if the first program still has the value: not freed, not overwritten since
//   made again, from values that are taken or made again, if not
// Memory that is written in place is taken as a whole or not at all, and so are the numbers drawn
// from the random generator: where one must be drawn again, its state goes back to what it was when
// the call began, and all are.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "run/steps.h"

namespace fulgurite::run {

struct Handover {
  using Pairs = std::vector<std::pair<ir::ValueId, ir::ValueId>>;  // register of the first, other
  Pairs same_inputs;  // must be the very same tensors and numbers
  Pairs taken;
  std::vector<size_t> again;  // steps before `start` that run once more, in order
  size_t start = 0;
  bool random_again = false;
};

// One of two programs whose steps have been numbered together.
struct NumberedProgram {
  const ir::Trace& trace;
  const Plan& core;
  const Steps& steps;
};

// `step`: of `from`, which failed. Null if nothing can be handed over.
std::shared_ptr<const Handover> hand_over(const NumberedProgram& from, size_t step,
                                          const NumberedProgram& to);

}  // namespace fulgurite::run
