// What CPython 3.12 and later have in common. Only general instructions: code_map.cpp reads code
// objects as they were compiled, without what the interpreter specialised or instrumented.
#pragma once

#include "opcodes_common.h"

#include <internal/pycore_intrinsics.h>

namespace fulgurite::python::watching {

constexpr OperationTable compiled_operations() {
  using enum Operation;
  OperationTable t;
  t.are(Moves, EXTENDED_ARG, LOAD_FAST_CHECK, LOAD_FAST_AND_CLEAR, LOAD_LOCALS, POP_JUMP_IF_NONE,
        POP_JUMP_IF_NOT_NONE, END_FOR, END_SEND, INTERPRETER_EXIT);
  t.are(UsesTop, CLEANUP_THROW);
  t.are(ReturnConst, RETURN_CONST);
  t.are(LoadFromDictOrGlobals, LOAD_FROM_DICT_OR_GLOBALS);
  t.are(LoadFromDictOrDeref, LOAD_FROM_DICT_OR_DEREF);
  t.are(LoadSuperAttr, LOAD_SUPER_ATTR);
  t.are(BinarySlice, BINARY_SLICE);
  t.are(Truth, POP_JUMP_IF_FALSE, POP_JUMP_IF_TRUE);
  t.are(StoreSlice, STORE_SLICE);
  return t;
}

// (What makes type parameters, aliases and generic classes stays Unknown.)
inline Operation intrinsic(int function) {
  switch (function) {
    case INTRINSIC_IMPORT_STAR:
      return Operation::ImportStar;
    case INTRINSIC_UNARY_POSITIVE:
      return Operation::UnaryPositive;
    case INTRINSIC_LIST_TO_TUPLE:
      return Operation::ListToTuple;
    case INTRINSIC_PRINT:
    case INTRINSIC_STOPITERATION_ERROR:
    case INTRINSIC_ASYNC_GEN_WRAP:
      return Operation::UsesTop;
    default:
      return Operation::Unknown;
  }
}

// Whether an instruction may go on somewhere else than after itself: so many code units from there.
inline bool jumps(int opcode, int argument, int& distance) {
  switch (opcode) {
    case JUMP_FORWARD:
    case POP_JUMP_IF_FALSE:
    case POP_JUMP_IF_TRUE:
    case POP_JUMP_IF_NONE:
    case POP_JUMP_IF_NOT_NONE:
    case FOR_ITER:
    case SEND:
      distance = argument;
      return true;
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      distance = -argument;
      return true;
    default:
      return false;
  }
}

inline bool goes_on(int opcode) {
  switch (opcode) {
    case JUMP_FORWARD:
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case RETURN_VALUE:
    case RETURN_CONST:
    case RAISE_VARARGS:
    case RERAISE:
    case INTERPRETER_EXIT:
      return false;
    default:
      return true;
  }
}

}  // namespace fulgurite::python::watching
