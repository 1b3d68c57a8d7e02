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

void FunctionWatch::will_be_called_again(PyObject* function) {
  if (function == nullptr || !PyFunction_Check(function)) return;
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(function)->func_closure;
  for (Py_ssize_t i = 0; closure != nullptr && i < PyTuple_GET_SIZE(closure); ++i) {
    PyObject* cell = PyTuple_GET_ITEM(closure, i);
    variables_.emplace_back(PyRef::borrow(cell), PyRef::borrow(PyCell_GET(cell)));
  }
}

bool FunctionWatch::any_rebound() const {
  for (const auto& [cell, content] : variables_)
    if (PyCell_GET(cell.get()) != content.get()) return true;
  return false;
}

}  // namespace fulgurite::python::watching
