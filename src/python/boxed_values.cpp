#include "boxed_values.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "structure.h"

namespace fulgurite::python {
namespace {

using Kind = c10::TypeKind;

c10::TypePtr strip_optional(const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

PyRef number(const c10::Scalar& s) {
  if (s.isBoolean()) return PyRef::borrow(s.toBool() ? Py_True : Py_False);
  if (s.isIntegral(false)) return PyRef::steal(PyLong_FromLongLong(s.toLong()));
  if (s.isFloatingPoint()) return PyRef::steal(PyFloat_FromDouble(s.toDouble()));
  const auto z = s.toComplexDouble();
  return PyRef::steal(PyComplex_FromDoubles(z.real(), z.imag()));
}

PyRef list_to_python(const c10::IValue& value, const c10::TypePtr& element) {
  const auto items = value.toListRef();
  PyRef list = PyRef::steal(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) {
    PyRef item = to_python(items[i], element);
    if (!item) return {};
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return list;
}

bool wrong_type(PyObject* object, const c10::TypePtr& type) {
  PyErr_Format(PyExc_TypeError, "found %s where the schema has %s", Py_TYPE(object)->tp_name,
               type->str().c_str());
  return false;
}

}  // namespace

PyRef to_python(const c10::IValue& value, const c10::TypePtr& declared) {
  const c10::TypePtr type = strip_optional(declared);
  if (value.isNone()) return PyRef::borrow(Py_None);
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    return t.defined() ? PyRef::steal(wrap_tensor(t)) : PyRef::borrow(Py_None);
  }
  if (value.isInt()) {
    const int64_t i = value.toInt();
    if (type->kind() == Kind::ScalarTypeType)
      return PyRef::borrow(
          reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(i))));
    if (type->kind() == Kind::LayoutType)
      return PyRef::borrow(
          reinterpret_cast<PyObject*>(torch::getTHPLayout(static_cast<at::Layout>(i))));
    if (type->kind() == Kind::MemoryFormatType)
      return PyRef::borrow(torch::utils::getTHPMemoryFormat(static_cast<at::MemoryFormat>(i)));
  }
  if (value.isScalar()) return number(value.toScalar());
  if (value.isString()) return PyRef::steal(PyUnicode_FromString(value.toStringRef().c_str()));
  if (value.isDevice()) return PyRef::steal(THPDevice_New(value.toDevice()));
  if (value.isList()) {
    auto list = type->cast<c10::ListType>();
    return list_to_python(value, list ? list->getElementType() : type);
  }
  PyErr_Format(PyExc_TypeError, "an argument of kind %s cannot be shown to Python",
               value.tagKind().c_str());
  return {};
}

bool from_python(PyObject* object, const c10::TypePtr& declared, c10::IValue& value) {
  const bool optional = declared->kind() == Kind::OptionalType;
  const c10::TypePtr type = strip_optional(declared);
  if (object == Py_None) {
    if (type->kind() == Kind::TensorType) {
      value = optional ? c10::IValue() : c10::IValue(at::Tensor());
      return true;
    }
    value = c10::IValue();
    return optional || wrong_type(object, declared);
  }
  switch (type->kind()) {
    case Kind::TensorType:
      if (!is_any_tensor(object)) return wrong_type(object, declared);
      value = tensor_of(object);
      return true;
    case Kind::BoolType:
      if (!PyBool_Check(object)) return wrong_type(object, declared);
      value = object == Py_True;
      return true;
    case Kind::IntType:
    case Kind::SymIntType:
      if (!PyLong_Check(object)) return wrong_type(object, declared);
      value = static_cast<int64_t>(PyLong_AsLongLong(object));
      return PyErr_Occurred() == nullptr;
    case Kind::FloatType:
    case Kind::NumberType:
      if (PyBool_Check(object)) {
        value = object == Py_True;
      } else if (PyLong_Check(object) && type->kind() == Kind::NumberType) {
        value = static_cast<int64_t>(PyLong_AsLongLong(object));
      } else if (PyFloat_Check(object) || PyLong_Check(object)) {
        value = PyFloat_AsDouble(object);
      } else {
        return wrong_type(object, declared);
      }
      return PyErr_Occurred() == nullptr;
    case Kind::ListType: {
      const c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
      PyRef items = PyRef::steal(PySequence_Fast(object, "found no sequence"));
      if (!items) return false;
      c10::impl::GenericList list(element);
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        c10::IValue item;
        if (!from_python(PySequence_Fast_GET_ITEM(items.get(), i), element, item)) return false;
        list.push_back(std::move(item));
      }
      value = std::move(list);
      return true;
    }
    default:
      return wrong_type(object, declared);
  }
}

}  // namespace fulgurite::python
