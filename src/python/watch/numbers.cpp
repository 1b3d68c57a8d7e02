// Numbers in the instructions of a program: see numbers.h.
#include "internals.h"

#include "numbers.h"

#include <internal/pycore_long.h>

#include <cstring>

#include "opcodes.h"
#include "recording.h"

namespace fulgurite::python::watching {

bool is_number_object(PyObject* object) {
  if (PyFloat_CheckExact(object)) return true;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

PyRef fresh_number(PyObject* number) {
  if (PyFloat_CheckExact(number))
    return PyRef::steal(PyFloat_FromDouble(PyFloat_AS_DOUBLE(number)));
  auto* from = reinterpret_cast<PyLongObject*>(number);
  const Py_ssize_t digits = Py_ABS(Py_SIZE(number));
  PyLongObject* made = _PyLong_New(digits);
  if (made == nullptr) return {};
  std::memcpy(made->ob_digit, from->ob_digit, sizeof(digit) * static_cast<size_t>(digits));
  Py_SET_SIZE(made, Py_SIZE(number));
  return PyRef::steal(reinterpret_cast<PyObject*>(made));
}

int NumberWatch::find(PyObject* object) const {
  auto it = nodes_.find(object);
  return it == nodes_.end() ? -1 : it->second;
}

void NumberWatch::collect(PyObject* object, std::vector<int>& nodes, int depth) const {
  if (object == nullptr || nodes_.empty()) return;
  if (const int node = find(object); node >= 0) {
    nodes.push_back(node);
    return;
  }
  if (auto it = carriers_.find(object); it != carriers_.end()) {
    nodes.insert(nodes.end(), it->second.begin(), it->second.end());
    return;
  }
  if (depth > 8) return;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      collect(PySequence_Fast_GET_ITEM(object, i), nodes, depth + 1);
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      collect(key, nodes, depth + 1);
      collect(value, nodes, depth + 1);
    }
  } else if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) collect(part, nodes, depth + 1);
  } else if (PyMethod_Check(object)) {
    collect(PyMethod_GET_SELF(object), nodes, depth + 1);
  } else if (PyCFunction_Check(object)) {
    collect(PyCFunction_GET_SELF(object), nodes, depth + 1);
  } else if (PyDictViewSet_Check(object) || PyDictValues_Check(object)) {
    collect(reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(object)->dv_dict),
            nodes, depth + 1);
  }
}

bool NumberWatch::holds(PyObject* object) const {
  std::vector<int> nodes;
  collect(object, nodes);
  return !nodes.empty();
}

void NumberWatch::fix(const std::vector<int>& nodes) {
  for (int node : nodes) sink_->fix(node);
}

void NumberWatch::fix_in(PyObject* object) {
  std::vector<int> nodes;
  collect(object, nodes);
  fix(nodes);
}

void NumberWatch::track(PyObject* object, int node) {
  if (nodes_.emplace(object, node).second) owned_.push_back(PyRef::borrow(object));
}

void NumberWatch::carry(PyObject* object, std::vector<int> nodes) {
  auto [it, added] = carriers_.try_emplace(object, std::move(nodes));
  if (added) owned_.push_back(PyRef::borrow(object));
}

int NumberWatch::operand(PyObject* object, bool as_float) {
  if (!is_number_object(object)) return -1;
  const int node = find(object);
  if (!as_float || PyFloat_CheckExact(object)) return node >= 0 ? node : sink_->constant(object);
  PyRef converted = PyRef::steal(PyFloat_FromDouble(PyLong_AsDouble(object)));
  if (!converted) {
    PyErr_Clear();
    return -1;
  }
  return node >= 0 ? sink_->calculate("float_of", node, -1, converted.get())
                   : sink_->constant(converted.get());
}

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
      return floats ? "float_pow" : nullptr;
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

void unary(Recording& r, Frame& frame, PyObject* object) {
  NumberWatch& n = r.numbers;
  const int node = n.find(object);
  if (node < 0) return;
  NumberStep step{NumberStep::Kind::Calculate, {}};
  step.what = PyFloat_CheckExact(object) ? "float_neg" : "int_neg";
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
    const bool floats = PyFloat_CheckExact(left) || PyFloat_CheckExact(right);
    const bool swapped = operation == Py_GT || operation == Py_GE;
    NumberStep step{NumberStep::Kind::Decide, {}};
    const bool equality = operation == Py_EQ || operation == Py_NE;
    const bool strict = operation == Py_LT || operation == Py_GT;
    step.what = equality ? (floats ? "float_eq" : "int_eq")
                : strict ? (floats ? "float_lt" : "int_lt")
                         : (floats ? "float_le" : "int_le");
    step.negated = operation == Py_NE;
    step.nodes = {n.operand(swapped ? right : left, floats),
                  n.operand(swapped ? left : right, floats)};
    if (step.nodes[0] >= 0 && step.nodes[1] >= 0) return expect(frame, std::move(step));
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
  const bool is_zero = is_float ? PyFloat_AS_DOUBLE(object) == 0 : Py_SIZE(object) == 0;
  if (!n.sink()->decide(is_float ? "float_eq" : "int_eq", node, n.sink()->constant(zero.get()),
                        is_zero))
    n.sink()->fix(node);
}

