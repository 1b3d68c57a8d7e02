// Calls that have to do with custom autograd.Functions (functions.h).
#include "call.h"

namespace fulgurite::python::watching {

// What torch's C code reads of the class; forward and setup_context are watched when they run.
void Call::apply_function(PyObject* function) {
  read_values(false);
  if (function == nullptr) return;
  for (const char* name : {"_backward_cls", "forward", "setup_context"}) {
    PyRef interned = PyRef::steal(PyUnicode_InternFromString(name));
    r_.read_attribute(function, interned.get());
  }
  const bool grad = grad_mode();
  if (grad && !r_.functions.can_record())
    return r_.refuse("applies " + describe_object(function) +
                     ", a custom autograd.Function: its backward is Python code");
  if (grad && frame_.frame == nullptr)
    return r_.refuse("is the apply of " + describe_object(function));
  r_.functions.begin(function, tuple_of(a_, 1), grad);
  frame_.function_call = true;
}

std::string why_no_hook(const Recording& r, PyObject* hook) {
  if (!PyFunction_Check(hook) || !r.is_born(hook)) return "";
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(hook)->func_closure;
  for (Py_ssize_t i = 0; closure != nullptr && i < PyTuple_GET_SIZE(closure); ++i)
    if (!r.is_born(PyTuple_GET_ITEM(closure, i)))
      return "registers a hook that shares a variable with code outside the call";
  return "";
}

// A hook on a context of this call: it is registered again. A closure of the call is made again,
// over variables of the call.
void Call::hook_node(PyObject* node, PyObject* hook) {
  if (node == nullptr || hook == nullptr) return;
  if (const std::string shared = why_no_hook(r_, hook); !shared.empty()) return r_.refuse(shared);
  const bool can = r_.functions.can_record() && r_.is_born(node);
  const std::string why =
      can ? r_.functions.sink()->hooked(node, hook) : "registers a hook on the autograd graph";
  if (!why.empty()) r_.refuse(why);
}

}  // namespace fulgurite::python::watching
