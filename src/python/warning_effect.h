// A warning that a recorded call gave, given again: through the filters, hooks and registries of
// the `warnings` module as they are now, and blaming the same line.
#pragma once

#include <Python.h>

namespace fulgurite::python {

// `where`: (category, file, line, module, level). `globals` hold the registry of the line that is
// blamed; if they are None, that line is `level` frames above the call, the caller's being 1.
// False with an exception set: a filter turns the warning into an error.
bool give_warning(PyObject* globals, PyObject* where, PyObject* message);

// Whether a filter might turn warnings of this category into errors: then the program itself has to
// run, since the error belongs in its midst.
bool warning_may_raise(PyObject* category);

}  // namespace fulgurite::python
