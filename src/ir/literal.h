// An argument as it stands in Python text, before (parser) or after (printer) a schema has its say.
//
//     Arg  --literal_of(arg, schema)-->  Literal  --literal_text-->  text
//     text --Parser-->                   Literal  --arg_of(schema)-->  Arg
//
// The schema is what tells `torch.float32` from the integer 6; a Literal keeps them apart by
// itself, so that the overload of a call can be found from its literals alone (spelling.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

enum class LiteralKind : uint8_t {
  None,
  Value,  // the name of a value
  Int,
  Float,
  Bool,
  Complex,
  String,
  Dtype,
  Layout,
  MemoryFormat,
  Device,
  Generator,  // PyTorch's default CPU generator
  List,
  Opaque,  // prints, but cannot be read back (a generator of the user, an object)
};

struct Literal {
  LiteralKind kind = LiteralKind::None;
  ValueId value = kNoValue;
  int64_t integer = 0;  // Int, Bool, Dtype, Layout, MemoryFormat
  double real = 0;      // Float, Complex
  double imaginary = 0;
  bool as_tensor = false;  // a number that is written torch.tensor(2.0, dtype=torch.float64)
  std::string text;        // String, Device, Opaque
  std::vector<Literal> items;
};

Literal value_literal(ValueId id);  // None for kNoValue
Literal literal_of(const Arg& arg, const c10::TypePtr& type);
std::string literal_text(const Literal& literal, const std::vector<Value>& values);

// The argument in normal form, or nothing if the schema does not admit the literal.
std::optional<Arg> arg_of(const Literal& literal, const c10::Argument& argument);

// Python's repr.
std::string float_text(double value);
std::string string_text(const std::string& value);

// True if the literal is a constant number.
bool is_constant_number(const Literal& literal);

// Exactly the same argument; NaN equals NaN.
bool same_arg(const Arg& a, const Arg& b);
bool same_constant(const c10::IValue& a, const c10::IValue& b);

}  // namespace fulgurite::ir
