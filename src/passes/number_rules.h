// Gradients of operators with numbers that vary.
//
//   add(x, y, alpha=n)        backward: g, mul(g, n)
//
// PyTorch's formulas look at such numbers: some use them, some leave them out, and some take
// another form for a few values (alpha == 1 needs no product, an exponent of 0 no power). So the
// rule is derived for two values that nobody would choose, and what differs between them must be
// the number itself. Then it is derived for those that formulas choose; where the form is another
// one there, the program must not meet that value.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "passes/derive.h"
#include "record/numbers.h"

namespace fulgurite::passes {

// How the number in `argument` may vary; nothing if it cannot. `values`: of the recording, where
// the argument is still a constant.
std::optional<record::VaryingNumber> varying_number(const ir::Bind& bind,
                                                    const std::vector<ir::Value>& values,
                                                    size_t argument);

// Whether an argument that is no tensor for the operator's formulas is a number that varies.
bool has_varying_number(const ir::Trace& trace, const ir::Bind& bind);

// As `derive`, for such a bind. Throws Refusal FG-171 if the rule cannot take the numbers.
std::shared_ptr<const Rule> derive_with_numbers(
    const ir::Trace& trace, const ir::Bind& bind,
    const std::vector<const ir::TensorType*>& cotangents, const std::vector<bool>& wanted);

}  // namespace fulgurite::passes
