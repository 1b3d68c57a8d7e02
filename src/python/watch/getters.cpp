// Where C code and the program meet without an instruction of the program: operator.attrgetter and
// methodcaller, and what Python functions return to C code that called them.
#include "call.h"

#include <algorithm>

namespace fulgurite::python::watching {
namespace {

// The arguments that an attrgetter or methodcaller was made with; null if they are not just text
// and values.
PyRef made_with(PyObject* getter) {
  ErrorAside aside;
  PyRef reduced = PyRef::steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) != 2 ||
      PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(Py_TYPE(getter))) {
    return {};
  }
  PyObject* arguments = PyTuple_GET_ITEM(reduced.get(), 1);
  return PyTuple_Check(arguments) ? PyRef::borrow(arguments) : PyRef();
}

// What `object.name` is, if no code of the program decides it.
PyRef plain_attribute(PyObject* object, PyObject* name) {
  ErrorAside aside;
  PyTypeObject* type = Py_TYPE(object);
  if (PyModule_Check(object)) {
    return PyRef::borrow(dict_lookup(PyModule_GetDict(object), name, nullptr));
  }
  if (PyType_Check(object) || type->tp_getattro != PyObject_GenericGetAttr) return {};
  PyObject* found = _PyType_Lookup(type, name);
  if (found && Py_TYPE(found) == &PyMemberDescr_Type)
    return PyRef::steal(slot_value(object, found));
  if (found && Py_TYPE(found)->tp_descr_set) return {};
  PyObject** dict = _PyObject_GetDictPtr(object);
  if (PyObject* value = dict && *dict ? dict_lookup(*dict, name, nullptr) : nullptr) {
    return PyRef::borrow(value);
  }
  return found && !Py_TYPE(found)->tp_descr_get ? PyRef::borrow(found) : PyRef();
}

// Reads what attrgetter(path) looks at; false if that cannot be told without running it.
bool read_path(Recording& r, PyObject* object, std::string_view path) {
  PyRef current = PyRef::borrow(object);
  while (true) {
    const size_t dot = path.find('.');
    PyRef name = PyRef::steal(PyUnicode_FromStringAndSize(path.data(), std::min(dot, path.size())));
    PyObject* interned = name.release();
    PyUnicode_InternInPlace(&interned);
    name = PyRef::steal(interned);
    r.read_attribute(current.get(), name.get());
    if (dot == std::string_view::npos) return true;
    current = plain_attribute(current.get(), name.get());
    if (!current) return false;
    path.remove_prefix(dot + 1);
  }
}

bool read_getter(Recording& r, PyObject* getter, PyObject* object) {
  PyRef paths = made_with(getter);
  if (!paths) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(paths.get()); ++i) {
    if (!read_path(r, object, text_of(PyTuple_GET_ITEM(paths.get(), i)))) return false;
  }
  return true;
}

}  // namespace

void Call::call_attribute_getter() {
  numbers({});
  if (!read_getter(r_, callee_, a_[0])) r_.refuse("calls " + name() + " along a computed path");
}

void Call::call_method_caller() {
  numbers({});
  PyRef made = made_with(callee_);
  if (!made || PyTuple_GET_SIZE(made.get()) == 0)
    return r_.refuse("calls " + name() + " with keywords");
  PyObject* object = a_[0];
  PyRef method = PyRef::borrow(PyTuple_GET_ITEM(made.get(), 0));
  r_.read_attribute(object, method.get());
  PyObject* found = PyType_Check(object) ? nullptr : _PyType_Lookup(Py_TYPE(object), method.get());
  PyObject** dict = _PyObject_GetDictPtr(object);
  const bool own = dict && *dict && dict_lookup(*dict, method.get(), nullptr);
  if (!found || own || (!PyFunction_Check(found) && Py_TYPE(found) != &PyMethodDescr_Type)) {
    return r_.refuse("calls " + name() + " with a computed method");
  }
  std::vector<PyObject*> values(1, object);
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(made.get()); ++i) {
    values.push_back(PyTuple_GET_ITEM(made.get(), i));
  }
  on_call(r_, frame_, found, {std::move(values), nullptr, nullptr});
}

// An attrgetter handed to a C function that calls it with the items of its other arguments.
bool Call::read_getter_over_items(PyObject* getter) {
  const std::string called = name();
  if (called != "builtins.sorted" && called != "builtins.min" && called != "builtins.max" &&
      called != "map" && called != "list.sort") {
    return false;
  }
  for (PyObject* value : a_) {
    if (value == getter || is_value(value)) continue;
    if (!PyList_Check(value) && !PyTuple_Check(value)) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      if (!read_getter(r_, getter, PySequence_Fast_GET_ITEM(value, i))) return false;
    }
  }
  return true;
}

// Whether C code only hands the items on to a Python function, and looks at what that returns.
bool Call::passes_items_to_python() const {
  auto is_python = [](PyObject* value) {
    return value && (PyFunction_Check(value) || PyMethod_Check(value));
  };
  if (std::none_of(a_.begin(), a_.end(), is_python)) return false;
  const std::string called = name();
  PyObject* function = nullptr;
  if (called == "map" || called == "filter" || called == "_functools.reduce" ||
      called == "itertools.takewhile" || called == "itertools.dropwhile" ||
      called == "itertools.filterfalse") {
    function = argument(0);
  } else if (called == "builtins.sorted" || called == "builtins.min" || called == "builtins.max" ||
             called == "list.sort") {
    size_t named = arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0;
    for (size_t i = 0; i < named; ++i) {
      if (text_of(PyTuple_GET_ITEM(arguments_.names, i)) == "key")
        function = a_[a_.size() - named + i];
    }
  }
  if (function && PyMethod_Check(function)) function = PyMethod_GET_FUNCTION(function);
  return function && PyFunction_Check(function);
}

// C code asks a key, a predicate or an item that a Python function returned for its truth, its
// order or what is inside.
void on_result_for_c(Recording& recording, const Frame& caller, const Frame& frame,
                     PyObject* result) {
  if (is_simple(result)) return;
  const Operation operation = caller.running.operation;
  const bool compares = operation == Operation::ContainsOp || operation == Operation::CompareOp;
  if (compares) recording.read_truth(result);
  if (is_tensor(result)) return;
  if (compares) return recording.read_all(result, /*deep=*/true);
  if (operation == Operation::ForIter) {
    // What a generator yields is an item, given to the program.
    if (frame.frame->owner == FRAME_OWNED_BY_GENERATOR || !caller.iterator) return;
    const std::string_view type = Py_TYPE(caller.iterator)->tp_name;
    if (type != "filter" && !type.starts_with("itertools.")) return;
    return recording.read_all(result, /*deep=*/type == "itertools.groupby");
  }
  if (caller.pending != Pending::Call || !caller.callee) return;
  switch (find_callee(caller.callee.get()).callee) {
    case Callee::Deep:
    case Callee::Format:
    case Callee::Mutate:
      return recording.read_all(result, /*deep=*/true);
    case Callee::Pure:
      return recording.read_all(result);
    default:
      return;
  }
}

}  // namespace fulgurite::python::watching
