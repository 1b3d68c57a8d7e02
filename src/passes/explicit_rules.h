// Rules that are written rather than derived: those of our own operators, and those whose derived
// form would be wrong. An explicit rule is tried before the engine.
#pragma once

#include <memory>
#include <vector>

#include "passes/derive.h"

namespace fulgurite::passes {

// nullptr if the operator has none.
std::shared_ptr<const Rule> explicit_rule(const ir::Trace& trace, const ir::Bind& bind,
                                          const std::vector<const ir::TensorType*>& cotangents,
                                          const std::vector<bool>& wanted);

}  // namespace fulgurite::passes
