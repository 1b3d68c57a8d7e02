// What a C call does with numbers that vary (numbers.h): reads them out of tensors, gives them to
// an operator, calculates, moves them, or looks at them in a way that fixes their value.
#include "internals.h"

#include "call.h"

#include <array>
#include <string_view>

namespace fulgurite::python::watching {
namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view n : names)
    if (n == name) return true;
  return false;
}

// Puts objects elsewhere, or asks for their types, without looking at their values. `keyed`: the
// argument after the container is a key or an index.
bool only_moves(std::string_view name) {
  return is_one_of(name, {"tuple",
                          "list",
                          "zip",
                          "enumerate",
                          "reversed",
                          "builtins.iter",
                          "builtins.next",
                          "list.append",
                          "list.extend",
                          "list.copy",
                          "list.__iter__",
                          "collections.deque.append",
                          "collections.deque.appendleft",
                          "collections.deque.extend",
                          "collections.deque.extendleft",
                          "collections.deque.pop",
                          "collections.deque.popleft",
                          "collections.deque.copy",
                          "collections.deque.__iter__",
                          "tuple.__iter__",
                          "dict.items",
                          "dict.values",
                          "dict.keys",
                          "dict.copy",
                          "dict.update",
                          "builtins.len",
                          "builtins.isinstance",
                          "builtins.issubclass",
                          "builtins.callable",
                          "builtins.hasattr",
                          "type",
                          "type.__instancecheck__",
                          "type.__subclasscheck__",
                          "torch._C._has_torch_function",
                          "torch._C._has_torch_function_unary",
                          "torch._C._has_torch_function_variadic"});
}
bool moves_by_key(std::string_view name) {
  return is_one_of(name,
                   {"list.insert", "list.pop", "collections.deque", "collections.deque.rotate"});
}

bool moves_by_key(Callee callee) {
  switch (callee) {
    case Callee::Get:
    case Callee::SetItem:
    case Callee::GetAttr:
    case Callee::SetAttr:
    case Callee::SetDefault:
    case Callee::Pop:
      return true;
    default:
      return false;
  }
}

struct Function {
  std::string_view name;
  const char* what;
};
// Of one float, or two.
constexpr std::array<Function, 19> kFunctions{{{"math.sqrt", "float_sqrt"},
                                               {"math.exp", "float_exp"},
                                               {"math.log", "float_log"},
                                               {"math.log2", "float_log2"},
                                               {"math.log10", "float_log10"},
                                               {"math.sin", "float_sin"},
                                               {"math.cos", "float_cos"},
                                               {"math.tanh", "float_tanh"},
                                               {"math.fabs", "float_abs"},
                                               {"math.floor", "float_floor"},
                                               {"math.ceil", "float_ceil"},
                                               {"math.trunc", "float_trunc"},
                                               {"int", "float_trunc"},
                                               {"builtins.round", "float_round"},
                                               {"builtins.abs", "float_abs"},
                                               {"math.pow", "float_pow"},
                                               {"builtins.pow", "float_pow"},
                                               {"math.fmod", "float_fmod"},
                                               {"math.copysign", "float_copysign"}}};
// Of one float: the program goes where the answer says.
constexpr std::array<Function, 3> kPredicates{{{"math.isnan", "float_isnan"},
                                               {"math.isinf", "float_isinf"},
                                               {"math.isfinite", "float_isfinite"}}};

bool is_binary(std::string_view what) {
  return what == "float_pow" || what == "float_fmod" || what == "float_copysign";
}

}  // namespace

// t.tolist(): each element is a number that is read out of the tensor.
bool Call::reads_elements() {
  NumberWatch& n = r_.numbers;
  if (n.sink() == nullptr || frame_.frame == nullptr || a_.size() != 1 || !is_tensor(a_[0]) ||
      name() != "torch._C.TensorBase.tolist")
    return false;
  NumberStep step{NumberStep::Kind::ReadAll, n.sink()->mark()};
  step.tensors.push_back(PyRef::borrow(a_[0]));
  frame_.number_step = std::make_unique<NumberStep>(std::move(step));
  return true;
}

