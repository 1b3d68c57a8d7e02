// Arithmetic in followed places, on their way through the program.
//
// A number that an instruction takes out of such a place is replaced on the stack by an object of
// its own, of the same type and value, so that its identity says where it came from. It may move
// through the stack, locals and cells, be computed with and compared, and be stored again; that
// becomes nodes of Arithmetic. Before anything else sees it, the ordinary object is put back, and
// the value is guarded. No such object is ever left in the program's memory.
#include "internals.h"

#include <opcode.h>

#include "callees.h"
#include "events.h"
#include "opcodes.h"
#include "track.h"

namespace fulgurite::python::watching {
namespace {

PyObject* copy_of(PyObject* number) {
  if (PyFloat_CheckExact(number)) return PyFloat_FromDouble(PyFloat_AS_DOUBLE(number));
  auto* from = reinterpret_cast<PyLongObject*>(number);
  const Py_ssize_t digits = Py_ABS(Py_SIZE(from));
  PyLongObject* to = _PyLong_New(digits == 0 ? 1 : digits);
  if (to == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < digits; ++i) to->ob_digit[i] = from->ob_digit[i];
  Py_SET_SIZE(to, Py_SIZE(from));
  return reinterpret_cast<PyObject*>(to);
}

bool has_python_method(PyTypeObject* type, PyObject* name) {
  PyObject* method = is_heap_type(type) ? _PyType_Lookup(type, name) : nullptr;
  return method != nullptr && PyFunction_Check(method);
}

}  // namespace

int Recording::node_of(PyObject* object) const {
  if (tracked_.empty() || object == nullptr) return -1;
  auto it = tracked_.find(object);
  return it == tracked_.end() ? -1 : it->second;
}

void Recording::note_number(int node, PyObject* holder, PyObject* key) const {
  if (numbers_.empty()) return;
  if (auto it = written_numbers_.find({0, holder, key}); it != written_numbers_.end()) {
    node = it->second;
  } else if (written_.count({0, holder, key}) || all_written_.count(holder)) {
    return;
  }
  if (node < 0) return;
  if (last_number_ >= 0 && last_number_ != node) more_numbers_.push_back(last_number_);
  last_number_ = node;
}

PyRef Recording::track(int node, PyObject* value) {
  PyRef fresh = PyRef::steal(copy_of(value));
  if (!fresh) {
    PyErr_Clear();
    return {};
  }
  kept_.push_back(fresh);
  tracked_.emplace(fresh.get(), node);
  return fresh;
}

int Recording::constant(PyObject* number) {
  return numbers_.add({Arithmetic::Node::Kind::Constant, 0, -1, -1, PyRef::borrow(number)});
}

int Recording::computed(const Frame& frame, int operation, PyObject* result) {
  return numbers_.add(
      {frame.is_unary ? Arithmetic::Node::Kind::Unary : Arithmetic::Node::Kind::Binary, operation,
       frame.left, frame.right, PyRef::borrow(result)});
}

int Recording::compared(int left, int right, int operation) {
  const auto& nodes = numbers_.nodes;
  PyRef result = PyRef::steal(PyObject_RichCompare(nodes[static_cast<size_t>(left)].recorded.get(),
                                                   nodes[static_cast<size_t>(right)].recorded.get(),
                                                   operation));
  if (!result) PyErr_Clear();
  return numbers_.add({Arithmetic::Node::Kind::Compare, operation, left, right, std::move(result)});
}

void Recording::truth_of(int node) {
  const bool truth = PyObject_IsTrue(recorded(node)) == 1;
  concretise(numbers_.add(
      {Arithmetic::Node::Kind::Truth, 0, node, -1, PyRef::borrow(truth ? Py_True : Py_False)}));
}

void Recording::concretise(int node) {
  if (node < 0 || !concrete_.insert(node).second) return;
  numbers_.guards.push_back({node, short_location(here())});
}

void Recording::end_store() {
  if (storing_ >= 0) concretise(std::exchange(storing_, -1));
}

int Recording::settle_result(PyObject*& result) {
  const int node = node_of(result);
  if (node < 0) return -1;
  PyObject* ordinary = Py_NewRef(recorded(node));
  Py_DECREF(result);
  result = ordinary;
  return node;
}

namespace {

// One instruction as numbers see it.
class Operands {
 public:
  Operands(Recording& recording, Frame& frame)
      : r_(recording), frame_(frame), f_(frame.frame), top_(f_->localsplus + f_->stacktop) {
    auto [opcode, argument] = decode(f_);
    opcode_ = opcode;
    argument_ = argument;
  }

