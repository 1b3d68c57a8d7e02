// Typed calls: operators with a common C++ signature are called without boxing.
#pragma once

#include "run/plan.h"

namespace fulgurite::run {

// The function that runs `instruction` without boxing, or nullptr if its signature is not a common
// one.
Execute typed_call(const Instruction& instruction);

}  // namespace fulgurite::run
