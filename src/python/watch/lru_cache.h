// What functools.lru_cache keeps in C, read without calling it. A call that finds its result there
// runs nothing: the result is all that it depends on.
#pragma once

#include <Python.h>

#include "py_ref.h"

namespace fulgurite::python::watching {

// The dict of results, borrowed; null if `object` is not laid out as CPython 3.11 does it.
PyObject* lru_cache_dict(PyObject* object);
// The key under which a call's result is kept: positional arguments, then keywords (a dict or
// null). Null if an argument cannot be hashed without running Python code.
PyRef lru_cache_key(PyObject* object, PyObject* positional, PyObject* keywords);
// The result that is kept under `key`, borrowed; null if there is none.
PyObject* lru_cached_result(PyObject* object, PyObject* key);

}  // namespace fulgurite::python::watching
