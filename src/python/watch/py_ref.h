// An owning reference to a Python object.
//
// PyRef::borrow(o) takes a new reference, PyRef::steal(o) takes over one that the caller owns.
// Every operation that changes a count needs the GIL.
#pragma once

#include <Python.h>

#include <utility>

namespace fulgurite::python {

class PyRef {
 public:
  PyRef() = default;
  PyRef(const PyRef& other) : object_(other.object_) { Py_XINCREF(object_); }
  PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PyRef() { Py_XDECREF(object_); }

  static PyRef borrow(PyObject* object) {
    Py_XINCREF(object);
    return steal(object);
  }
  static PyRef steal(PyObject* object) {
    PyRef ref;
    ref.object_ = object;
    return ref;
  }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Sets the pending exception aside for the length of a scope.
class ErrorAside {
 public:
  ErrorAside() {
    if (PyErr_Occurred() != nullptr) PyErr_Fetch(&type_, &value_, &trace_);
  }
  ~ErrorAside() {
    if (type_ != nullptr || PyErr_Occurred() != nullptr) PyErr_Restore(type_, value_, trace_);
  }
  ErrorAside(const ErrorAside&) = delete;
  ErrorAside& operator=(const ErrorAside&) = delete;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* trace_ = nullptr;
};

}  // namespace fulgurite::python
