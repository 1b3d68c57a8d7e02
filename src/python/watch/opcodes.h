// CPython 3.11 rewrites instructions in place into specialised ones; `general_opcode` maps them
// back.
#pragma once

#include <opcode.h>

#include <array>
#include <cstdint>

namespace fulgurite::python::watching {

constexpr std::array<uint8_t, 256> make_general_opcodes() {
  std::array<uint8_t, 256> table{};
  for (int i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(i);
  auto are = [&table](uint8_t general, auto... specialised) {
    ((table[specialised] = general), ...);
  };
  are(BINARY_OP, BINARY_OP_ADAPTIVE, BINARY_OP_ADD_FLOAT, BINARY_OP_ADD_INT, BINARY_OP_ADD_UNICODE,
      BINARY_OP_INPLACE_ADD_UNICODE, BINARY_OP_MULTIPLY_FLOAT, BINARY_OP_MULTIPLY_INT,
      BINARY_OP_SUBTRACT_FLOAT, BINARY_OP_SUBTRACT_INT);
  are(BINARY_SUBSCR, BINARY_SUBSCR_ADAPTIVE, BINARY_SUBSCR_DICT, BINARY_SUBSCR_GETITEM,
      BINARY_SUBSCR_LIST_INT, BINARY_SUBSCR_TUPLE_INT);
  are(CALL, CALL_ADAPTIVE, CALL_PY_EXACT_ARGS, CALL_PY_WITH_DEFAULTS);
  are(COMPARE_OP, COMPARE_OP_ADAPTIVE, COMPARE_OP_FLOAT_JUMP, COMPARE_OP_INT_JUMP,
      COMPARE_OP_STR_JUMP);
  are(EXTENDED_ARG, EXTENDED_ARG_QUICK);
  are(JUMP_BACKWARD, JUMP_BACKWARD_QUICK);
  are(LOAD_ATTR, LOAD_ATTR_ADAPTIVE, LOAD_ATTR_INSTANCE_VALUE, LOAD_ATTR_MODULE, LOAD_ATTR_SLOT,
      LOAD_ATTR_WITH_HINT);
  are(LOAD_CONST, LOAD_CONST__LOAD_FAST);
  are(LOAD_FAST, LOAD_FAST__LOAD_CONST, LOAD_FAST__LOAD_FAST);
  are(LOAD_GLOBAL, LOAD_GLOBAL_ADAPTIVE, LOAD_GLOBAL_BUILTIN, LOAD_GLOBAL_MODULE);
  are(LOAD_METHOD, LOAD_METHOD_ADAPTIVE, LOAD_METHOD_CLASS, LOAD_METHOD_MODULE, LOAD_METHOD_NO_DICT,
      LOAD_METHOD_WITH_DICT, LOAD_METHOD_WITH_VALUES);
  are(PRECALL, PRECALL_ADAPTIVE, PRECALL_BOUND_METHOD, PRECALL_BUILTIN_CLASS,
      PRECALL_BUILTIN_FAST_WITH_KEYWORDS, PRECALL_METHOD_DESCRIPTOR_FAST_WITH_KEYWORDS,
      PRECALL_NO_KW_BUILTIN_FAST, PRECALL_NO_KW_BUILTIN_O, PRECALL_NO_KW_ISINSTANCE,
      PRECALL_NO_KW_LEN, PRECALL_NO_KW_LIST_APPEND, PRECALL_NO_KW_METHOD_DESCRIPTOR_FAST,
      PRECALL_NO_KW_METHOD_DESCRIPTOR_NOARGS, PRECALL_NO_KW_METHOD_DESCRIPTOR_O,
      PRECALL_NO_KW_STR_1, PRECALL_NO_KW_TUPLE_1, PRECALL_NO_KW_TYPE_1, PRECALL_PYFUNC);
  are(RESUME, RESUME_QUICK);
  are(STORE_ATTR, STORE_ATTR_ADAPTIVE, STORE_ATTR_INSTANCE_VALUE, STORE_ATTR_SLOT,
      STORE_ATTR_WITH_HINT);
  are(STORE_FAST, STORE_FAST__LOAD_FAST, STORE_FAST__STORE_FAST);
  are(STORE_SUBSCR, STORE_SUBSCR_ADAPTIVE, STORE_SUBSCR_DICT, STORE_SUBSCR_LIST_INT);
  are(UNPACK_SEQUENCE, UNPACK_SEQUENCE_ADAPTIVE, UNPACK_SEQUENCE_LIST, UNPACK_SEQUENCE_TUPLE,
      UNPACK_SEQUENCE_TWO_TUPLE);
  return table;
}

inline constexpr std::array<uint8_t, 256> kGeneralOpcodes = make_general_opcodes();
inline int general_opcode(int opcode) { return kGeneralOpcodes[opcode & 255]; }

// The instruction that a frame is about to run; include internals.h first.
struct Instruction {
  int opcode;
  int argument;
};

inline Instruction decode(const _PyInterpreterFrame* frame) {
  const _Py_CODEUNIT* at = frame->prev_instr;
  int opcode = general_opcode(_Py_OPCODE(*at));
  int argument = _Py_OPARG(*at);
  while (opcode == EXTENDED_ARG) {  // one event stands for the prefix and what follows
    ++at;
    opcode = general_opcode(_Py_OPCODE(*at));
    argument = argument << 8 | _Py_OPARG(*at);
  }
  return {opcode, argument};
}

}  // namespace fulgurite::python::watching