// Small ints exist once: where identity is asked for, or an object outlives the call, it is that
// one.
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

// A write into something that outlives the call.
void stored(Recording& r, PyObject* target, PyObject** top, int depth) {
  if (target != nullptr && r.is_born(target) && !is_tensor(target)) return;
  r.numbers.fix_in(top[-depth]);
  share(r, top, depth);
}

void fix_top(Recording& r, Frame& frame, PyObject** top, int count) {
  PyObject** bottom = frame.frame->localsplus + frame.frame->f_code->co_nlocalsplus;
  for (int i = 1; i <= count && top - i >= bottom; ++i) r.numbers.fix_in(top[-i]);
}

}  // namespace

void number_instruction(Recording& r, Frame& frame, int opcode, int argument, PyObject** top) {
  NumberWatch& n = r.numbers;
  auto peek = [&](int depth) { return top[-depth]; };
  switch (opcode) {
    case BINARY_OP:
      return binary(r, frame, argument, peek(2), peek(1));
    case UNARY_NEGATIVE:
      return unary(r, frame, peek(1));
    case COMPARE_OP:
      return compare(r, frame, argument, peek(2), peek(1));
    case POP_JUMP_FORWARD_IF_FALSE:
    case POP_JUMP_FORWARD_IF_TRUE:
    case POP_JUMP_BACKWARD_IF_FALSE:
    case POP_JUMP_BACKWARD_IF_TRUE:
    case JUMP_IF_TRUE_OR_POP:
    case JUMP_IF_FALSE_OR_POP:
    case UNARY_NOT:
      return truth(r, peek(1));
    case BINARY_SUBSCR:
      return n.fix_in(peek(1));  // the key
    case STORE_SUBSCR:
      n.fix_in(peek(1));
      if (PyDict_Check(peek(2)) || PyList_Check(peek(2))) return stored(r, peek(2), top, 3);
      return n.fix_in(peek(3));
    case STORE_ATTR:
      return stored(r, peek(1), top, 2);
    case STORE_DEREF:
      return stored(r, frame.frame->localsplus[argument], top, 1);
    case STORE_GLOBAL:
    case STORE_NAME:
      return stored(r, nullptr, top, 1);
    case LOAD_ATTR:
    case LOAD_METHOD:
      if (const int node = n.find(peek(1)); node >= 0) n.sink()->fix(node);
      return;
    case GET_ITER:
    case GET_YIELD_FROM_ITER: {
      NumberStep step{NumberStep::Kind::Carry, {}};
      n.collect(peek(1), step.nodes);
      if (!step.nodes.empty()) expect(frame, std::move(step));
      return;
    }
    case IS_OP:
      share(r, top, 1);
      return share(r, top, 2);
    case CONTAINS_OP:
      return fix_top(r, frame, top, 2);
    case BUILD_MAP:
      for (int i = 0; i < argument; ++i) n.fix_in(peek(2 * i + 2));
      return;
    case MAP_ADD:
      return n.fix_in(peek(2));
    case BUILD_SET:
      return fix_top(r, frame, top, argument);
    // These only move what is on the stack; calls are looked at where they are modelled.
    case CALL:
    case CALL_FUNCTION_EX:
    case PRECALL:
    case KW_NAMES:
    case NOP:
    case RESUME:
    case CACHE:
    case POP_TOP:
    case PUSH_NULL:
    case COPY:
    case SWAP:
    case LOAD_FAST:
    case STORE_FAST:
    case DELETE_FAST:
    case LOAD_CONST:
    case LOAD_GLOBAL:
    case LOAD_NAME:
    case LOAD_DEREF:
    case LOAD_CLASSDEREF:
    case LOAD_CLOSURE:
    case DELETE_DEREF:
    case DELETE_ATTR:
    case MAKE_CELL:
    case MAKE_FUNCTION:
    case COPY_FREE_VARS:
    case LOAD_BUILD_CLASS:
    case LOAD_ASSERTION_ERROR:
    case BUILD_TUPLE:
    case BUILD_LIST:
    case BUILD_CONST_KEY_MAP:
    case BUILD_SLICE:
    case LIST_APPEND:
    case LIST_EXTEND:
    case LIST_TO_TUPLE:
    case DICT_MERGE:
    case DICT_UPDATE:
    case UNPACK_SEQUENCE:
    case UNPACK_EX:
    case FOR_ITER:
    case SEND:
    case YIELD_VALUE:
    case RETURN_VALUE:
    case RETURN_GENERATOR:
    case GET_LEN:
    case JUMP_FORWARD:
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
    case POP_JUMP_FORWARD_IF_NONE:
    case POP_JUMP_FORWARD_IF_NOT_NONE:
    case POP_JUMP_BACKWARD_IF_NONE:
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
    case BEFORE_WITH:
    case PUSH_EXC_INFO:
    case POP_EXCEPT:
    case CHECK_EXC_MATCH:
    case WITH_EXCEPT_START:
    case RERAISE:
    case IMPORT_NAME:
    case IMPORT_FROM:
      return;
    case UNARY_POSITIVE:
      if (n.find(peek(1)) >= 0 && !PyFloat_CheckExact(peek(1))) n.fix_in(peek(1));
      return;
    default:
      return fix_top(r, frame, top, 4);
  }
}

