// What each instruction does with numbers that vary (numbers.h), before it runs.
#include "internals.h"

#include <opcode.h>

#include "numbers.h"
#include "recording.h"

namespace fulgurite::python::watching {

namespace {

void expect(Frame& frame, NumberStep step) {
  frame.number_step = std::make_unique<NumberStep>(std::move(step));
}

const char* arithmetic(int operation, bool floats) {
  switch (operation % 13) {
    case NB_ADD:
      return floats ? "float_add" : "int_add";
    case NB_MULTIPLY:
      return floats ? "float_mul" : "int_mul";
    case NB_SUBTRACT:
      return floats ? "float_sub" : "int_sub";
    case NB_TRUE_DIVIDE:
      return "float_div";
    case NB_POWER:
      return floats ? "float_pow" : "int_pow";
    case NB_FLOOR_DIVIDE:
      return floats ? "float_floordiv" : "int_floordiv";
    case NB_REMAINDER:
      return floats ? "float_mod" : "int_mod";
    case NB_AND:
      return floats ? nullptr : "int_and";
    case NB_OR:
      return floats ? nullptr : "int_or";
    case NB_XOR:
      return floats ? nullptr : "int_xor";
    case NB_LSHIFT:
      return floats ? nullptr : "int_lshift";
    case NB_RSHIFT:
      return floats ? nullptr : "int_rshift";
    default:
      return nullptr;
  }
}

// An operator of Python on a tensor and a number: one ATen operator takes it.
bool operator_on_tensor(Recording& r, Frame& frame, PyObject* left, PyObject* right) {
  NumberWatch& n = r.numbers;
  PyObject* number = is_tensor(left) ? right : left;
  PyObject* other = number == left ? right : left;
  const int node = n.find(number);
  if (node < 0 || !is_tensor(other)) return false;
  NumberStep step{NumberStep::Kind::Use, n.sink()->mark()};
  NumberInCall place;
  place.node = node;
  place.is_operand = true;
  step.places.push_back(place);
  step.nodes.push_back(node);
  expect(frame, std::move(step));
  return true;
}

void binary(Recording& r, Frame& frame, int operation, PyObject* left, PyObject* right) {
  NumberWatch& n = r.numbers;
  if (operator_on_tensor(r, frame, left, right)) return;
  std::vector<int> nodes;
  n.collect(left, nodes);
  n.collect(right, nodes);
  if (nodes.empty()) return;
  const bool adds = operation % 13 == NB_ADD;
  if (PyUnicode_CheckExact(left) && (adds || operation % 13 == NB_REMAINDER) &&
      binary_text(r, frame, adds, left, right))
    return;
  if (is_number_object(left) && is_number_object(right)) {
    const bool floats =
        PyFloat_CheckExact(left) || PyFloat_CheckExact(right) || operation % 13 == NB_TRUE_DIVIDE;
    if (const char* what = arithmetic(operation, floats)) {
      NumberStep step{NumberStep::Kind::Calculate, {}};
      step.what = what;
      step.nodes = {n.operand(left, floats), n.operand(right, floats)};
      if (step.nodes[0] >= 0 && step.nodes[1] >= 0) return expect(frame, std::move(step));
    }
  }
  // [n] * 2 and [n] + [m] only move.
  const bool lists = (PyList_Check(left) || PyTuple_Check(left)) && n.find(right) < 0 &&
                     (operation % 13 == NB_ADD || operation % 13 == NB_MULTIPLY);
  if (!lists) n.fix(nodes);
}

void unary(Recording& r, Frame& frame, bool invert, PyObject* object) {
  NumberWatch& n = r.numbers;
  const int node = n.find(object);
  if (node < 0) return;
  NumberStep step{NumberStep::Kind::Calculate, {}};
  const bool is_float = PyFloat_CheckExact(object);
  if (invert && is_float) return n.fix({node});  // raises
  step.what = invert ? "int_invert" : is_float ? "float_neg" : "int_neg";
  step.nodes = {node};
  expect(frame, std::move(step));
}

void compare(Recording& r, Frame& frame, int operation, PyObject* left, PyObject* right) {
  NumberWatch& n = r.numbers;
  if (operator_on_tensor(r, frame, left, right)) return;
  std::vector<int> nodes;
  n.collect(left, nodes);
  n.collect(right, nodes);
  if (nodes.empty() || left == Py_None || right == Py_None) return;
  if (is_number_object(left) && is_number_object(right)) {
    PyRef outcome = PyRef::steal(PyObject_RichCompare(left, right, operation));
    if (outcome && n.decide(operation, left, right, outcome.get() == Py_True)) return;
    if (!outcome) PyErr_Clear();
  }
  n.fix(nodes);
}

// `if n:` goes where n is not zero.
void truth(Recording& r, PyObject* object) {
  NumberWatch& n = r.numbers;
  const int node = n.find(object);
  if (node < 0) return;
  const bool is_float = PyFloat_CheckExact(object);
  PyRef zero = PyRef::steal(is_float ? PyFloat_FromDouble(0) : PyLong_FromLong(0));
  const bool is_zero = is_float ? PyFloat_AS_DOUBLE(object) == 0 : _PyLong_Sign(object) == 0;
  if (!n.sink()->decide(is_float ? "float_eq" : "int_eq", node, n.sink()->constant(zero.get()),
                        is_zero))
    n.sink()->fix(node);
}

// Small ints exist once: where identity is asked for, it is that one.
void share(Recording& r, PyObject** top, int depth) {
  PyObject* object = top[-depth];
  const int node = r.numbers.find(object);
  if (node < 0) return;
  r.numbers.sink()->fix(node);
  if (!PyLong_CheckExact(object)) return;
  PyObject* shared = PyLong_FromLongLong(PyLong_AsLongLong(object));
  if (shared == nullptr) return PyErr_Clear();
  top[-depth] = shared;
  Py_DECREF(object);
}

void fix_top(Recording& r, Frame& frame, PyObject** top, int count) {
  PyObject** bottom = stack_of(frame.frame);
  for (int i = 1; i <= count && top - i >= bottom; ++i) r.numbers.fix_in(top[-i]);
}

// f"{n:.3f}" and what is put together of such.
void format(Recording& r, Frame& frame, int argument, PyObject** top) {
  NumberWatch& n = r.numbers;
  PyObject* spec = (argument & kWithSpecification) != 0 ? top[-1] : nullptr;
  PyObject* value = top[spec != nullptr ? -2 : -1];
  // A text as it is.
  if (spec == nullptr && (argument & 3) <= 1 && PyUnicode_CheckExact(value)) return;
  const int node = n.find(value);
  // (str and repr of a number are its format without a specification.)
  const bool plain = (argument & 3) == 0 || ((argument & 3) != 3 && spec == nullptr);
  if (node < 0 || !plain || (spec != nullptr && (!PyUnicode_CheckExact(spec) || n.is_text(spec))))
    return fix_top(r, frame, top, spec != nullptr ? 2 : 1);
  NumberStep step{NumberStep::Kind::Text, {}};
  step.nodes = {node};
  PyRef none = PyRef::steal(PyUnicode_FromString(""));
  step.pieces.push_back(PyRef::steal(PyTuple_Pack(2, value, spec != nullptr ? spec : none.get())));
  expect(frame, std::move(step));
}

void build_string(Recording& r, Frame& frame, int count, PyObject** top) {
  NumberWatch& n = r.numbers;
  NumberStep step{NumberStep::Kind::Text, {}};
  for (int i = count; i > 0; --i) {
    n.collect(top[-i], step.nodes);
    for (PyRef& piece : n.pieces_of(top[-i])) step.pieces.push_back(std::move(piece));
  }
  if (!step.nodes.empty()) expect(frame, std::move(step));
}

// An instruction that takes apart, counts or asks for what is on top.
void fix_text(Recording& r, PyObject* object) {
  if (r.numbers.is_text(object)) r.numbers.fix_in(object);
}

}  // namespace

void number_instruction(Recording& r, Frame& frame) {
  using enum Operation;
  NumberWatch& n = r.numbers;
  PyObject** top = frame.top;
  const auto [operation, argument] = frame.running;
  auto peek = [&](int depth) { return top[-depth]; };
  switch (operation) {
    case BinaryOp:
      return binary(r, frame, argument, peek(2), peek(1));
    case UnaryNegative:
    case UnaryInvert:
      return unary(r, frame, operation == UnaryInvert, peek(1));
    case CompareOp:
      return compare(r, frame, argument & ~kAsTruth, peek(2), peek(1));
    case Truth:
      fix_text(r, peek(1));
      return truth(r, peek(1));
    case FormatValue:
      return format(r, frame, argument, top);
    case BuildString:
      return build_string(r, frame, argument, top);
    case Extend:
    case Unpack:
    case GetLen:
      return fix_text(r, peek(1));
    case CallFunctionEx:
      return fix_text(r, peek(1 + (argument & 1)));
    case BinarySubscr:
      fix_text(r, peek(2));
      return n.fix_in(peek(1));  // the key
    case BinarySlice:
      fix_text(r, peek(3));
      n.fix_in(peek(2));
      return n.fix_in(peek(1));
    case StoreSubscr:
      n.fix_in(peek(1));
      if (!PyDict_Check(peek(2)) && !PyList_Check(peek(2))) n.fix_in(peek(3));
      return;
    case StoreSlice:
      n.fix_in(peek(1));
      n.fix_in(peek(2));
      if (!PyList_Check(peek(3))) n.fix_in(peek(4));
      return;
    case StoreAttr:
      if (is_tensor(peek(1))) n.fix_in(peek(2));
      return;
    case LoadMethod:  // n.__format__(spec) is looked at when it is called
      if (text_of(PyTuple_GET_ITEM(code_of(frame.frame)->co_names, argument)) == "__format__")
        return;
      [[fallthrough]];
    case LoadAttr:
    case LoadSuperAttr:
    case LoadSuperMethod:
      if (const int node = n.find(peek(1)); node >= 0) n.sink()->fix(node);
      return;
    case GetIter: {
      fix_text(r, peek(1));
      NumberStep step{NumberStep::Kind::Carry, {}};
      n.collect(peek(1), step.nodes);
      if (!step.nodes.empty()) expect(frame, std::move(step));
      return;
    }
    case IsOp:
      share(r, top, 1);
      return share(r, top, 2);
    case ContainsOp:
      n.fix_in(peek(2));
      if (!PyDict_Check(peek(1))) n.fix_in(peek(1));  // whose items are compared
      return;
    case BuildMap:
      for (int i = 0; i < argument; ++i) n.fix_in(peek(2 * i + 2));
      return;
    case MapAdd:
      return n.fix_in(peek(2));
    case BuildSet:
      return fix_top(r, frame, top, argument);
    // These only move what is on the stack; calls are looked at where they are modelled.
    case Moves:
    case Resume:
    case Operation::Call:
    case CallNamed:
    case KwNames:
    case LoadConst:
    case ReturnConst:
    case LoadGlobal:
    case LoadName:
    case LoadDeref:
    case LoadFromDictOrGlobals:
    case LoadFromDictOrDeref:
    case LoadBuildClass:
    case StoreDeref:
    case StoreGlobal:
    case StoreName:
    case DeleteDeref:
    case DeleteAttr:
    case ListToTuple:
    case Merge:
    case ForIter:
    case Send:
    case BeforeWith:
    case CheckExcMatch:
    case ImportName:
    case ImportFrom:
      return;
    case UnaryPositive:
      if (n.find(peek(1)) >= 0 && !PyFloat_CheckExact(peek(1))) n.fix_in(peek(1));
      return;
    default:
      return fix_top(r, frame, top, 4);
  }
}

}  // namespace fulgurite::python::watching
