// What the watcher knows of instructions, whatever the version of CPython calls them.
//
// opcodes_311.cpp and opcodes_312.cpp map every opcode of their version; an opcode that they do not
// list is Unknown, and running one refuses the run. Arguments are made the same as well: the index
// of a name is just that, a comparison is Py_LT to Py_GE, and so on.
#pragma once

#include <cstdint>

namespace fulgurite::python::watching {

enum class Operation : uint8_t {
  Unknown,
  Moves,    // moves what is on the stack and in variables, jumps, begins and ends blocks
  UsesTop,  // needs no guard, but looks at what is on top
  Resume,
  Call,            // self or null, callee, arguments
  CallFunctionEx,  // argument & 1: with keywords
  KwNames,
  LoadConst,
  ReturnConst,
  LoadName,
  LoadGlobal,
  LoadDeref,
  LoadFromDictOrGlobals,
  LoadFromDictOrDeref,
  LoadAttr,
  LoadMethod,
  LoadSuperAttr,  // super, class, object
  LoadSuperMethod,
  LoadBuildClass,
  ImportName,
  ImportFrom,
  ImportStar,
  BinarySubscr,
  BinarySlice,  // container, start, stop
  ContainsOp,
  CompareOp,
  IsOp,
  BinaryOp,
  UnaryPositive,
  UnaryNegative,
  UnaryInvert,
  Truth,  // jumps by it, or pushes whether it is false
  GetIter,
  ForIter,
  Send,
  GetAwaitable,  // and the like
  Unpack,
  Extend,  // a list, as f(*a, *b) does
  Update,  // a set
  Merge,   // a dict
  ListToTuple,
  GetLen,
  MatchContainer,
  MatchKeys,
  MatchClass,
  CheckExcMatch,
  CheckEgMatch,
  BuildSet,
  BuildMap,
  BuildString,
  FormatValue,
  SetAdd,
  MapAdd,
  BeforeWith,
  BeforeAsyncWith,
  StoreName,
  DeleteName,
  StoreGlobal,
  DeleteGlobal,
  StoreDeref,
  DeleteDeref,
  StoreAttr,
  DeleteAttr,
  StoreSubscr,
  DeleteSubscr,
  StoreSlice,  // value, container, start, stop
};

struct Instruction {
  Operation operation = Operation::Unknown;
  int argument = 0;
};

}  // namespace fulgurite::python::watching
