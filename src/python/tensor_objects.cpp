#include "tensor_objects.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>

#include "watch/py_ref.h"

namespace fulgurite::python {
namespace {

PyTypeObject* parameter_type() {
  static PyTypeObject* type = [] {
    PyRef module = PyRef::steal(PyImport_ImportModule("torch.nn.parameter"));
    PyObject* t = module ? PyObject_GetAttrString(module.get(), "Parameter") : nullptr;
    PyErr_Clear();
    return reinterpret_cast<PyTypeObject*>(t);
  }();
  return type;
}

PyTypeObject* tensor_type() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }

}  // namespace

bool is_plain_tensor(PyObject* o) {
  return Py_TYPE(o) == tensor_type() || Py_TYPE(o) == parameter_type();
}
bool has_attributes(PyObject* o) {
  PyObject** dict = _PyObject_GetDictPtr(o);
  return dict != nullptr && *dict != nullptr && PyDict_GET_SIZE(*dict) > 0;
}
bool is_any_tensor(PyObject* o) { return THPVariable_Check(o); }
const at::Tensor& tensor_of(PyObject* o) { return THPVariable_Unpack(o); }
PyObject* wrap_tensor(const at::Tensor& t) { return THPVariable_Wrap(t); }
bool is_parameter(PyObject* o) { return Py_TYPE(o) == parameter_type(); }

PyObject* wrap_tensor_as(const at::Tensor& t, PyObject* type) {
  PyObject* object = THPVariable_Wrap(t);
  const bool other = object != nullptr && type == reinterpret_cast<PyObject*>(parameter_type()) &&
                     Py_TYPE(object) == tensor_type();
  if (!other || PyObject_SetAttrString(object, "__class__", type) == 0) return object;
  Py_DECREF(object);
  return nullptr;
}

}  // namespace fulgurite::python
