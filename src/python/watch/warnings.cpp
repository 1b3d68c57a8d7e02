// `warnings.warn(text, category, stacklevel)`: what it shows can be shown again by each call that
// the program serves, through the filters and registries as they are then (../warning_effect.h).
#include "call.h"

#include <algorithm>

namespace fulgurite::python::watching {
namespace {

// CPython skips the frames of its import machinery.
bool is_internal(PyCodeObject* code) {
  const std::string file = text_of(code->co_filename);
  return file.find("importlib") != std::string::npos &&
         file.find("_bootstrap") != std::string::npos;
}

// Whether the run has changed which warnings are shown.
bool filters_changed(const Recording& r) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "warnings");
  if (module == nullptr || !PyModule_Check(module)) return true;
  PyObject* globals = PyModule_GetDict(module);
  for (const char* name : {"filters", "_filters", "showwarning", "_showwarnmsg", "defaultaction"}) {
    PyRef key = PyRef::steal(PyUnicode_InternFromString(name));
    if (r.was_written(globals, key.get())) return true;
  }
  PyObject* filters = PyDict_GetItemString(globals, "filters");
  return filters == nullptr || r.was_written(filters, Py_Ellipsis);
}

}  // namespace

// The arguments by name; false if they are not those that can be replayed.
bool Call::warning_arguments(PyObject*& message, PyObject*& category,
                             Py_ssize_t& stacklevel) const {
  static const char* const names[] = {"message", "category", "stacklevel", "source"};
  PyObject* given[4] = {};
  const auto named = static_cast<size_t>(arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0);
  const size_t positional = a_.size() - std::min(a_.size(), explicit_from_ + named);
  if (positional > 4) return false;
  for (size_t i = 0; i < positional; ++i) given[i] = a_[explicit_from_ + i];
  bool is_known = true;  // (3.12 has skip_file_prefixes)
  auto set = [&](PyObject* name, PyObject* value) {
    const auto k = std::find(std::begin(names), std::end(names), text_of(name)) - names;
    is_known = is_known && k < 4;
    if (is_known) given[k] = value;
  };
  for (size_t i = 0; i < named; ++i)
    set(PyTuple_GET_ITEM(arguments_.names, static_cast<Py_ssize_t>(i)),
        a_[explicit_from_ + positional + i]);
  if (arguments_.keywords != nullptr) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(arguments_.keywords, &position, &key, &value)) set(key, value);
  }
  if (!is_known || given[0] == nullptr || !PyUnicode_CheckExact(given[0])) return false;
  message = given[0];
  category = given[1] == nullptr || given[1] == Py_None ? PyExc_UserWarning : given[1];
  stacklevel = 1;
  if (given[2] != nullptr) {
    if (!PyLong_CheckExact(given[2])) return false;
    stacklevel = PyLong_AsSsize_t(given[2]);
    if (stacklevel == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
  }
  return stacklevel >= 1 && PyType_Check(category) &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(category),
                          reinterpret_cast<PyTypeObject*>(PyExc_Warning)) &&
         (given[3] == nullptr || given[3] == Py_None);
}

// True if the warning is an effect that is replayed.
bool Call::warn() {
  PyObject *message = nullptr, *category = nullptr;
  Py_ssize_t stacklevel = 1;
  if (name() != "_warnings.warn" || r_.frames.empty() || filters_changed(r_) ||
      !warning_arguments(message, category, stacklevel) ||
      is_internal(code_of(r_.frames.back().frame)))
    return false;
  // The frame that is blamed, or how far it is above the call.
  size_t i = r_.frames.size();
  Py_ssize_t left = stacklevel;
  while (i > 0 && left > 0) {
    --i;
    if (left == stacklevel || !is_internal(code_of(r_.frames[i].frame))) --left;
  }
  PyObject* globals = Py_None;
  PyRef file, line, module;
  if (left == 0) {
    const _PyInterpreterFrame* f = r_.frames[i].frame;
    globals = f->f_globals;
    file = PyRef::borrow(code_of(f)->co_filename);
    line = PyRef::steal(PyLong_FromLong(PyCode_Addr2Line(code_of(f), offset_of(f))));
    PyObject* own = PyDict_GetItemString(globals, "__name__");
    module = own != nullptr && PyUnicode_Check(own)
                 ? PyRef::borrow(own)
                 : PyRef::steal(PyUnicode_FromString("<string>"));
    r_.know(globals, kNoParent);
  }
  mark_warning_registry();
  PyRef where = PyRef::steal(Py_BuildValue("(OOOOn)", category, file ? file.get() : Py_None,
                                           line ? line.get() : Py_None,
                                           module ? module.get() : Py_None, left));
  r_.effect(EffectKind::Warn, globals, where.get(), message,
            "shows a " + describe_object(category));
  return true;
}

}  // namespace fulgurite::python::watching
