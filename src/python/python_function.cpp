#include "python_function.h"

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>
#include <torch/csrc/Exceptions.h>

#include "boxed_values.h"
#include "ir/schema_args.h"
#include "py_trace.h"
#include "structure.h"
#include "watch/py_ref.h"

namespace nb = nanobind;

namespace fulgurite::python {

PyObject* executor_error = nullptr;
PyObject* base_error = nullptr;

namespace {

// The GIL, from any thread.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

// A callable that may be let go of on any thread, also when Python is over.
class Callable {
 public:
  explicit Callable(PyObject* object) : object_(Py_NewRef(object)) {}
  ~Callable() {
    if (Py_IsInitialized() == 0) return;
    const Gil gil;
    Py_DECREF(object_);
  }
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

[[noreturn]] void throw_python_error() {
  python_error error;
  error.persist();
  throw error;  // NOLINT: a copy carries the exception on
}

PyRef checked(PyObject* object) {
  if (object == nullptr) throw_python_error();
  return PyRef::steal(object);
}

class Function : public exec::Implementation {
 public:
  Function(PyObject* callable, const c10::FunctionSchema& schema)
      : callable_(callable), schema_(schema) {}

  void run(std::vector<c10::IValue>& stack) const override {
    const Gil gil;
    const auto& arguments = schema_.arguments();
    size_t positional = 0;
    while (positional < arguments.size() && !arguments[positional].kwarg_only()) ++positional;
    PyRef args = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(positional)));
    PyRef kwargs;
    if (positional < arguments.size()) kwargs = PyRef::steal(PyDict_New());
    for (size_t i = 0; i < arguments.size(); ++i) {
      PyRef value = to_python(stack[i], arguments[i].real_type());
      if (!value) throw_python_error();
      if (i < positional) {
        PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), value.release());
      } else if (PyDict_SetItemString(kwargs.get(), arguments[i].name().c_str(), value.get()) < 0) {
        throw_python_error();
      }
    }
    stack.clear();
    const PyRef result = checked(PyObject_Call(callable_.get(), args.get(), kwargs.get()));
    const auto& returns = schema_.returns();
    if (returns.size() == 1) return push(result.get(), returns[0].real_type(), stack);
    if (returns.empty()) return;
    PyRef items = checked(PySequence_Fast(result.get(),
                                          "an operator with several results returned "
                                          "no tuple"));
    const auto given = static_cast<size_t>(PySequence_Fast_GET_SIZE(items.get()));
    if (given != returns.size()) {
      PyErr_Format(PyExc_ValueError, "returned %zu results, the schema has %zu", given,
                   returns.size());
      throw_python_error();
    }
    for (size_t i = 0; i < given; ++i)
      push(PySequence_Fast_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i)),
           returns[i].real_type(), stack);
  }

 private:
  static void push(PyObject* object, const c10::TypePtr& type, std::vector<c10::IValue>& stack) {
    c10::IValue value;
    if (!from_python(object, type, value)) throw_python_error();
    stack.push_back(std::move(value));
  }

  Callable callable_;
  c10::FunctionSchema schema_;
};

class Kernel : public exec::Implementation {
 public:
  explicit Kernel(PyObject* callable) : callable_(callable) {}

  void run(std::vector<c10::IValue>& stack) const override {
    const Gil gil;
    const std::vector<at::Tensor> inputs = stack.back().toTensorVector();
    stack.clear();
    PyRef args = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(inputs.size())));
    for (size_t i = 0; i < inputs.size(); ++i)
      PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), wrap_tensor(inputs[i]));
    const PyRef result = checked(PyObject_Call(callable_.get(), args.get(), nullptr));
    c10::List<at::Tensor> outputs;
    auto add = [&](PyObject* o) {
      if (!is_any_tensor(o)) {
        PyErr_Format(PyExc_TypeError, "a kernel returns tensors, this one %s", Py_TYPE(o)->tp_name);
        throw_python_error();
      }
      outputs.push_back(tensor_of(o));
    };
    if (is_any_tensor(result.get())) {
      add(result.get());
    } else {
      PyRef items = checked(PySequence_Fast(result.get(), "a kernel returns a tensor or a tuple"));
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
        add(PySequence_Fast_GET_ITEM(items.get(), i));
    }
    stack.emplace_back(std::move(outputs));
  }

 private:
  Callable callable_;
};

PyObject* value_type() {
  static PyObject* type = [] {
    PyRef module = checked(PyImport_ImportModule("fulgurite.extend"));
    return checked(PyObject_GetAttrString(module.get(), "Value")).release();
  }();
  return type;
}

PyRef int_tuple(const ir::Dims& dims) {
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(dims.size())));
  for (size_t i = 0; i < dims.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
  return tuple;
}

