// The instructions of CPython 3.11, which rewrites them in place into specialised ones.
#pragma once

#include "internals.h"

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
  are(Moves, CACHE, POP_TOP, PUSH_NULL, NOP, COPY, SWAP, PRECALL, MAKE_CELL, MAKE_FUNCTION,
      COPY_FREE_VARS, LOAD_ASSERTION_ERROR, LOAD_CLOSURE, LOAD_FAST, STORE_FAST, DELETE_FAST,
      BUILD_TUPLE, BUILD_LIST, BUILD_CONST_KEY_MAP, BUILD_SLICE, LIST_APPEND, YIELD_VALUE,
      RETURN_VALUE, RETURN_GENERATOR, JUMP_FORWARD, JUMP_BACKWARD, JUMP_BACKWARD_NO_INTERRUPT,
      POP_JUMP_FORWARD_IF_NONE, POP_JUMP_FORWARD_IF_NOT_NONE, POP_JUMP_BACKWARD_IF_NONE,
      POP_JUMP_BACKWARD_IF_NOT_NONE, PUSH_EXC_INFO, POP_EXCEPT, WITH_EXCEPT_START, RERAISE);
  are(Moves, JUMP_BACKWARD_QUICK, LOAD_FAST__LOAD_CONST, LOAD_FAST__LOAD_FAST,
      STORE_FAST__LOAD_FAST, STORE_FAST__STORE_FAST);
  are(Moves, PRECALL_ADAPTIVE, PRECALL_BOUND_METHOD, PRECALL_BUILTIN_CLASS,
      PRECALL_BUILTIN_FAST_WITH_KEYWORDS, PRECALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS,
      PRECALL_NO_KW_BUILTIN_FAST, PRECALL_NO_KW_BUILTIN_O, PRECALL_NO_KW_ISINSTANCE,
      PRECALL_NO_KW_LEN, PRECALL_NO_KW_LIST_APPEND, PRECALL_NO_KW_METHOD_DESCRIPTOR_FAST,
      PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS, PRECALL_NO_KW_METHOD_DESCRIPTOR_O,
      PRECALL_NO_KW_STR_1, PRECALL_NO_KW_TUPLE_1, PRECALL_NO_KW_TYPE_1, PRECALL_PYFUNC);
  are(UsesTop, RAISE_VARARGS, SETUP_ANNOTATIONS, PRINT_EXPR, ASYNC_GEN_WRAP, PREP_RERAISE_STAR,
      END_ASYNC_FOR);
  are(Resume, RESUME, RESUME_QUICK);
  are(Call, CALL, CALL_ADAPTIVE, CALL_PY_EXACT_ARGS, CALL_PY_WITH_DEFAULTS);
  are(CallFunctionEx, CALL_FUNCTION_EX);
  are(KwNames, KW_NAMES);
  are(LoadConst, LOAD_CONST, LOAD_CONST__LOAD_FAST);
  are(LoadName, LOAD_NAME);
  are(LoadGlobal, LOAD_GLOBAL, LOAD_GLOBAL_ADAPTIVE, LOAD_GLOBAL_BUILTIN, LOAD_GLOBAL_MODULE);
  are(LoadDeref, LOAD_DEREF, LOAD_CLASSDEREF);
  are(LoadAttr, LOAD_ATTR, LOAD_ATTR_ADAPTIVE, LOAD_ATTR_INSTANCE_VALUE, LOAD_ATTR_MODULE,
      LOAD_ATTR_SLOT, LOAD_ATTR_WITH_HINT);
  are(LoadMethod, LOAD_METHOD, LOAD_METHOD_ADAPTIVE, LOAD_METHOD_CLASS, LOAD_METHOD_MODULE,
      LOAD_METHOD_NO_DICT, LOAD_METHOD_WITH_DICT, LOAD_METHOD_WITH_VALUES);
  are(LoadBuildClass, LOAD_BUILD_CLASS);
  are(ImportName, IMPORT_NAME);
  are(ImportFrom, IMPORT_FROM);
  are(ImportStar, IMPORT_STAR);
  are(BinarySubscr, BINARY_SUBSCR, BINARY_SUBSCR_ADAPTIVE, BINARY_SUBSCR_DICT,
      BINARY_SUBSCR_GETITEM, BINARY_SUBSCR_LIST_INT, BINARY_SUBSCR_TUPLE_INT);
  are(ContainsOp, CONTAINS_OP);
  are(CompareOp, COMPARE_OP, COMPARE_OP_ADAPTIVE, COMPARE_OP_FLOAT_JUMP, COMPARE_OP_INT_JUMP,
      COMPARE_OP_STR_JUMP);
  are(IsOp, IS_OP);
  are(BinaryOp, BINARY_OP, BINARY_OP_ADAPTIVE, BINARY_OP_ADD_FLOAT, BINARY_OP_ADD_INT,
      BINARY_OP_ADD_UNICODE, BINARY_OP_INPLACE_ADD_UNICODE, BINARY_OP_MULTIPLY_FLOAT,
      BINARY_OP_MULTIPLY_INT, BINARY_OP_SUBTRACT_FLOAT, BINARY_OP_SUBTRACT_INT);
  are(UnaryPositive, UNARY_POSITIVE);
  are(UnaryNegative, UNARY_NEGATIVE);
  are(UnaryInvert, UNARY_INVERT);
  are(Truth, UNARY_NOT, POP_JUMP_FORWARD_IF_FALSE, POP_JUMP_FORWARD_IF_TRUE,
      POP_JUMP_BACKWARD_IF_FALSE, POP_JUMP_BACKWARD_IF_TRUE, JUMP_IF_TRUE_OR_POP,
      JUMP_IF_FALSE_OR_POP);
  are(GetIter, GET_ITER, GET_YIELD_FROM_ITER);
  are(ForIter, FOR_ITER);
  are(Send, SEND);
  are(GetAwaitable, GET_AWAITABLE, GET_AITER, GET_ANEXT);
  are(Unpack, UNPACK_EX, UNPACK_SEQUENCE, UNPACK_SEQUENCE_ADAPTIVE, UNPACK_SEQUENCE_LIST,
      UNPACK_SEQUENCE_TUPLE, UNPACK_SEQUENCE_TWO_TUPLE);
  are(Extend, LIST_EXTEND);
  are(Update, SET_UPDATE);
  are(Merge, DICT_UPDATE, DICT_MERGE);
  are(ListToTuple, LIST_TO_TUPLE);
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
  are(StoreAttr, STORE_ATTR, STORE_ATTR_ADAPTIVE, STORE_ATTR_INSTANCE_VALUE, STORE_ATTR_SLOT,
      STORE_ATTR_WITH_HINT);
  are(DeleteAttr, DELETE_ATTR);
  are(StoreSubscr, STORE_SUBSCR, STORE_SUBSCR_ADAPTIVE, STORE_SUBSCR_DICT, STORE_SUBSCR_LIST_INT);
  are(DeleteSubscr, DELETE_SUBSCR);
  return table;
}

inline constexpr std::array<Operation, 256> kOperations = make_operations();

// The instruction that a frame is about to run.
inline Instruction decode(const _PyInterpreterFrame* frame) {
  const _Py_CODEUNIT* at = frame->prev_instr;
  int opcode = _Py_OPCODE(*at);
  int argument = _Py_OPARG(*at);
  while (opcode == EXTENDED_ARG || opcode == EXTENDED_ARG_QUICK) {
    ++at;  // one event stands for the prefix and what follows
    opcode = _Py_OPCODE(*at);
    argument = argument << 8 | _Py_OPARG(*at);
  }
  const Operation operation = kOperations[opcode & 255];
  if (operation == Operation::LoadGlobal) argument >>= 1;
  return {operation, argument};
}

}  // namespace fulgurite::python::watching
