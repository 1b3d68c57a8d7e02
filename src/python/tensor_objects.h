// Tensors as Python objects.
#pragma once

#include <Python.h>

namespace at {
class Tensor;
}

namespace fulgurite::python {

// Is `object` a tensor that is taken as one (exactly torch.Tensor or torch.nn.Parameter)?
bool is_plain_tensor(PyObject* object);
bool is_any_tensor(PyObject* object);
bool has_attributes(PyObject* object);            // its instance __dict__ is not empty
const at::Tensor& tensor_of(PyObject* object);    // of a tensor object
PyObject* wrap_tensor(const at::Tensor& tensor);  // new reference
bool is_parameter(PyObject* object);              // exactly an nn.Parameter
// ... as an nn.Parameter if that is the type and it is new; a null type is none.
PyObject* wrap_tensor_as(const at::Tensor& tensor, PyObject* type);

}  // namespace fulgurite::python
