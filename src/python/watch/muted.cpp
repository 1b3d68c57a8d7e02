// Frames inside of what is taken as a whole, such as the Python kernel of an operator: their reads
// and writes are not recorded. Should the program read later what they have written, the run has to
// be refused, and that is for the version tags of dicts to notice. So an object whose attributes
// are not in a dict of their own, which has a tag, gets one before it changes.
#include "internals.h"

#include "events.h"

namespace fulgurite::python::watching {
namespace {

// Which object a C function changes, if it changes the attributes of one.
PyObject* first_argument(const Frame& frame) {
  PyObject** end = frame.top - (frame.running.operation == Operation::CallNamed ? 1 : 0);
  PyObject** begin = end - frame.running.argument;
  PyObject* callee = begin[-2] ? begin[-2] : begin[-1];
  PyObject* self = begin[-2] ? begin[-1] : nullptr;
  if (!callee || PyFunction_Check(callee) || PyMethod_Check(callee)) return nullptr;
  return self || begin == end ? self : *begin;
}

PyObject* about_to_change(const Frame& frame) {
  const auto [operation, argument] = frame.running;
  switch (operation) {
    case Operation::StoreAttr:
    case Operation::DeleteAttr:
      return frame.top[-1];
    case Operation::LoadAttr:
      return PyTuple_GET_ITEM(code_of(frame.frame)->co_names, argument) == names().dict
                 ? frame.top[-1]
                 : nullptr;
    case Operation::Call:
    case Operation::CallNamed:
      return first_argument(frame);
    case Operation::CallFunctionEx: {
      PyObject* positional = frame.top[-1 - (argument & 1)];
      return PyTuple_Check(positional) && PyTuple_GET_SIZE(positional) > 0
                 ? PyTuple_GET_ITEM(positional, 0)
                 : nullptr;
    }
    default:
      return nullptr;
  }
}

}  // namespace

void Recording::expect_change(PyObject* object) {
  if (is_simple(object) || is_tensor(object) || PyModule_Check(object) || is_born(object) ||
      Py_TYPE(object)->tp_dictoffset == 0)
    return;
  const PyRef made = PyRef::steal(PyObject_GenericGetDict(object, nullptr));
  if (!made) PyErr_Clear();
  PyObject* dict = instance_dict(object);
  if (dict && PyDict_Check(dict) && !owns_values(dict))
    refuse("changes attributes without memory to watch them");
}

void run_muted_instruction(Recording& r, Frame& frame) {
  PyObject* object = about_to_change(frame);
  if (object == nullptr) return;
  ErrorAside aside;
  r.expect_change(object);
}

}  // namespace fulgurite::python::watching
