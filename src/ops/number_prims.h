// Arithmetic on numbers, as CPython does it on float and int. Where CPython would raise, leave the
// reals, or need more than 64 bits, the run is abandoned (prims::ValueGuardFailed), and Python says
// what happens.
//
//   number_float(v), number_int(v)         the number v itself
//   float_of(int)                          float(i)
//   float_add, sub, mul, div, floordiv, mod, pow, fmod, copysign, min, max   of two floats
//   float_neg, abs, sqrt, exp, log, log2, log10, sin, cos, tanh          of one
//   float_floor, ceil, trunc, round                                      of one: an int
//   int_add, sub, mul, floordiv, mod, pow, and, or, xor, lshift, rshift, min, max  of two ints
//   int_neg, abs, invert                                                 of one
//   float_lt, le, eq, int_lt, le, eq, float_isnan, isinf, isfinite       questions: a bool
//   expect_fits(v, dtype)                  nothing; operators on tensors of this dtype take v
#pragma once

#include <optional>
#include <string>

#include "ir/op.h"

namespace fulgurite::prims {

const ir::Op& number_float();
const ir::Op& number_int();
const ir::Op& expect_fits();
// "float_add" and so on; nothing if there is no such calculation.
std::optional<ir::Op> calculation(const std::string& name);

}  // namespace fulgurite::prims