void Call::numbers(const CalleeModel& model) {
  NumberWatch& n = r_.numbers;
  if (n.sink() == nullptr) return;
  const std::string called = name();
  if (is_one_of(called, {"torch._C.TensorBase.item", "torch._C.TensorBase.__float__",
                         "torch._C.TensorBase.__int__", "float", "int"}) &&
      frame_.frame != nullptr && argument(0) != nullptr && is_tensor(argument(0))) {
    frame_.number_step = std::make_unique<NumberStep>(
        NumberStep{NumberStep::Kind::Read, n.sink()->mark(), {}, {}, nullptr});
    return;
  }
  std::vector<int> nodes;
  if (n.any()) {
    for (PyObject* a : a_) n.collect(a, nodes);
    n.collect(arguments_.keywords, nodes);
  }
  if (nodes.empty() && model.callee == Callee::Op) return tensor_use();
  if (nodes.empty() || prints_numbers(nodes.size())) return;
  if (frame_.frame != nullptr && text_of_numbers(called, nodes)) return;
  if (frame_.frame == nullptr || looks_at_text(model.callee)) return n.fix(nodes);
  // An instance of a Python class: its __new__ and __init__ are watched, and object's look at
  // nothing.
  if (model.callee == Callee::Free && PyType_Check(callee_) &&
      is_heap_type(reinterpret_cast<PyTypeObject*>(callee_)))
    return;
  if (model.callee == Callee::GradFunction) return;  // they go to the forward as they are
  if (model.callee == Callee::Op) return number_use(std::move(nodes));
  if (number_calculation(called) || number_format(called)) return;
  // Whatever is in the object, its state is.
  if (model.callee == Callee::Reduce) return;
  const bool keyed = moves_by_key(called) || moves_by_key(model.callee) ||
                     (model.callee == Callee::Contains && argument(0) && PyDict_Check(argument(0)));
  if (keyed && argument(1) != nullptr && n.holds(argument(1))) return n.fix(nodes);
  // One item of a dict, whatever else is in it.
  if (model.callee == Callee::Get || model.callee == Callee::SetDefault ||
      model.callee == Callee::Pop)
    return;
  const bool of_dict = called == "dict" && (!argument(0) || PyDict_CheckExact(argument(0)));
  if (keyed || of_dict || only_moves(called) || model.callee == Callee::IsInstance ||
      model.callee == Callee::AbcCheck) {
    if (!argument(0) || is_tensor(argument(0))) return n.fix(nodes);
    NumberStep step{NumberStep::Kind::Carry, {}};
    step.nodes = std::move(nodes);
    frame_.number_step = std::make_unique<NumberStep>(std::move(step));
    return;
  }
  // An exact float as it is.
  if (called == "float" && a_.size() == 1 && PyFloat_CheckExact(a_[0])) return;
  n.fix(nodes);
}

// A text with numbers in it may be stored, and nothing else.
bool Call::looks_at_text(Callee callee) const {
  const bool stores = callee == Callee::SetItem || callee == Callee::SetAttr ||
                      callee == Callee::SetDefault || callee == Callee::GradFunction ||
                      name() == "list.append";
  for (size_t i = 0; i < a_.size(); ++i)
    if (a_[i] && r_.numbers.is_text(a_[i]) && (!stores || i == 0)) return true;
  return false;
}