  void take_result() {
    const int number = std::exchange(frame_.number, -1);
    const int operation = std::exchange(frame_.operation, -1);
    if (number < 0 && operation < 0) return;
    PyObject* result = depth() > 0 ? peek(1) : nullptr;
    if (result == nullptr || !is_plain_number(result) ||
        (number >= 0 && !values_equal(result, r_.recorded(number)))) {
      if (number >= 0) return r_.concretise(number);
      return frame_operands();
    }
    if (number >= 0) return replace(1, r_.track(number, result), number);
    const int node = r_.computed(frame_, operation, result);
    replace(1, r_.track(node, result), node);
  }

  void before() {
    switch (opcode_) {
      case LOAD_FAST:
      case LOAD_CONST:
      case LOAD_CLOSURE:
      case LOAD_GLOBAL:
      case LOAD_NAME:
      case LOAD_DEREF:
      case LOAD_CLASSDEREF:
      case PUSH_NULL:
      case NOP:
      case RESUME:
      case COPY:
      case SWAP:
      case POP_TOP:
      case STORE_FAST:
      case DELETE_FAST:
      case JUMP_FORWARD:
      case JUMP_BACKWARD:
      case JUMP_BACKWARD_NO_INTERRUPT:
      case PRECALL:
      case KW_NAMES:
      case MAKE_CELL:
      case COPY_FREE_VARS:
        return;
      case LOAD_ATTR:
      case LOAD_METHOD:
        return settle(1);
      case BINARY_SUBSCR:
        return settle_all(2);
      case FOR_ITER:
        return;
      case STORE_DEREF: {
        PyObject* cell = f_->localsplus[argument_];
        if (cell && PyCell_Check(cell) && r_.is_born(cell)) return;
        return store(1);
      }
      case STORE_GLOBAL:
      case STORE_NAME:
        return store(1);
      case STORE_ATTR:
        return store_attribute(peek(1), 2);
      case STORE_SUBSCR:
        return store_item();
      case RETURN_VALUE:
        if (r_.frames.size() > 1 && f_->is_entry && !is_read_by_attribute()) settle(1);
        return;
      case BINARY_OP:
        return binary();
      case UNARY_NEGATIVE:
      case UNARY_POSITIVE:
      case UNARY_INVERT:
        return unary();
      case COMPARE_OP:
        return compare();
      case POP_JUMP_FORWARD_IF_FALSE:
      case POP_JUMP_FORWARD_IF_TRUE:
      case POP_JUMP_BACKWARD_IF_FALSE:
      case POP_JUMP_BACKWARD_IF_TRUE:
      case JUMP_IF_TRUE_OR_POP:
      case JUMP_IF_FALSE_OR_POP:
      case UNARY_NOT:
        if (const int node = r_.node_of(peek(1)); node >= 0) r_.truth_of(node);
        return;
      case CALL:
        return call();
      case BUILD_LIST:
      case BUILD_TUPLE:
      case BUILD_SET:
      case BUILD_STRING:
      case BUILD_SLICE:
      case BUILD_CONST_KEY_MAP:
        return settle_all(argument_ + 1);
      case BUILD_MAP:
        return settle_all(2 * argument_);
      default:
        return settle_all(5);
    }
  }

  void after() {
    r_.end_store();
    r_.concretise_more();
    const int number = r_.take_number();
    if (number < 0) return;
    switch (opcode_) {
      case LOAD_GLOBAL:
      case LOAD_NAME:
      case LOAD_ATTR:
      case LOAD_DEREF:
      case LOAD_CLASSDEREF:
      case BINARY_SUBSCR:
      case CALL:
        frame_.number = number;
        return;
      case CONTAINS_OP:  // that it is there is all that was asked
        return;
      default:
        return r_.concretise(number);
    }
  }

