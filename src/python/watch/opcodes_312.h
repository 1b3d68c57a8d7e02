// The instructions of CPython 3.12.
#pragma once

#include "opcodes_compiled.h"

namespace fulgurite::python::watching {

constexpr OperationTable make_operations() {
  using enum Operation;
  OperationTable t = compiled_operations();
  t.are(Moves, LOAD_CLOSURE);
  t.are(KwNames, KW_NAMES);
  t.are(FormatValue, FORMAT_VALUE);
  return t;
}

inline constexpr OperationTable kOperations = make_operations();

inline Instruction own_instruction(int opcode, int argument) {
  return {kOperations[opcode], opcode == COMPARE_OP ? argument >> 4 : argument};
}

// Instructions after an exhausted loop that FOR_ITER does itself.
constexpr int kEndOfLoop = 1;
// On the stack of a generator that begins: with what it is resumed.
constexpr int kGeneratorBeginsWith = 1;

}  // namespace fulgurite::python::watching