bool Call::number_calculation(const std::string& called) {
  NumberWatch& n = r_.numbers;
  if (arguments_.has_keywords()) return false;
  const size_t count = a_.size() - explicit_from_;
  if (called == "builtins.min" || called == "builtins.max")
    return number_choice(called == "builtins.min" ? Py_LT : Py_GT);
  for (const Function& f : kPredicates) {
    if (called != f.name || count != 1 || !PyFloat_CheckExact(a_[explicit_from_])) continue;
    NumberStep step{NumberStep::Kind::Decide, {}};
    step.what = f.what;
    step.nodes = {n.find(a_[explicit_from_])};
    frame_.number_step = std::make_unique<NumberStep>(std::move(step));
    return true;
  }
  if (called == "builtins.round" && count == 2) return number_rounding();
  for (const Function& f : kFunctions) {
    if (called != f.name) continue;
    const bool binary = is_binary(f.what);
    if (count != (binary ? 2u : 1u)) return false;
    PyObject* a = a_[explicit_from_];
    if (called == "builtins.abs" && PyLong_CheckExact(a)) break;
    // Functions that give a float make one of an int first; those that give an int do not.
    const bool takes_int =
        binary || (called.starts_with("math.") &&
                   !is_one_of(called, {"math.floor", "math.ceil", "math.trunc"}));
    if (!is_number_object(a) || (!takes_int && !PyFloat_CheckExact(a))) return false;
    NumberStep step{NumberStep::Kind::Calculate, {}};
    step.what = f.what;
    step.nodes.push_back(n.operand(a, true));
    if (binary) {
      PyObject* b = a_[explicit_from_ + 1];
      if (!PyFloat_CheckExact(a) && !PyFloat_CheckExact(b)) return false;
      step.nodes.push_back(n.operand(b, true));
    }
    for (int node : step.nodes)
      if (node < 0) return false;
    frame_.number_step = std::make_unique<NumberStep>(std::move(step));
    return true;
  }
  if ((called == "float" || called == "builtins.abs") && count == 1 &&
      PyLong_CheckExact(a_[explicit_from_]) && n.find(a_[explicit_from_]) >= 0) {
    NumberStep step{NumberStep::Kind::Calculate, {}};
    step.what = called == "float" ? "float_of" : "int_abs";
    step.nodes = {n.find(a_[explicit_from_])};
    frame_.number_step = std::make_unique<NumberStep>(std::move(step));
    return true;
  }
  return false;
}

// n.__format__(spec), as Tensor.__format__ has it.
bool Call::number_format(const std::string& called) {
  NumberWatch& n = r_.numbers;
  if ((called != "float.__format__" && called != "int.__format__") || a_.size() != 2 ||
      n.find(a_[0]) < 0 || !PyUnicode_CheckExact(a_[1]) || n.is_text(a_[1]))
    return false;
  NumberStep step{NumberStep::Kind::Text, {}};
  step.nodes = {n.find(a_[0])};
  step.pieces.push_back(PyRef::steal(PyTuple_Pack(2, a_[0], a_[1])));
  frame_.number_step = std::make_unique<NumberStep>(std::move(step));
  return true;
}

// round(x, digits)
bool Call::number_rounding() {
  NumberWatch& n = r_.numbers;
  PyObject* x = a_[explicit_from_];
  PyObject* digits = a_[explicit_from_ + 1];
  if (!PyFloat_CheckExact(x) || !PyLong_CheckExact(digits)) return false;
  NumberStep step{NumberStep::Kind::Calculate, {}};
  step.what = "float_round_to";
  step.nodes = {n.operand(x, true), n.operand(digits, false)};
  if (step.nodes[0] < 0 || step.nodes[1] < 0) return false;
  frame_.number_step = std::make_unique<NumberStep>(std::move(step));
  return true;
}

// The least or largest of numbers of one type is a number like any other.
bool Call::number_extreme(int operation, PyObject* const* items, Py_ssize_t count) {
  NumberWatch& n = r_.numbers;
  const bool floats = PyFloat_CheckExact(items[0]);
  const char* what =
      operation == Py_LT ? (floats ? "float_min" : "int_min") : (floats ? "float_max" : "int_max");
  PyObject* best = items[0];
  int node = n.operand(best, floats);
  for (Py_ssize_t i = 1; i < count && node >= 0; ++i) {
    const int better = PyObject_RichCompareBool(items[i], best, operation);
    if (better < 0) PyErr_Clear();
    if (better == 1) best = items[i];
    node = n.sink()->calculate(what, node, n.operand(items[i], floats), best);
  }
  if (node < 0) return false;
  NumberStep step{NumberStep::Kind::Same, {}};
  step.nodes = {node};
  frame_.number_step = std::make_unique<NumberStep>(std::move(step));
  return true;
}

