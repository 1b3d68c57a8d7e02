#include "warning_effect.h"

#include <frameobject.h>

#include <string_view>

#include "watch/py_ref.h"

namespace fulgurite::python {
namespace {

std::string_view text_of(PyObject* unicode) {
  const char* text =
      unicode != nullptr && PyUnicode_Check(unicode) ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "";
}

bool is_internal(PyFrameObject* frame) {
  PyCodeObject* code = PyFrame_GetCode(frame);
  const std::string_view file = text_of(code->co_filename);
  Py_DECREF(code);
  return file.find("importlib") != std::string_view::npos &&
         file.find("_bootstrap") != std::string_view::npos;
}

// The frame `level` above the call; null if there are not so many.
PyRef frame_above(Py_ssize_t level) {
  PyRef frame = PyRef::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* f = reinterpret_cast<PyFrameObject*>(frame.get());
    if (!is_internal(f) && --level == 0) break;
    frame = PyRef::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(f)));
  }
  return frame;
}

PyRef registry_of(PyObject* globals) {
  PyRef key = PyRef::steal(PyUnicode_InternFromString("__warningregistry__"));
  PyRef registry = PyRef::borrow(PyDict_GetItemWithError(globals, key.get()));
  if (registry || PyErr_Occurred() != nullptr) return registry;
  registry = PyRef::steal(PyDict_New());
  if (!registry || PyDict_SetItem(globals, key.get(), registry.get()) < 0) return {};
  return registry;
}

PyRef module_of(PyObject* globals) {
  PyObject* name = PyDict_GetItemString(globals, "__name__");
  return name != nullptr && PyUnicode_Check(name) ? PyRef::borrow(name)
                                                  : PyRef::steal(PyUnicode_FromString("<string>"));
}

}  // namespace

bool give_warning(PyObject* globals, PyObject* where, PyObject* message) {
  PyObject* category = PyTuple_GET_ITEM(where, 0);
  PyRef file = PyRef::borrow(PyTuple_GET_ITEM(where, 1));
  PyRef line = PyRef::borrow(PyTuple_GET_ITEM(where, 2));
  PyRef module = PyRef::borrow(PyTuple_GET_ITEM(where, 3));
  PyRef holder = PyRef::borrow(globals);
  if (globals == Py_None) {
    const PyRef frame = frame_above(PyLong_AsSsize_t(PyTuple_GET_ITEM(where, 4)));
    if (frame) {
      auto* f = reinterpret_cast<PyFrameObject*>(frame.get());
      PyCodeObject* code = PyFrame_GetCode(f);
      file = PyRef::borrow(code->co_filename);
      Py_DECREF(code);
      line = PyRef::steal(PyLong_FromLong(PyFrame_GetLineNumber(f)));
      holder = PyRef::steal(PyFrame_GetGlobals(f));
    } else {  // as CPython has it for the bottom of the stack
      constexpr bool kNamesNoFile = PY_VERSION_HEX >= 0x030D0000;
      file = PyRef::steal(PyUnicode_FromString(kNamesNoFile ? "<sys>" : "sys"));
      line = PyRef::steal(PyLong_FromLong(kNamesNoFile ? 0 : 1));
      holder = PyRef::borrow(PyModule_GetDict(PyImport_AddModule("sys")));
    }
    module = module_of(holder.get());
  }
  const PyRef registry = registry_of(holder.get());
  const PyRef warnings = PyRef::steal(PyImport_ImportModule("_warnings"));
  if (!registry || !warnings || !file || !line) return false;
  const PyRef shown =
      PyRef::steal(PyObject_CallMethod(warnings.get(), "warn_explicit", "OOOOOO", message, category,
                                       file.get(), line.get(), module.get(), registry.get()));
  return static_cast<bool>(shown);
}

bool warning_may_raise(PyObject* category) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "warnings");
  PyObject* globals =
      module != nullptr && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
  PyObject* filters = globals != nullptr ? PyDict_GetItemString(globals, "filters") : nullptr;
  if (filters == nullptr || !PyList_Check(filters)) return true;
  if (text_of(PyDict_GetItemString(globals, "defaultaction")) == "error") return true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters); ++i) {
    PyObject* filter = PyList_GET_ITEM(filters, i);
    if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) != 5) return true;
    PyObject* of = PyTuple_GET_ITEM(filter, 2);
    if (text_of(PyTuple_GET_ITEM(filter, 0)) == "error" &&
        (!PyType_Check(of) || PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(category),
                                               reinterpret_cast<PyTypeObject*>(of))))
      return true;
  }
  return false;
}

}  // namespace fulgurite::python
