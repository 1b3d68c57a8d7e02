// What a recorded call printed or logged, written again.
#pragma once

#include <Python.h>

#include "watch/py_ref.h"

namespace fulgurite::python {

// Pieces of a text: strings, and tuples of a number and how it is formatted.
bool print_pieces(PyObject* stream, PyObject* pieces, bool flush);

// Whether a record of this logger is handled by code of the standard library only, and goes to
// plain streams (watch/streams.h): nothing that a program could look at changes but what is
// written.
bool logs_plainly(PyObject* logger);

// `where`: (level, file, line, function); `what`: (the pieces of the message, its arguments). False
// with an exception set.
bool log_again(PyObject* logger, PyObject* where, PyObject* what);

}  // namespace fulgurite::python
