// The instructions of CPython 3.13.
#pragma once

#include "opcodes_compiled.h"

namespace fulgurite::python::watching {

constexpr OperationTable make_operations() {
  using enum Operation;
  OperationTable t = compiled_operations();
  t.are(Moves, LOAD_FAST_LOAD_FAST, STORE_FAST_LOAD_FAST, STORE_FAST_STORE_FAST,
        SET_FUNCTION_ATTRIBUTE);
  t.are(CallNamed, CALL_KW);
  t.are(Truth, TO_BOOL);
  t.are(FormatValue, FORMAT_SIMPLE, FORMAT_WITH_SPEC, CONVERT_VALUE);
  return t;
}

inline constexpr OperationTable kOperations = make_operations();

inline Instruction own_instruction(int opcode, int argument) {
  switch (opcode) {
    case COMPARE_OP:
      return {Operation::CompareOp, argument >> 5 | ((argument & 16) != 0 ? kAsTruth : 0)};
    case FORMAT_SIMPLE:
      return {Operation::FormatValue, 0};
    case FORMAT_WITH_SPEC:
      return {Operation::FormatValue, kWithSpecification};
    default:
      return {kOperations[opcode], argument};
  }
}

// Instructions after an exhausted loop that FOR_ITER does itself.
constexpr int kEndOfLoop = 2;
// On the stack of a generator that begins: nothing, what makes it pushes what it is resumed with.
constexpr int kGeneratorBeginsWith = 0;

}  // namespace fulgurite::python::watching
