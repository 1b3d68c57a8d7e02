// Text streams whose writing runs code of the standard library only, so that nothing a program
// could look at changes but what is written.
#pragma once

#include <Python.h>

namespace fulgurite::python {

// An io.StringIO, or an io.TextIOWrapper over a file or bytes, open and with methods of its own
// class.
bool is_plain_stream(PyObject* stream);

// Whether such a stream will take the text.
bool can_write(PyObject* stream, PyObject* text);

}  // namespace fulgurite::python
