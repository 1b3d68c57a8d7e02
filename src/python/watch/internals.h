// The one place that sees CPython's internal headers (3.11): frames, free lists, dict keys.
//
// Include it first: Py_BUILD_CORE has to be set before Python.h. The internal headers want C11
// atomics, which C++20 lacks; without HAVE_STD_ATOMIC they fall back to compiler builtins of the
// same layout.
#pragma once

#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "the watcher is written for CPython 3.11"
#endif
#undef HAVE_STD_ATOMIC
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>

namespace fulgurite::python::watching {

inline bool has_only_str_keys(PyObject* dict) {
  return reinterpret_cast<PyDictObject*>(dict)->ma_keys->dk_kind != DICT_KEYS_GENERAL;
}

}  // namespace fulgurite::python::watching
