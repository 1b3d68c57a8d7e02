// What a schema admits as an argument or a result, and the one form in which traces hold it.
//
// The same argument can be written in several ways (None for a Tensor as an IValue or as kNoValue,
// 2 or 2.0 for a float, an IValue list of no tensors or a ValueList). Traces hold one of them, so
// that equal programs are equal traces; `normalized` makes it, the builder applies it, and `verify`
// demands it.
#pragma once

#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

// The argument's type without Optional around it.
c10::TypePtr strip_optional(const c10::TypePtr& type);

// Tensor, Tensor?: an argument that is a value (or a wrapped number).
bool is_tensor_type(const c10::TypePtr& type);
// Tensor[], Tensor?[] and optional ones: an argument that is a ValueList.
bool is_tensor_list_type(const c10::TypePtr& type);

// The schema's type in which ScalarType, Layout, MemoryFormat and SymInt are still told from int.
inline const c10::TypePtr& full_type(const c10::Argument& argument) { return argument.real_type(); }

// Rewrites `arg` to the normal form for this argument; leaves alone what the schema does not admit.
Arg normalized(Arg arg, const c10::Argument& argument);
void normalize_args(std::vector<Arg>& args, const c10::FunctionSchema& schema);

// "" if the schema admits `arg` (which must be in normal form), else what is wrong with it.
std::string misfit(const Arg& arg, const c10::Argument& argument, const std::vector<Value>& values);
std::string misfit(const Result& result, const c10::Argument& argument,
                   const std::vector<Value>& values);

}  // namespace fulgurite::ir
