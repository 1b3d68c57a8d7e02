#include "functions.h"

#include "values.h"

namespace fulgurite::python::watching {

void FunctionWatch::begin(PyObject* function, PyRef arguments, bool grad_mode) {
  active_.push_back({PyRef::borrow(function), std::move(arguments), {}, {}, grad_mode});
}

bool FunctionWatch::is_context(PyObject* object) {
  PyTypeObject* base = known_types().function_base;
  return base != nullptr && PyType_IsSubtype(Py_TYPE(object), base);
}

void FunctionWatch::note(PyObject* context, std::string name, PyObject* value) {
  if (active_.empty()) return;
  active_.back().notes.push_back({PyRef::borrow(context), std::move(name), PyRef::borrow(value)});
}

std::string FunctionWatch::end(PyObject* result) {
  if (active_.empty()) return "";
  FunctionSeen call = std::move(active_.back());
  active_.pop_back();
  if (result == nullptr || sink_ == nullptr) return "";
  call.result = PyRef::borrow(result);
  return sink_->called(call);
}

}  // namespace fulgurite::python::watching
