// One call that is recorded while it runs, and what becomes of it: an entry, or a counted reason.
#pragma once

#include <Python.h>

#include <memory>
#include <string>

#include "jit_function.h"
#include "record/recorder.h"

namespace fulgurite::python {

// Runs the call under the recorder and the watcher and returns its result (a new reference, or
// nullptr with the program's exception set); the entry goes into `state.entries`. `beside`: the
// entry that served the call up to where its data took another path; may be null.
PyObject* record_call(PyObject* self, JitState& state, PyObject* const* args, size_t nargsf,
                      PyObject* kwnames, const std::shared_ptr<Entry>& beside);

// Where the program is; what the recorder asks.
record::Position program_position();

// Tells the listener (logging); its errors are not the caller's.
void tell(PyObject* self, const char* event, const std::string& detail);
// Sets fulgurite.CompileError; returns nullptr.
PyObject* raise_compile_error(const std::string& code, const std::string& reason);

}  // namespace fulgurite::python
