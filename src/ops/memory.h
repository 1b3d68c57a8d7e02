// What operators do to memory whose contents nobody has set yet.
#pragma once

#include <cstddef>

#include "ir/op.h"

namespace fulgurite::ops {

// Does the operator write this argument without looking at what is there?
bool overwrites_argument(const ir::Op& op, std::size_t argument);
// Does it only hand memory on, or ask for its geometry?
bool ignores_contents(const ir::Op& op);

}  // namespace fulgurite::ops
