// Arguments and results of operators, as Python objects and back. All needs the GIL.
#pragma once

#include <ATen/core/ivalue.h>

#include "watch/py_ref.h"

namespace fulgurite::python {

// `type` is the schema's full type (real_type), which tells a dtype from an int. An empty reference
// with a Python exception set if the value cannot be shown to Python.
PyRef to_python(const c10::IValue& value, const c10::TypePtr& type);

// False with a Python exception (TypeError) set if `object` is not of this type. None for a Tensor
// is an undefined tensor.
bool from_python(PyObject* object, const c10::TypePtr& type, c10::IValue& value);

}  // namespace fulgurite::python
