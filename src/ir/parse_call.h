// The expressions of printed programs: literals, calls, and constant tensors.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/lexer.h"
#include "ir/spelling.h"

namespace fulgurite::ir {

using NameTable = std::unordered_map<std::string, ValueId>;

Literal parse_literal(Lexer& lexer, const NameTable& names);

// "torch.add(x, 2)", "x.mul_(2)", "getattr(torch.ops.aten.random_, 'from')(x, 0, 1)"
Call parse_call(Lexer& lexer, const NameTable& names);

// The contents of a constant tensor of this type, in logical order.
std::vector<uint8_t> parse_constant(Lexer& lexer, const TensorType& type);

}  // namespace fulgurite::ir
