#include "rules.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>
#include <torch/custom_class.h>

#include "ops/rules.h"
#include "passes/user_rules.h"
#include "record/recorder.h"
#include "rule_text.h"
#include "run/ruled.h"
#include "structure.h"
#include "watch/py_ref.h"
#include "without_gil.h"

namespace nb = nanobind;

namespace fulgurite::python {
namespace {

using c10::IValue;

PyObject* rule_error = nullptr;  // fulgurite.RuleError

// What a rule does is no part of the program that is being watched.
class Unwatched {
 public:
  Unwatched() : thread_(PyThreadState_Get()) { PyThreadState_EnterTracing(thread_); }
  ~Unwatched() { PyThreadState_LeaveTracing(thread_); }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  PyThreadState* thread_;
};

// The Python error indicator as a C++ exception.
[[noreturn]] void raise_python() {
  python_error error;
  error.persist();
  throw error;
}

// Any Python object as a value that the core only hands on.
struct Opaque : torch::CustomClassHolder {
  explicit Opaque(PyObject* o) : object(Py_NewRef(o)) {}
  ~Opaque() override {
    if (Py_IsInitialized() == 0) return;
    const WithGil gil;
    Py_DECREF(object);
  }
  PyObject* object;
};

template <class List, class F>
PyRef list_of(const List& list, F&& element) {
  PyRef out = PyRef::steal(PyList_New(static_cast<Py_ssize_t>(list.size())));
  Py_ssize_t k = 0;
  for (const auto& e : list) PyList_SET_ITEM(out.get(), k++, element(e).release());
  return out;
}

PyRef to_python(const IValue& v) {
  const auto checked = [](PyObject* o) {
    if (o == nullptr) raise_python();
    return PyRef::steal(o);
  };
  if (v.isNone()) return PyRef::borrow(Py_None);
  if (v.isTensor())
    return v.toTensor().defined() ? checked(wrap_tensor(v.toTensor())) : PyRef::borrow(Py_None);
  if (v.isBool()) return PyRef::borrow(v.toBool() ? Py_True : Py_False);
  if (v.isInt()) return checked(PyLong_FromLongLong(v.toInt()));
  if (v.isDouble()) return checked(PyFloat_FromDouble(v.toDouble()));
  if (v.isComplexDouble()) {
    const auto c = v.toComplexDouble();
    return checked(PyComplex_FromDoubles(c.real(), c.imag()));
  }
  if (v.isString()) return checked(PyUnicode_FromString(v.toStringRef().c_str()));
  if (v.isDevice()) return checked(THPDevice_New(v.toDevice()));
  if (v.isCapsule()) return PyRef::borrow(static_cast<Opaque*>(v.toCapsule().get())->object);
  if (v.isList()) return list_of(v.toListRef(), [](const IValue& e) { return to_python(e); });
  if (v.isTuple())
    return list_of(v.toTupleRef().elements(), [](const IValue& e) { return to_python(e); });
  throw rules::RuleError(
      "FG-324", "an argument of type " + v.tagKind() + " cannot be given to a rule in Python");
}

IValue to_ivalue(PyObject* o) {
  if (o == Py_None) return {};
  if (is_any_tensor(o)) return tensor_of(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    const long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) return static_cast<int64_t>(n);
  }
  return IValue::make_capsule(c10::make_intrusive<Opaque>(o));
}

PyRef tuple_of(const std::vector<IValue>& values) {
  PyRef out = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t k = 0; k < values.size(); ++k)
    PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(k), to_python(values[k]).release());
  return out;
}

PyRef tuple_of(const std::vector<at::Tensor>& tensors) {
  return tuple_of(std::vector<IValue>(tensors.begin(), tensors.end()));
}

std::vector<IValue> values_of(PyObject* sequence) {
  PyRef fast = PyRef::steal(PySequence_Fast(sequence, "expected a sequence"));
  if (!fast) raise_python();
  std::vector<IValue> out;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); ++k)
    out.push_back(to_ivalue(PySequence_Fast_GET_ITEM(fast.get(), k)));
  return out;
}

std::vector<at::Tensor> tensors_in(PyObject* sequence) {
  std::vector<at::Tensor> out;
  for (const IValue& v : values_of(sequence))
    out.push_back(v.isTensor() ? v.toTensor() : at::Tensor());
  return out;
}

// Results of an operator: tensors, or lists of tensors.
std::vector<IValue> results_of(PyObject* sequence) {
  PyRef fast = PyRef::steal(PySequence_Fast(sequence, "expected a sequence"));
  if (!fast) raise_python();
  std::vector<IValue> out;
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(fast.get()); ++k) {
    PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), k);
    if (PyList_Check(item)) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : tensors_in(item)) list.push_back(t);
      out.emplace_back(std::move(list));
    } else {
      out.push_back(to_ivalue(item));
    }
  }
  return out;
}

// A function of fulgurite/rules.py around the user's.
class Callable {
 public:
  explicit Callable(PyObject* function)
      : function_(Py_NewRef(function), [](PyObject* o) {
          if (Py_IsInitialized() == 0) return;
          const WithGil gil;
          Py_DECREF(o);
        }) {}

