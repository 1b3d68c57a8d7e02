// The instructions of CPython 3.11, which rewrites them in place into specialised ones.
#pragma once

#include "opcodes_common.h"

namespace fulgurite::python::watching {

constexpr OperationTable make_operations() {
  using enum Operation;
  OperationTable t;
  t.are(Moves, PRECALL, LOAD_CLOSURE, POP_JUMP_FORWARD_IF_NONE, POP_JUMP_FORWARD_IF_NOT_NONE,
        POP_JUMP_BACKWARD_IF_NONE, POP_JUMP_BACKWARD_IF_NOT_NONE);
  t.are(Moves, JUMP_BACKWARD_QUICK, LOAD_FAST__LOAD_CONST, LOAD_FAST__LOAD_FAST,
        STORE_FAST__LOAD_FAST, STORE_FAST__STORE_FAST);
  t.are(Moves, PRECALL_ADAPTIVE, PRECALL_BOUND_METHOD, PRECALL_BUILTIN_CLASS,
        PRECALL_BUILTIN_FAST_WITH_KEYWORDS, PRECALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS,
        PRECALL_NO_KW_BUILTIN_FAST, PRECALL_NO_KW_BUILTIN_O, PRECALL_NO_KW_ISINSTANCE,
        PRECALL_NO_KW_LEN, PRECALL_NO_KW_LIST_APPEND, PRECALL_NO_KW_METHOD_DESCRIPTOR_FAST,
        PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS, PRECALL_NO_KW_METHOD_DESCRIPTOR_O,
        PRECALL_NO_KW_STR_1, PRECALL_NO_KW_TUPLE_1, PRECALL_NO_KW_TYPE_1, PRECALL_PYFUNC);
  t.are(UsesTop, PRINT_EXPR, ASYNC_GEN_WRAP, PREP_RERAISE_STAR);
  t.are(Resume, RESUME_QUICK);
  t.are(Operation::Call, CALL_ADAPTIVE, CALL_PY_EXACT_ARGS, CALL_PY_WITH_DEFAULTS);
  t.are(KwNames, KW_NAMES);
  t.are(LoadConst, LOAD_CONST__LOAD_FAST);
  t.are(LoadGlobal, LOAD_GLOBAL_ADAPTIVE, LOAD_GLOBAL_BUILTIN, LOAD_GLOBAL_MODULE);
  t.are(LoadDeref, LOAD_CLASSDEREF);
  t.are(LoadAttr, LOAD_ATTR_ADAPTIVE, LOAD_ATTR_INSTANCE_VALUE, LOAD_ATTR_MODULE, LOAD_ATTR_SLOT,
        LOAD_ATTR_WITH_HINT);
  t.are(LoadMethod, LOAD_METHOD, LOAD_METHOD_ADAPTIVE, LOAD_METHOD_CLASS, LOAD_METHOD_MODULE,
        LOAD_METHOD_NO_DICT, LOAD_METHOD_WITH_DICT, LOAD_METHOD_WITH_VALUES);
  t.are(ImportStar, IMPORT_STAR);
  t.are(BinarySubscr, BINARY_SUBSCR_ADAPTIVE, BINARY_SUBSCR_DICT, BINARY_SUBSCR_GETITEM,
        BINARY_SUBSCR_LIST_INT, BINARY_SUBSCR_TUPLE_INT);
  t.are(CompareOp, COMPARE_OP_ADAPTIVE, COMPARE_OP_FLOAT_JUMP, COMPARE_OP_INT_JUMP,
        COMPARE_OP_STR_JUMP);
  t.are(BinaryOp, BINARY_OP_ADAPTIVE, BINARY_OP_ADD_FLOAT, BINARY_OP_ADD_INT, BINARY_OP_ADD_UNICODE,
        BINARY_OP_INPLACE_ADD_UNICODE, BINARY_OP_MULTIPLY_FLOAT, BINARY_OP_MULTIPLY_INT,
        BINARY_OP_SUBTRACT_FLOAT, BINARY_OP_SUBTRACT_INT);
  t.are(UnaryPositive, UNARY_POSITIVE);
  t.are(Truth, POP_JUMP_FORWARD_IF_FALSE, POP_JUMP_FORWARD_IF_TRUE, POP_JUMP_BACKWARD_IF_FALSE,
        POP_JUMP_BACKWARD_IF_TRUE, JUMP_IF_TRUE_OR_POP, JUMP_IF_FALSE_OR_POP);
  t.are(Unpack, UNPACK_SEQUENCE_ADAPTIVE, UNPACK_SEQUENCE_LIST, UNPACK_SEQUENCE_TUPLE,
        UNPACK_SEQUENCE_TWO_TUPLE);
  t.are(ListToTuple, LIST_TO_TUPLE);
  t.are(FormatValue, FORMAT_VALUE);
  t.are(StoreAttr, STORE_ATTR_ADAPTIVE, STORE_ATTR_INSTANCE_VALUE, STORE_ATTR_SLOT,
        STORE_ATTR_WITH_HINT);
  t.are(StoreSubscr, STORE_SUBSCR_ADAPTIVE, STORE_SUBSCR_DICT, STORE_SUBSCR_LIST_INT);
  return t;
}

inline constexpr OperationTable kOperations = make_operations();

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
  const Operation operation = kOperations[opcode];
  if (operation == Operation::LoadGlobal) argument >>= 1;
  return {operation, argument};
}

}  // namespace fulgurite::python::watching
