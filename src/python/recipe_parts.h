// What taking values apart and putting them together share.
#pragma once

#include <Python.h>

#include <vector>

#include "recipe.h"
#include "watch/values.h"

namespace fulgurite::python {

inline bool is_heap(PyTypeObject* type) { return watching::is_heap_type(type); }

// The builtin class that decides how instances are laid out.
PyTypeObject* builtin_base(PyTypeObject* type);

// Immutable objects of which any equal one will do, and those that exist once.
bool is_constant(PyObject* o);
bool is_constant_key(PyObject* key, const ObjectFinder& finder);

// An object of C code that its class makes from a few arguments: a slice, a functools.partial.
bool is_builtin_object(PyObject* o);

PyRef tuple_of(const std::vector<PyRef>& items);

}  // namespace fulgurite::python
