// How a call of an operator is written in Python, and which operator a written call means.
//
// Three spellings: `torch.ops.aten.add.Tensor(x, y)` always means exactly that operator;
// `fulgurite.prims.copy_(v, x)` is an operator of our own; and friendly ones, `torch.add(x, y)`,
// `x.mul_(2)`, come from a generated list (python_names.inc). For these PyTorch's binding chooses
// the overload from the kinds of the arguments; `resolve` repeats that choice, erring to the side
// of finding nothing. The printer uses a friendly spelling only if `resolve` gives the same call
// back.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/literal.h"

namespace fulgurite::ir {

struct Call {
  std::string callee;  // "torch.add"; ".mul_" for a method of the first argument
  std::vector<Literal> positional;
  std::vector<std::pair<std::string, Literal>> keywords;
};

struct ResolvedCall {
  Op op;
  std::vector<Arg> args;  // one for each argument of the schema, in normal form
};

// `args` must fit the schema of `op`.
Call spell(const Op& op, const std::vector<Arg>& args, const std::vector<Value>& values);

// The call's operator and arguments, or a message that says why there is none.
std::variant<ResolvedCall, std::string> resolve(const Call& call, const std::vector<Value>& values);

std::string call_text(const Call& call, const std::vector<Value>& values);

// Words that Python reserves: they can be neither keyword arguments nor attributes.
bool is_python_keyword(std::string_view word);

}  // namespace fulgurite::ir