// What a checker sees of a value: a Value, or the type of a number that is known only at run time.
PyRef shown(const ir::Trace& t, ir::ValueId id) {
  if (id == ir::kNoValue) return PyRef::borrow(Py_None);
  const ir::Value& v = t.value(id);
  if (!v.is_tensor()) {
    switch (std::get<ir::ScalarKind>(v.type)) {
      case ir::ScalarKind::Int:
        return PyRef::borrow(reinterpret_cast<PyObject*>(&PyLong_Type));
      case ir::ScalarKind::Bool:
        return PyRef::borrow(reinterpret_cast<PyObject*>(&PyBool_Type));
      case ir::ScalarKind::Complex:
        return PyRef::borrow(reinterpret_cast<PyObject*>(&PyComplex_Type));
      default:
        return PyRef::borrow(reinterpret_cast<PyObject*>(&PyFloat_Type));
    }
  }
  const ir::TensorType& type = v.tensor();
  const PyRef dtype =
      to_python(c10::IValue(static_cast<int64_t>(type.dtype)), c10::ScalarTypeType::get());
  const PyRef device = to_python(c10::IValue(type.device), c10::DeviceObjType::get());
  return checked(PyObject_CallFunction(value_type(), "sOOOOO", v.name.c_str(),
                                       int_tuple(type.sizes).get(), int_tuple(type.strides).get(),
                                       dtype.get(), device.get(),
                                       type.requires_grad ? Py_True : Py_False));
}

PyRef shown(const ir::Trace& t, const ir::Arg& arg, const c10::Argument& argument) {
  if (const auto* id = std::get_if<ir::ValueId>(&arg)) return shown(t, *id);
  if (const auto* constant = std::get_if<c10::IValue>(&arg)) {
    PyRef object = to_python(*constant, argument.real_type());
    if (!object) throw_python_error();
    return object;
  }
  PyRef list = PyRef::steal(PyList_New(0));
  for (ir::ValueId id : std::get<ir::ValueList>(arg)) PyList_Append(list.get(), shown(t, id).get());
  return list;
}

}  // namespace

exec::ImplementationPtr python_function(PyObject* callable, const c10::FunctionSchema& schema) {
  return std::make_shared<Function>(callable, schema);
}

exec::ImplementationPtr python_kernel(PyObject* callable) {
  return std::make_shared<Kernel>(callable);
}

exec::Checker python_checker(PyObject* callable) {
  return [held = std::make_shared<Callable>(callable)](const exec::Candidate& c) {
    const Gil gil;
    const auto& arguments = c.op.schema().arguments();
    PyRef args = PyRef::steal(PyList_New(0));
    PyRef kwargs = PyRef::steal(PyDict_New());
    for (size_t i = 0; i < c.args.size(); ++i) {
      const PyRef value = shown(c.trace, c.args[i], arguments[i]);
      if (arguments[i].kwarg_only())
        PyDict_SetItemString(kwargs.get(), arguments[i].name().c_str(), value.get());
      else
        PyList_Append(args.get(), value.get());
    }
    const PyRef verdict =
        checked(PyObject_CallFunctionObjArgs(held->get(), args.get(), kwargs.get(), nullptr));
    int takes = 0;
    const char* reason = "";
    if (PyArg_ParseTuple(verdict.get(), "ps", &takes, &reason) == 0) throw_python_error();
    return exec::Verdict{takes != 0, reason};
  };
}

exec::Fuse python_fuse(PyObject* callable) {
  return [held = std::make_shared<Callable>(callable)](
             const ir::TracePtr& group, std::string& reason) -> exec::ImplementationPtr {
    const Gil gil;
    nb::object trace = nb::cast(PyTrace{group, group->stage, 0});
    const PyRef kernel = checked(PyObject_CallFunctionObjArgs(held->get(), trace.ptr(), nullptr));
    if (kernel.get() == Py_None) return nullptr;
    if (PyUnicode_Check(kernel.get())) {
      reason = PyUnicode_AsUTF8(kernel.get());
      return nullptr;
    }
    if (PyCallable_Check(kernel.get()) == 0) {
      PyErr_Format(PyExc_TypeError, "fuse returned %s, which cannot be called",
                   Py_TYPE(kernel.get())->tp_name);
      throw_python_error();
    }
    return python_kernel(kernel.get());
  };
}

void raise_executor_error(const exec::ExecutorError& error) {
  PyErr_SetString(executor_error, error.what());
  if (error.cause == nullptr) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  try {
    std::rethrow_exception(error.cause);
  } catch (python_error& e) {
    e.restore();
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    PyErr_NormalizeException(&t, &v, &tb);
    if (tb != nullptr) PyException_SetTraceback(v, tb);
    PyException_SetCause(value, v);  // takes the reference
    Py_XDECREF(t);
    Py_XDECREF(tb);
  } catch (...) {
    // Its message is in ours.
  }
  PyErr_Restore(type, value, trace);
}

void raise_failure(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const exec::ExecutorError& e) {
    raise_executor_error(e);
  } catch (const std::exception& e) {
    PyErr_SetString(base_error, e.what());
  }
}

}  // namespace fulgurite::python
