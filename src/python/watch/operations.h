// What the watcher knows of instructions, whatever the version of CPython calls them.
//
// opcodes_*.h map every opcode of their version; an opcode that they do not list is Unknown, and
// running one refuses the run. Arguments are made the same as well: the index of a name is just
// that, a comparison is Py_LT to Py_GE, and so on.
#pragma once

#include <cstdint>

namespace fulgurite::python::watching {

enum class Operation : uint8_t {
  Unknown,
  Moves,    // moves what is on the stack and in variables, jumps, begins and ends blocks
  UsesTop,  // needs no guard, but looks at what is on top
  Resume,
  Call,            // callee and self, or one of them null and the callee; arguments
  CallNamed,       // the same, and the names of the last arguments
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
  CompareOp,  // argument & kAsTruth: and pushes whether the result is true
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
  FormatValue,  // argument & 3: after str, repr or ascii; & kWithSpecification: which is on top
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

constexpr int kAsTruth = 8;
constexpr int kWithSpecification = 4;

struct Instruction {
  Operation operation = Operation::Unknown;
  int argument = 0;
};

}  // namespace fulgurite::python::watching
