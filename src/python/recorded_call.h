// One call that is recorded while it runs, and what becomes of it: an entry, or a counted reason.
#pragma once

#include <Python.h>

#include <string>

#include "jit_function.h"

namespace fulgurite::python {

// Runs the call under the recorder and the watcher and returns its result (a new reference, or
// nullptr with the program's exception set); the entry goes into `state.entries`.
PyObject* record_call(PyObject* self, JitState& state, PyObject* const* args, size_t nargsf,
                      PyObject* kwnames);

// The function itself, uncompiled; users' gradient rules hold all the same.
PyObject* call_eagerly(const JitState& state, PyObject* const* args, size_t nargsf,
                       PyObject* kwnames);

// Tells the listener (logging); its errors are not the caller's.
void tell(PyObject* self, const char* event, const std::string& detail);
// Sets fulgurite.CompileError; returns nullptr.
PyObject* raise_compile_error(const std::string& code, const std::string& reason);

}  // namespace fulgurite::python