  // The GIL must be held.
  PyRef operator()(const std::vector<PyRef>& arguments) const {
    const Unwatched unwatched;
    std::vector<PyObject*> raw;
    for (const PyRef& a : arguments) raw.push_back(a.get());
    PyRef result =
        PyRef::steal(PyObject_Vectorcall(function_.get(), raw.data(), raw.size(), nullptr));
    if (!result) raise_python();
    return result;
  }

 private:
  std::shared_ptr<PyObject> function_;
};

rules::AugmentedForward forward_of(const Callable& f) {
  return [f](const std::vector<IValue>& arguments) {
    const WithGil gil;
    const PyRef out = f({tuple_of(arguments)});
    return rules::Augmented{results_of(PyTuple_GET_ITEM(out.get(), 0)),
                            values_of(PyTuple_GET_ITEM(out.get(), 1))};
  };
}

rules::Backward backward_of(const Callable& f) {
  return [f](const std::vector<IValue>& saved, const std::vector<at::Tensor>& cotangents) {
    const WithGil gil;
    return tensors_in(f({tuple_of(saved), tuple_of(cotangents)}).get());
  };
}

rules::Joint joint_of(const Callable& f) {
  return [f](const std::vector<IValue>& arguments, rules::Gradients&) {
    const WithGil gil;
    return results_of(f({tuple_of(arguments)}).get());
  };
}

void set_rule(const std::string& id, const std::string& part, nb::object function,
              const std::string& name) {
  const ir::Op op = rules::op_by_id(id);
  const bool none = function.is_none();
  if (part == "augmented_forward") {
    rules::set_augmented_forward(
        op, none ? rules::AugmentedForward() : forward_of(Callable(function.ptr())), name);
  } else if (part == "backward") {
    rules::set_backward(op, none ? rules::Backward() : backward_of(Callable(function.ptr())), name);
  } else {
    rules::set_joint(op, none ? rules::Joint() : joint_of(Callable(function.ptr())), name);
  }
}

// An operator under a rule while a call is recorded: errors reach Python as what they are.
bool python_hook(const ir::Op& op, std::vector<IValue>& stack, const std::string& where) {
  try {
    return run::apply_user_rule(op, stack, where);
  } catch (const rules::RuleError&) {
    const WithGil gil;
    set_rule_error();
    raise_python();
  }
}

}  // namespace

bool set_rule_error() {
  try {
    throw;
  } catch (python_error& e) {
    e.restore();
    return true;
  } catch (const rules::RuleError& e) {
    PyErr_SetString(rule_error, e.what());
    return true;
  } catch (...) {
    return false;
  }
}

void bind_rules(nb::module_& m) {
  rule_error = nb::exception<rules::RuleError>(m, "RuleError", m.attr("Error").ptr()).ptr();
  record::set_rule_hook(&python_hook);
  m.def("_set_rule", &set_rule, nb::arg("id"), nb::arg("part"), nb::arg("function").none(),
        nb::arg("name"));
  m.def("_op_id", [](const std::string& id) { return rules::op_by_id(id).id(); });
  m.def("_rule_ids", &rule_ids);
  m.def("_dtypes", [] {
    nb::dict out;
    for (int k = 0; k < static_cast<int>(at::ScalarType::NumOptions); ++k) {
      try {
        auto* d = reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(k)));
        out[nb::int_(k)] = nb::borrow(d);
      } catch (const std::exception&) {
        continue;  // has no torch.dtype
      }
    }
    return out;
  });
  m.def("_rule_place", &passes::rule_place);
  m.def("_rules_generation", &rules::generation);
  m.def("_get_grad", [](nb::object result) {
    const at::Tensor g = passes::gradients_of_rule().get_grad(tensor_of(result.ptr()));
    return nb::steal(wrap_tensor(g));
  });
  m.def("_put_grad", [](nb::object argument, nb::object gradient) {
    passes::gradients_of_rule().put_grad(tensor_of(argument.ptr()), tensor_of(gradient.ptr()));
  });
  m.def("_default_augmented_forward", [](const std::string& id, nb::tuple arguments) {
    const std::vector<IValue> values = schema_values(rules::op_by_id(id), arguments.ptr());
    const rules::Augmented a = [&] {
      const nb::gil_scoped_release no_gil;  // the engine wants it so
      return passes::default_augmented_forward(values);
    }();
    return nb::make_tuple(nb::steal(tuple_of(a.results).release()),
                          nb::steal(tuple_of(a.saved).release()));
  });
  m.def("_default_backward", [](nb::tuple saved, nb::tuple cotangents) {
    const std::vector<IValue> values = values_of(saved.ptr());
    const std::vector<at::Tensor> given = tensors_in(cotangents.ptr());
    const std::vector<at::Tensor> gradients = [&] {
      const nb::gil_scoped_release no_gil;
      return passes::default_backward(values, given);
    }();
    return nb::steal(tuple_of(gradients).release());
  });
  // The default rule of an operator for these arguments (schema order), as Python:
  // (augmented forward, backward). Raises RuleError FG-327 if there is none.
  m.def("_default_rule_text", [](const std::string& id, nb::tuple arguments) {
    const RuleText text = default_rule_text(rules::op_by_id(id), arguments.ptr());
    return nb::make_tuple(text.augmented_forward, text.backward);
  });
}

}  // namespace fulgurite::python
