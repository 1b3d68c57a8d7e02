// The instructions that all versions of CPython from 3.11 to 3.13 have, under the same names.
#pragma once

#include "internals.h"

#include <opcode.h>

#include <array>

#include "operations.h"

namespace fulgurite::python::watching {

class OperationTable {
 public:
  constexpr OperationTable();
  constexpr void are(Operation operation, auto... opcodes) {
    ((operations_[opcodes] = operation), ...);
  }
  constexpr Operation operator[](int opcode) const { return operations_[opcode & 255]; }

 private:
  std::array<Operation, 256> operations_{};
};

constexpr OperationTable::OperationTable() {
  using enum Operation;
  are(Moves, CACHE, POP_TOP, PUSH_NULL, NOP, COPY, SWAP, MAKE_CELL, MAKE_FUNCTION, COPY_FREE_VARS,
      LOAD_ASSERTION_ERROR, LOAD_FAST, STORE_FAST, DELETE_FAST, BUILD_TUPLE, BUILD_LIST,
      BUILD_CONST_KEY_MAP, BUILD_SLICE, LIST_APPEND, YIELD_VALUE, RETURN_VALUE, RETURN_GENERATOR,
      JUMP_FORWARD, JUMP_BACKWARD, JUMP_BACKWARD_NO_INTERRUPT, PUSH_EXC_INFO, POP_EXCEPT,
      WITH_EXCEPT_START, RERAISE);
  are(UsesTop, RAISE_VARARGS, SETUP_ANNOTATIONS, END_ASYNC_FOR);
  are(Resume, RESUME);
  are(Operation::Call, CALL);
  are(CallFunctionEx, CALL_FUNCTION_EX);
  are(LoadConst, LOAD_CONST);
  are(LoadName, LOAD_NAME);
  are(LoadGlobal, LOAD_GLOBAL);
  are(LoadDeref, LOAD_DEREF);
  are(LoadAttr, LOAD_ATTR);
  are(LoadBuildClass, LOAD_BUILD_CLASS);
  are(ImportName, IMPORT_NAME);
  are(ImportFrom, IMPORT_FROM);
  are(BinarySubscr, BINARY_SUBSCR);
  are(ContainsOp, CONTAINS_OP);
  are(CompareOp, COMPARE_OP);
  are(IsOp, IS_OP);
  are(BinaryOp, BINARY_OP);
  are(UnaryNegative, UNARY_NEGATIVE);
  are(UnaryInvert, UNARY_INVERT);
  are(Truth, UNARY_NOT);
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
}

}  // namespace fulgurite::python::watching