  // Arguments that nobody watches from here on, or that are in a new container.
  void settle_arguments() {
    PyCodeObject* code = f_->f_code;
    const bool packed = (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) != 0;
    const int named = code->co_argcount + code->co_kwonlyargcount;
    for (int i = 0; i < named + 2 && i < code->co_nlocalsplus; ++i) {
      PyObject* value = f_->localsplus[i];
      if (!value) continue;
      if (frame_.muted) r_.concretise(r_.node_of(value));
      if (!packed || i < named) continue;
      if (PyTuple_CheckExact(value)) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(value); ++k) {
          PyObject* item = PyTuple_GET_ITEM(value, k);
          const int node = r_.node_of(item);
          if (node < 0) continue;
          PyTuple_SET_ITEM(value, k, Py_NewRef(r_.recorded(node)));
          Py_DECREF(item);
          r_.concretise(node);
        }
      } else if (PyDict_CheckExact(value)) {
        PyObject *key, *item;
        Py_ssize_t position = 0;
        while (PyDict_Next(value, &position, &key, &item)) {
          const int node = r_.node_of(item);
          if (node < 0) continue;
          r_.concretise(node);
          PyDict_SetItem(value, key, r_.recorded(node));
        }
      }
    }
  }

  // The running instruction raised: what it would have computed matters.
  void give_up() {
    r_.concretise(std::exchange(frame_.number, -1));
    if (std::exchange(frame_.operation, -1) >= 0) frame_operands();
  }

 private:
  int depth() const { return f_->stacktop - f_->f_code->co_nlocalsplus; }
  PyObject*& peek(int i) const { return top_[-i]; }

  void frame_operands() {
    r_.concretise(frame_.left);
    if (!frame_.is_unary) r_.concretise(frame_.right);
  }

  void replace(int i, PyRef fresh, int node) {
    if (!fresh) return r_.concretise(node);
    PyObject* old = peek(i);
    peek(i) = fresh.release();
    Py_DECREF(old);
  }

  void settle(int i) {
    if (i > depth()) return;
    const int node = r_.node_of(peek(i));
    if (node < 0) return;
    r_.concretise(node);
    replace(i, PyRef::borrow(r_.recorded(node)), node);
  }

  void settle_all(int count) {
    for (int i = 1; i <= count && i <= depth(); ++i) settle(i);
  }

  void store(int i) {
    const int node = r_.node_of(peek(i));
    if (node < 0) return;
    replace(i, PyRef::borrow(r_.recorded(node)), node);
    r_.begin_store(node);
  }

  // Whether a setter in Python takes the value, which is watched.
  bool flows_into_python(PyObject* owner, PyObject* name, bool generic) const {
    PyTypeObject* type = Py_TYPE(owner);
    if (!generic && has_python_method(type, names().setattr)) return true;
    PyObject* descriptor = _PyType_Lookup(type, name);
    if (!descriptor) return false;
    if (Py_TYPE(descriptor) == &PyProperty_Type) return true;
    PyRef set = PyRef::steal(PyUnicode_InternFromString("__set__"));
    return has_python_method(Py_TYPE(descriptor), set.get());
  }

  void store_attribute(PyObject* owner, int value) {
    if (r_.node_of(peek(value)) < 0) return settle_all(2);
    PyObject* name = PyTuple_GET_ITEM(f_->f_code->co_names, argument_);
    if (!PyType_Check(owner) && flows_into_python(owner, name, false)) return;
    if (r_.is_born(owner) || is_tensor(owner)) return settle(value);
    store(value);
  }

  void store_item() {
    settle(1);
    if (r_.node_of(peek(3)) < 0) return settle(2);
    PyObject* container = peek(2);
    if (has_python_method(Py_TYPE(container), names().setitem)) return;
    if (!PyDict_CheckExact(container) || r_.is_born(container) ||
        r_.was_written(container, Py_Ellipsis)) {
      r_.take_number();
      return settle(3);
    }
    store(3);
  }

  bool is_read_by_attribute() const {
    const Frame& caller = r_.frames[r_.frames.size() - 2];
    return caller.frame != nullptr && !caller.muted && decode(caller.frame).opcode == LOAD_ATTR;
  }