// A value that C code receives may be used by it; one that goes straight to a watched frame is not.
void number_return(Recording& r, PyObject* value) {
  NumberWatch& n = r.numbers;
  if (value == nullptr || r.frames.size() < 2 || !n.holds(value)) return;
  const Frame& returning = r.frames.back();
  const Frame& caller = r.frames[r.frames.size() - 2];
  if (!returning.frame->is_entry || caller.muted) return;
  bool direct = !caller.callee;
  if (direct) {
    switch (general_opcode(_Py_OPCODE(*caller.frame->prev_instr))) {
      case CALL:
      case CALL_FUNCTION_EX:
      case LOAD_ATTR:
      case BINARY_SUBSCR:
      case BEFORE_WITH:
        break;
      case FOR_ITER:
      case SEND: {
        const int depth = general_opcode(_Py_OPCODE(*caller.frame->prev_instr)) == FOR_ITER ? 1 : 2;
        PyObject* iterator = caller.frame->localsplus[caller.frame->stacktop - depth];
        direct = returning.frame->owner == FRAME_OWNED_BY_GENERATOR &&
                 reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(returning.frame)) == iterator;
        break;
      }
      default:
        direct = false;
    }
  }
  if (!direct) n.fix_in(value);
}

void number_result(Recording& r, Frame& frame) {
  std::unique_ptr<NumberStep> step = std::move(frame.number_step);
  NumberWatch& n = r.numbers;
  _PyInterpreterFrame* f = frame.frame;
  PyObject** place = f->localsplus + f->stacktop - 1;
  PyObject* result = f->stacktop > f->f_code->co_nlocalsplus ? *place : nullptr;
  // Puts a fresh object in the place of one that others may have.
  auto replace = [&](int node) {
    PyRef fresh = fresh_number(result);
    if (!fresh) return PyErr_Clear();
    n.track(fresh.get(), node);
    PyObject* old = *place;
    *place = fresh.release();
    Py_DECREF(old);
  };
  auto take = [&](int node) {
    if (PyFloat_CheckExact(result)) return n.track(result, node);
    replace(node);
  };
  if (result == nullptr) return n.fix(step->nodes);
  switch (step->kind) {
    case NumberStep::Kind::Read:
      if (!is_number_object(result) || step->delegated) return;
      if (const int node = n.sink()->read(step->since, result); node >= 0) take(node);
      return;
    case NumberStep::Kind::Use:
      if (!step->delegated) return n.sink()->use(step->since, step->places);
      // The reflected method in Python has the number now; other callees might have used it.
      if (!step->places.front().is_operand) n.fix(step->nodes);
      return;
    case NumberStep::Kind::Calculate: {
      const int b = step->nodes.size() > 1 ? step->nodes[1] : -1;
      const int node = is_number_object(result)
                           ? n.sink()->calculate(step->what, step->nodes[0], b, result)
                           : -1;
      if (node >= 0 && n.find(result) < 0) return take(node);
      return n.fix(step->nodes);
    }
    case NumberStep::Kind::Decide:
      if (PyBool_Check(result) && n.sink()->decide(step->what, step->nodes[0], step->nodes[1],
                                                   (result == Py_True) != step->negated))
        return;
      return n.fix(step->nodes);
    case NumberStep::Kind::Carry:
      // What holds numbers and cannot be looked into. None, True or a method hold none.
      if (PyIter_Check(result)) n.carry(result, std::move(step->nodes));
      return;
    case NumberStep::Kind::Source:
      if (result == step->source && !step->delegated) return replace(step->nodes[0]);
      return n.fix(step->nodes);
  }
}

void number_raise(Recording& r, Frame& frame) {
  if (!frame.number_step) return;
  r.numbers.fix(frame.number_step->nodes);
  frame.number_step.reset();
}

}  // namespace fulgurite::python::watching
