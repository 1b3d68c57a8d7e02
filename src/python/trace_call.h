// Running a trace from Python.
#pragma once

#include <Python.h>

#include "ir/trace.h"

namespace fulgurite::python {

// `args`: a tuple with one tensor (or number) per input. Returns a new tuple of outputs, or throws.
PyObject* call_trace(const ir::Trace& trace, PyObject* args);

}  // namespace fulgurite::python