  // A number of the program itself (numbers.h), for which no constant stands.
  bool is_input(PyObject* object) const { return r_.numbers.any() && r_.numbers.find(object) >= 0; }

  int operand(PyObject* number) {
    const int node = r_.node_of(number);
    return node >= 0 ? node : r_.constant(number);
  }

  void binary() {
    if (r_.node_of(peek(1)) < 0 && r_.node_of(peek(2)) < 0) return;
    if (!is_plain_number(peek(1)) || !is_plain_number(peek(2)) || argument_ % 13 == 4 ||
        is_input(peek(1)) || is_input(peek(2)))
      return settle_all(2);
    frame_.left = operand(peek(2));
    frame_.right = operand(peek(1));
    frame_.operation = argument_;
    frame_.is_unary = false;
  }

  void unary() {
    if (r_.node_of(peek(1)) < 0) return;
    frame_.left = r_.node_of(peek(1));
    frame_.operation = opcode_;
    frame_.is_unary = true;
  }

  void compare() {
    if (r_.node_of(peek(1)) < 0 && r_.node_of(peek(2)) < 0) return;
    if (!is_plain_number(peek(1)) || !is_plain_number(peek(2)) || is_input(peek(1)) ||
        is_input(peek(2)))
      return settle_all(2);
    const int left = operand(peek(2));
    const int right = operand(peek(1));
    r_.concretise(r_.compared(left, right, argument_));
  }

  void call() {
    PyObject* callee = peek(argument_ + 2);
    bool has_self = callee != nullptr;
    if (!has_self) callee = peek(argument_ + 1);
    if (callee == nullptr) return;
    bool any = false;
    for (int i = 1; i <= argument_ + 1; ++i) any = any || r_.node_of(peek(i)) >= 0;
    if (!any) return;
    PyObject* function = PyMethod_Check(callee) ? PyMethod_GET_FUNCTION(callee) : callee;
    if (PyFunction_Check(function)) return;  // watched from inside
    if (is_generic_setattr(function)) {
      PyObject* owner = owner_of_call(callee);
      PyObject* name = argument_ >= 2 ? peek(2) : nullptr;
      if (owner && name && PyUnicode_Check(name) && r_.node_of(peek(1)) >= 0 &&
          !r_.is_born(owner) && !is_tensor(owner) && !PyType_Check(owner) &&
          !flows_into_python(owner, name, true))
        return store(1);
    } else if (PyCFunction_Check(function)) {
      const std::string name = qualified_name(function);
      // The type is guarded.
      if (name == "builtins.isinstance" || name == "type.__instancecheck__") return;
    }
    settle_all(argument_ + 1);
  }

  static bool is_generic_setattr(PyObject* callable) {
    if (Py_TYPE(callable) == &PyWrapperDescr_Type)
      return std::string_view(reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base->name) ==
             "__setattr__";
    return Py_TYPE(callable) == known_types().method_wrapper &&
           qualified_name(callable).ends_with(".__setattr__");
  }

  // The object whose attribute `object.__setattr__`, bound or not, sets.
  PyObject* owner_of_call(PyObject* callee) const {
    if (Py_TYPE(callee) == known_types().method_wrapper) {
      struct Wrapper {
        PyObject ob_base;
        PyObject* descriptor;
        PyObject* self;
      };
      return reinterpret_cast<Wrapper*>(callee)->self;
    }
    if (peek(argument_ + 2) != nullptr) return peek(argument_ + 1);  // a method call
    return argument_ == 3 ? peek(3) : nullptr;
  }

  Recording& r_;
  Frame& frame_;
  _PyInterpreterFrame* f_;
  PyObject** top_;
  int opcode_ = 0;
  int argument_ = 0;
};

}  // namespace

void take_number_result(Recording& recording, Frame& frame) {
  Operands(recording, frame).take_result();
}
void track_operands(Recording& recording, Frame& frame) { Operands(recording, frame).before(); }
void track_results(Recording& recording, Frame& frame) { Operands(recording, frame).after(); }
void track_arguments(Recording& recording, Frame& frame) {
  Operands(recording, frame).settle_arguments();
}
void lose_numbers(Recording& recording, Frame& frame) { Operands(recording, frame).give_up(); }

}  // namespace fulgurite::python::watching
