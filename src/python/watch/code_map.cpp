// Implementation of code_map.h. The depth is what the compiler knew: from each instruction on to
// its successors, which all paths reach with the same depth, and from the exception table to
// handlers.
#include "code_map.h"

#if FULGURITE_MONITORING

#include "py_ref.h"
#if PY_VERSION_HEX >= 0x030D0000
#include "opcodes_313.h"
#else
#include "opcodes_312.h"
#endif
#include "watcher.h"

namespace fulgurite::python::watching {
namespace {

Instruction instruction(int opcode, int argument) {
  const Operation operation = kOperations[opcode];
  switch (opcode) {
    case LOAD_GLOBAL:
      return {operation, argument >> 1};
    case LOAD_ATTR:
      return {(argument & 1) != 0 ? Operation::LoadMethod : operation, argument >> 1};
    case LOAD_SUPER_ATTR:
      return {(argument & 1) != 0 ? Operation::LoadSuperMethod : operation, argument >> 2};
    case CALL_INTRINSIC_1:
      return {intrinsic(argument), argument};
    case CALL_INTRINSIC_2:
      return {argument == INTRINSIC_PREP_RERAISE_STAR ? Operation::UsesTop : Operation::Unknown,
              argument};
    default:
      return own_instruction(opcode, argument);
  }
}

// Entries of start, length, target and depth, each a number of six bits a byte, highest first.
class ExceptionTable {
 public:
  explicit ExceptionTable(PyObject* bytes)
      : at_(reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes))),
        end_(at_ + PyBytes_GET_SIZE(bytes)) {}

  struct Handler {
    int target;
    int depth;
  };
  bool next(Handler& handler) {
    if (at_ >= end_) return false;
    number();
    number();
    handler.target = number();
    const int depth = number();
    // The exception is pushed, and before it where it was raised, if the handler wants to know.
    handler.depth = (depth >> 1) + (depth & 1) + 1;
    return true;
  }

 private:
  int number() {
    int value = 0;
    while (at_ < end_) {
      const unsigned char byte = *at_++;
      value = value << 6 | (byte & 63);
      if ((byte & 64) == 0) break;
    }
    return value;
  }

  const unsigned char *at_, *end_;
};

}  // namespace

CodeMap::CodeMap(PyCodeObject* code) : places_(static_cast<size_t>(Py_SIZE(code))) {
  const PyRef bytes = PyRef::steal(PyCode_GetCode(code));
  if (!bytes) {
    PyErr_Clear();
    return;
  }
  const auto* units = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes.get()));
  std::vector<Raw> raw(places_.size());
  int prefix = 0;
  for (size_t i = 0; i < raw.size();) {
    Raw& one = raw[i];
    one.opcode = units[2 * i];
    one.argument = prefix << 8 | units[2 * i + 1];
    prefix = one.opcode == EXTENDED_ARG ? one.argument : 0;
    Place& place = places_[i];
    place.instruction = instruction(one.opcode, one.argument);
    const size_t start = i++;
    while (i < raw.size() && units[2 * i] == CACHE) ++i;
    place.length = static_cast<uint8_t>(i - start);
    int distance = 0;
    if (jumps(one.opcode, one.argument, distance)) place.jump = static_cast<int>(i) + distance;
    place.is_prefix = one.opcode == EXTENDED_ARG && i < raw.size();
    place.skips_target = one.opcode == FOR_ITER ? kEndOfLoop : 0;
    place.reraises = one.opcode == RERAISE || one.opcode == RAISE_VARARGS ||
                     one.opcode == END_ASYNC_FOR || one.opcode == CLEANUP_THROW;
  }
  find_depths(code, raw);
}

void CodeMap::find_depths(PyCodeObject* code, const std::vector<Raw>& raw) {
  std::vector<int> open;
  bool agree = true;
  auto reach = [&](int unit, int depth) {
    if (unit < 0 || static_cast<size_t>(unit) >= places_.size() || depth < 0) return;
    Place& place = places_[static_cast<size_t>(unit)];
    agree = agree && (place.depth == kUnknownDepth || place.depth == depth);
    if (place.depth != kUnknownDepth) return;
    place.depth = depth;
    open.push_back(unit);
  };
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  reach(0, (code->co_flags & kSuspends) != 0 ? kGeneratorBeginsWith : 0);
  ExceptionTable table(code->co_exceptiontable);
  for (ExceptionTable::Handler handler{}; table.next(handler);) {
    reach(handler.target, handler.depth);
    if (static_cast<size_t>(handler.target) < places_.size())
      places_[static_cast<size_t>(handler.target)].is_handler = true;
  }
  while (!open.empty()) {
    const int unit = open.back();
    open.pop_back();
    const int depth = places_[static_cast<size_t>(unit)].depth;
    const Raw& one = raw[static_cast<size_t>(unit)];
    if (one.opcode == EXTENDED_ARG) {
      reach(after(unit), depth);
      continue;
    }
    if (const int jump = places_[static_cast<size_t>(unit)].jump; jump >= 0)
      reach(jump, depth + PyCompile_OpcodeStackEffectWithJump(one.opcode, one.argument, 1));
    if (goes_on(one.opcode))
      reach(after(unit), depth + PyCompile_OpcodeStackEffectWithJump(one.opcode, one.argument, 0));
  }
  for (Place& place : places_)
    if (!agree) place.depth = kUnknownDepth;
}

bool CodeMap::may_follow(int last, int next, bool raised) const {
  const Place& from = at(last);
  if (next == after(last) || next == from.jump) return true;
  if (from.skips_target != 0 && next == from.jump + from.skips_target) return true;
  return (raised || from.reraises) && at(next).is_handler;
}

int CodeMap::behind_prefixes(int unit) const {
  while (at(unit).is_prefix) ++unit;
  return unit;
}

const CodeMap* code_map(PyCodeObject* code) {
  static const Py_ssize_t index =
      PyUnstable_Eval_RequestCodeExtraIndex([](void* map) { delete static_cast<CodeMap*>(map); });
  if (index < 0) return nullptr;
  auto* object = reinterpret_cast<PyObject*>(code);
  void* known = nullptr;
  if (PyUnstable_Code_GetExtra(object, index, &known) == 0 && known != nullptr)
    return static_cast<CodeMap*>(known);
  auto* made = new CodeMap(code);
  if (PyUnstable_Code_SetExtra(object, index, made) == 0) return made;
  PyErr_Clear();
  delete made;
  return nullptr;
}

}  // namespace fulgurite::python::watching

namespace fulgurite::python {

std::vector<int> unknown_instructions(PyObject* code) {
  using namespace watching;
  std::vector<int> found;
  auto* object = reinterpret_cast<PyCodeObject*>(code);
  const CodeMap* map = code_map(object);
  for (int i = object->_co_firsttraceable; map && i < map->size(); i = map->after(i)) {
    const CodeMap::Place& place = map->at(i);
    const bool fits = place.depth >= 0 && place.depth <= object->co_stacksize;
    if (place.instruction.operation == Operation::Unknown || !fits)
      found.push_back(i * static_cast<int>(sizeof(_Py_CODEUNIT)));
  }
  return found;
}

}  // namespace fulgurite::python

#endif
