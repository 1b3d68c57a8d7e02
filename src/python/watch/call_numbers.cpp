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
                          "tuple.__iter__",
                          "dict.items",
                          "dict.values",
                          "dict.keys",
                          "dict.copy",
                          "builtins.len",
                          "builtins.isinstance",
                          "builtins.issubclass",
                          "builtins.callable",
                          "builtins.hasattr",
                          "type",
                          "torch._C._has_torch_function",
                          "torch._C._has_torch_function_unary",
                          "torch._C._has_torch_function_variadic",
                          "object.__setattr__"});
}
bool moves_by_key(std::string_view name) {
  return is_one_of(name, {"dict.get", "dict.setdefault", "dict.pop", "list.insert", "list.pop",
                          "dict.__getitem__", "list.__getitem__", "dict.__setitem__",
                          "builtins.getattr", "builtins.setattr"});
}

struct Function {
  std::string_view name;
  const char* what;
};
constexpr std::array<Function, 9> kFunctions{{{"math.sqrt", "float_sqrt"},
                                              {"math.exp", "float_exp"},
                                              {"math.log", "float_log"},
                                              {"math.sin", "float_sin"},
                                              {"math.cos", "float_cos"},
                                              {"math.fabs", "float_abs"},
                                              {"builtins.abs", "float_abs"},
                                              {"math.pow", "float_pow"},
                                              {"builtins.pow", "float_pow"}}};

}  // namespace

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
  if (!n.any()) return;
  std::vector<int> nodes;
  for (PyObject* a : a_) n.collect(a, nodes);
  n.collect(arguments_.keywords, nodes);
  if (nodes.empty()) return;
  if (frame_.frame == nullptr) return n.fix(nodes);
  // An instance of a Python class: its __new__ and __init__ are watched, and object's look at
  // nothing.
  if (model.callee == Callee::Free && PyType_Check(callee_) &&
      is_heap_type(reinterpret_cast<PyTypeObject*>(callee_)))
    return;
  if (model.callee == Callee::GradFunction) return;  // they go to the forward as they are
  if (model.callee == Callee::Op) return number_use(std::move(nodes));
  if (number_calculation(called)) return;
  const bool keyed = moves_by_key(called);
  if (keyed && argument(1) != nullptr && n.holds(argument(1))) return n.fix(nodes);
  if (keyed || only_moves(called)) {
    // A write into something older outlives the call.
    const bool writes =
        is_one_of(called, {"list.append", "list.extend", "dict.setdefault", "list.insert",
                           "dict.__setitem__", "builtins.setattr", "object.__setattr__"});
    if (writes && (!argument(0) || !r_.is_born(argument(0)) || is_tensor(argument(0))))
      return n.fix(nodes);
    NumberStep step{NumberStep::Kind::Carry, {}};
    step.nodes = std::move(nodes);
    frame_.number_step = std::make_unique<NumberStep>(std::move(step));
    return;
  }
  // An exact float as it is.
  if (called == "float" && a_.size() == 1 && PyFloat_CheckExact(a_[0])) return;
  n.fix(nodes);
}

bool Call::number_calculation(const std::string& called) {
  NumberWatch& n = r_.numbers;
  for (const Function& f : kFunctions) {
    if (called != f.name || arguments_.has_keywords()) continue;
    const bool binary = std::string_view(f.what) == "float_pow";
    const size_t count = a_.size() - explicit_from_;
    if (count != (binary ? 2u : 1u)) return false;
    PyObject* a = a_[explicit_from_];
    // abs() of an int is an int; the functions of math make a float of it.
    const bool takes_int = binary || called.starts_with("math.");
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
  if (called == "float" && a_.size() == 1 && n.find(a_[0]) >= 0 && PyLong_CheckExact(a_[0])) {
    NumberStep step{NumberStep::Kind::Calculate, {}};
    step.what = "float_of";
    step.nodes = {n.find(a_[0])};
    frame_.number_step = std::make_unique<NumberStep>(std::move(step));
    return true;
  }
  return false;
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
