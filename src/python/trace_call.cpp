#include "trace_call.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "ir/errors.h"
#include "ir/stack.h"
#include "record/recorder.h"
#include "structure.h"
#include "watch/py_ref.h"

namespace fulgurite::python {

PyObject* call_trace(const ir::Trace& t, PyObject* args) {
  const auto given = static_cast<size_t>(PyTuple_GET_SIZE(args));
  if (given != t.inputs.size())
    throw UserError("FG-310", "trace " + t.name + " takes " + std::to_string(t.inputs.size()) +
                                  " inputs, " + std::to_string(given) + " were given");
  std::vector<c10::IValue> env(t.values.size());
  for (size_t i = 0; i < given; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
    if (is_any_tensor(o)) {
      env[t.inputs[i]] = tensor_of(o);
    } else if (PyFloat_Check(o)) {
      env[t.inputs[i]] = PyFloat_AS_DOUBLE(o);
    } else if (PyBool_Check(o)) {
      env[t.inputs[i]] = o == Py_True;
    } else if (PyLong_Check(o)) {
      env[t.inputs[i]] = static_cast<int64_t>(PyLong_AsLongLong(o));
    } else if (o != Py_None) {
      throw UserError("FG-311", "input " + t.value(t.inputs[i]).name + " of trace " + t.name +
                                    " should be a tensor or a number, is " + Py_TYPE(o)->tp_name);
    }
  }
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant) env[id] = t.values[id].constant;
  std::vector<c10::IValue> stack;
  {
    record::Pause pause;
    for (const ir::Bind& b : t.binds) {
      c10::AutoGradMode mode(c10::GradMode::is_enabled() && b.grad_mode);
      ir::run_bind(b, env, stack);
    }
  }
  PyRef out = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(t.outputs.size())));
  for (size_t k = 0; k < t.outputs.size(); ++k) {
    PyObject* o = Py_NewRef(Py_None);
    if (t.outputs[k] != ir::kNoValue && env[t.outputs[k]].isTensor()) {
      Py_DECREF(o);
      o = wrap_tensor(env[t.outputs[k]].toTensor());
    }
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(k), o);
  }
  return out.release();
}

}  // namespace fulgurite::python
