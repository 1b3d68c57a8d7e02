// The instructions of CPython 3.12. Only general ones: code_map.cpp reads code objects as they were
// compiled, without what the interpreter specialised or instrumented.
#pragma once

#include "internals.h"

#include <internal/pycore_intrinsics.h>
#include <opcode.h>

#include <array>

#include "operations.h"

namespace fulgurite::python::watching {

constexpr std::array<Operation, 256> make_operations() {
  using enum Operation;
  std::array<Operation, 256> table{};
  auto are = [&table](Operation operation, auto... opcodes) {
    ((table[opcodes] = operation), ...);
  };
  are(Moves, CACHE, POP_TOP, PUSH_NULL, NOP, COPY, SWAP, EXTENDED_ARG, MAKE_CELL, MAKE_FUNCTION,
      COPY_FREE_VARS, LOAD_ASSERTION_ERROR, LOAD_CLOSURE, LOAD_FAST, LOAD_FAST_CHECK,
      LOAD_FAST_AND_CLEAR, STORE_FAST, DELETE_FAST, LOAD_LOCALS, BUILD_TUPLE, BUILD_LIST,
      BUILD_CONST_KEY_MAP, BUILD_SLICE, LIST_APPEND, YIELD_VALUE, RETURN_VALUE, RETURN_GENERATOR,
      JUMP_FORWARD, JUMP_BACKWARD, JUMP_BACKWARD_NO_INTERRUPT, POP_JUMP_IF_NONE,
      POP_JUMP_IF_NOT_NONE, PUSH_EXC_INFO, POP_EXCEPT, WITH_EXCEPT_START, RERAISE, END_FOR,
      END_SEND, INTERPRETER_EXIT);
  are(UsesTop, RAISE_VARARGS, SETUP_ANNOTATIONS, END_ASYNC_FOR, CLEANUP_THROW);
  are(Resume, RESUME);
  are(Call, CALL);
  are(CallFunctionEx, CALL_FUNCTION_EX);
  are(KwNames, KW_NAMES);
  are(LoadConst, LOAD_CONST);
  are(ReturnConst, RETURN_CONST);
  are(LoadName, LOAD_NAME);
  are(LoadGlobal, LOAD_GLOBAL);
  are(LoadDeref, LOAD_DEREF);
  are(LoadFromDictOrGlobals, LOAD_FROM_DICT_OR_GLOBALS);
  are(LoadFromDictOrDeref, LOAD_FROM_DICT_OR_DEREF);
  are(LoadAttr, LOAD_ATTR);
  are(LoadSuperAttr, LOAD_SUPER_ATTR);
  are(LoadBuildClass, LOAD_BUILD_CLASS);
  are(ImportName, IMPORT_NAME);
  are(ImportFrom, IMPORT_FROM);
  are(BinarySubscr, BINARY_SUBSCR);
  are(BinarySlice, BINARY_SLICE);
  are(ContainsOp, CONTAINS_OP);
  are(CompareOp, COMPARE_OP);
  are(IsOp, IS_OP);
  are(BinaryOp, BINARY_OP);
  are(UnaryNegative, UNARY_NEGATIVE);
  are(UnaryInvert, UNARY_INVERT);
  are(Truth, UNARY_NOT, POP_JUMP_IF_FALSE, POP_JUMP_IF_TRUE);
  are(GetIter, GET_ITER, GET_YIELD_FROM_ITER);
  are(ForIter, FOR_ITER);
  are(Send, SEND);
  are(GetAwaitable, GET_AWAITABLE, GET_AITER, GET_ANEXT);
  are(Unpack, UNPACK_EX, UNPACK_SEQUENCE);
  are(Extend, LIST_EXTEND);
  are(Update, SET_UPDATE);
  are(Merge, DICT_UPDATE, DICT_MERGE);
  are(GetLen, GET_LEN);
  are(MatchContainer, MATCH_SEQUENCE, MATCH_MAPPING);
  are(MatchKeys, MATCH_KEYS);
  are(MatchClass, MATCH_CLASS);
  are(CheckExcMatch, CHECK_EXC_MATCH);
  are(CheckEgMatch, CHECK_EG_MATCH);
  are(BuildSet, BUILD_SET);
  are(BuildMap, BUILD_MAP);
  are(BuildString, BUILD_STRING);
  are(FormatValue, FORMAT_VALUE);
  are(SetAdd, SET_ADD);
  are(MapAdd, MAP_ADD);
  are(BeforeWith, BEFORE_WITH);
  are(BeforeAsyncWith, BEFORE_ASYNC_WITH);
  are(StoreName, STORE_NAME);
  are(DeleteName, DELETE_NAME);
  are(StoreGlobal, STORE_GLOBAL);
  are(DeleteGlobal, DELETE_GLOBAL);
  are(StoreDeref, STORE_DEREF);
  are(DeleteDeref, DELETE_DEREF);
  are(StoreAttr, STORE_ATTR);
  are(DeleteAttr, DELETE_ATTR);
  are(StoreSubscr, STORE_SUBSCR);
  are(DeleteSubscr, DELETE_SUBSCR);
  are(StoreSlice, STORE_SLICE);
  return table;
}

inline constexpr std::array<Operation, 256> kOperations = make_operations();

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

inline Instruction instruction(int opcode, int argument) {
  Operation operation = kOperations[opcode & 255];
  switch (opcode) {
    case LOAD_GLOBAL:
      return {operation, argument >> 1};
    case LOAD_ATTR:
      return {(argument & 1) != 0 ? Operation::LoadMethod : operation, argument >> 1};
    case LOAD_SUPER_ATTR:
      return {(argument & 1) != 0 ? Operation::LoadSuperMethod : operation, argument >> 2};
    case COMPARE_OP:
      return {operation, argument >> 4};
    case CALL_INTRINSIC_1:
      return {intrinsic(argument), argument};
    case CALL_INTRINSIC_2:
      return {argument == INTRINSIC_PREP_RERAISE_STAR ? Operation::UsesTop : Operation::Unknown,
              argument};
    default:
      return {operation, argument};
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
