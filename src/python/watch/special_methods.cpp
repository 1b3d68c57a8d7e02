// The methods that C code looks up in a class unasked: one fact stands for all of them.
#include "internals.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "guard_table.h"

namespace fulgurite::python::watching {
namespace {

std::vector<PyObject*> interned(std::string_view stems, std::initializer_list<const char*> heads) {
  std::vector<PyObject*> made;
  while (!stems.empty()) {
    const size_t end = std::min(stems.find(' '), stems.size());
    for (const char* head : heads) {
      const std::string name = head + std::string(stems.substr(0, end)) + "__";
      made.push_back(PyUnicode_InternFromString(name.c_str()));
    }
    stems.remove_prefix(std::min(end + 1, stems.size()));
  }
  return made;
}

const std::vector<PyObject*>& protocol_names() {
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> made = interned(
        "iter next len getitem contains missing reversed length_hint bool eq ne lt le gt ge hash "
        "index int float complex call str repr format bytes fspath await aiter anext getattribute "
        "class torch_function",
        {"__"});
    made.push_back(PyUnicode_InternFromString("keys"));
    return made;
  }();
  return names;
}

const std::vector<PyObject*>& operator_names() {
  static const std::vector<PyObject*> names = [] {
    std::vector<PyObject*> made =
        interned("round ceil floor trunc abs neg pos invert divmod rdivmod", {"__"});
    const std::vector<PyObject*> binary =
        interned("add sub mul matmul truediv floordiv mod pow lshift rshift and or xor",
                 {"__", "__r", "__i"});
    made.insert(made.end(), binary.begin(), binary.end());
    return made;
  }();
  return names;
}

// Stands for a method that the class does not have.
PyObject* absent() {
  static PyObject* const sentinel = PyBaseObject_Type.tp_alloc(&PyBaseObject_Type, 0);
  return sentinel;
}

}  // namespace

const std::vector<PyObject*>& special_names(bool operators) {
  return operators ? operator_names() : protocol_names();
}

PyRef special_methods(PyTypeObject* type, bool operators) {
  const std::vector<PyObject*>& names = special_names(operators);
  PyRef found = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
  for (size_t i = 0; i < names.size(); ++i) {
    PyObject* method = _PyType_Lookup(type, names[i]);
    PyTuple_SET_ITEM(found.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(method ? method : absent()));  // which no class has
  }
  return found;
}

bool has_special_methods(PyTypeObject* type, bool operators, PyObject* expected) {
  const std::vector<PyObject*>& names = special_names(operators);
  for (size_t i = 0; i < names.size(); ++i) {
    PyObject* method = _PyType_Lookup(type, names[i]);
    if ((method ? method : absent()) != PyTuple_GET_ITEM(expected, static_cast<Py_ssize_t>(i)))
      return false;
  }
  return true;
}

}  // namespace fulgurite::python::watching