// min and max give one of their arguments: which one is decided by comparisons, as CPython makes
// them.
bool Call::number_choice(int operation) {
  NumberWatch& n = r_.numbers;
  PyObject* const* items = a_.data() + explicit_from_;
  auto count = static_cast<Py_ssize_t>(a_.size() - explicit_from_);
  if (count == 1 && (PyList_CheckExact(items[0]) || PyTuple_CheckExact(items[0]))) {
    count = PySequence_Fast_GET_SIZE(items[0]);
    items = PySequence_Fast_ITEMS(items[0]);
  }
  bool alike = count > 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!is_number_object(items[i])) return false;
    alike = alike && Py_TYPE(items[i]) == Py_TYPE(items[0]);
  }
  if (alike && number_extreme(operation, items, count)) return true;
  PyObject* best = items[0];
  for (Py_ssize_t i = 1; i < count; ++i) {
    const int better = PyObject_RichCompareBool(items[i], best, operation);
    if (better < 0) PyErr_Clear();
    const bool involved = n.find(items[i]) >= 0 || n.find(best) >= 0;
    if (better < 0 || (involved && !n.decide(operation, items[i], best, better == 1))) return false;
    if (better == 1) best = items[i];
  }
  return true;
}

// `x.add_(g, alpha=lr)` with a tensor for the number: the binding reads it, and so does the
// program.
void Call::tensor_use() {
  if (frame_.frame == nullptr || arguments_.keywords != nullptr) return;
  NumberStep step{NumberStep::Kind::UseTensors, r_.numbers.sink()->mark()};
  const size_t first = explicit_from_ == 1 && !is_tensor(a_[0]) ? 1 : 0;
  const size_t named =
      arguments_.names != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(arguments_.names)) : 0;
  const size_t positional = a_.size() - std::min(named, a_.size());
  for (size_t i = first + 1; i < a_.size(); ++i) {
    if (a_[i] == nullptr || !is_tensor(a_[i])) continue;
    NumberInCall place;
    if (i < positional) {
      place.position = static_cast<int>(i - first);
    } else {
      place.keyword =
          text_of(PyTuple_GET_ITEM(arguments_.names, static_cast<Py_ssize_t>(i - positional)));
    }
    step.places.push_back(std::move(place));
    step.tensors.push_back(PyRef::borrow(a_[i]));
  }
  if (!step.places.empty()) frame_.number_step = std::make_unique<NumberStep>(std::move(step));
}

// Numbers given to an operator: at the top of the arguments, or in a list of numbers.
void Call::number_use(std::vector<int> nodes) {
  NumberWatch& n = r_.numbers;
  NumberStep step{NumberStep::Kind::Use, n.sink()->mark()};
  // Functions of a module or a class are bound to it: that is no argument.
  const size_t first = explicit_from_ == 1 && !is_tensor(a_[0]) ? 1 : 0;
  const size_t named =
      arguments_.names != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(arguments_.names)) : 0;
  const size_t positional = a_.size() - std::min(named, a_.size());
  auto add = [&](PyObject* value, int position, const std::string& keyword) {
    NumberInCall place;
    place.position = position;
    place.keyword = keyword;
    if (const int node = n.find(value); node >= 0) {
      place.node = node;
      step.places.push_back(place);
      return;
    }
    if (value == nullptr || !(PyList_Check(value) || PyTuple_Check(value))) return;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      place.node = n.find(PySequence_Fast_GET_ITEM(value, i));
      place.element = static_cast<int>(i);
      if (place.node >= 0) step.places.push_back(place);
    }
  };
  for (size_t i = first; i < a_.size(); ++i) {
    if (i < positional) {
      add(a_[i], static_cast<int>(i - first), "");
    } else {
      add(a_[i], -1,
          text_of(PyTuple_GET_ITEM(arguments_.names, static_cast<Py_ssize_t>(i - positional))));
    }
  }
  if (arguments_.keywords != nullptr) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(arguments_.keywords, &position, &key, &value))
      add(value, -1, PyUnicode_Check(key) ? text_of(key) : "");
  }
  // Nested deeper, or in something opaque: not followed.
  if (step.places.size() != nodes.size()) return n.fix(nodes);
  step.nodes = std::move(nodes);
  frame_.number_step = std::make_unique<NumberStep>(std::move(step));
}

}  // namespace fulgurite::python::watching
