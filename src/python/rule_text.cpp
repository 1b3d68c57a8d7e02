#include "rule_text.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>

#include <algorithm>

#include "ir/text.h"
#include "ops/prims.h"
#include "ops/rules.h"
#include "ops/traits.h"
#include "passes/default_rule.h"
#include "structure.h"

namespace fulgurite::python {
namespace {

using c10::IValue;

IValue argument(PyObject* o, const c10::Argument& as) {
  if (o == Py_None) return {};
  if (is_any_tensor(o)) return tensor_of(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyLong_Check(o)) return static_cast<int64_t>(PyLong_AsLongLong(o));
  if (PyUnicode_Check(o)) return std::string(PyUnicode_AsUTF8(o));
  if (THPDtype_Check(o)) return static_cast<int64_t>(reinterpret_cast<THPDtype*>(o)->scalar_type);
  if (THPDevice_Check(o)) return reinterpret_cast<THPDevice*>(o)->device;
  if (PySequence_Check(o) == 0)
    throw rules::RuleError("FG-327", "argument " + as.name() + " has no sample");
  const Py_ssize_t n = PySequence_Size(o);
  std::vector<int64_t> ints;
  c10::List<at::Tensor> tensors;
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* item = PySequence_GetItem(o, k);
    if (is_any_tensor(item)) {
      tensors.push_back(tensor_of(item));
    } else {
      ints.push_back(PyLong_AsLongLong(item));
    }
    Py_XDECREF(item);
  }
  if (tensors.empty()) return ints;
  return tensors;
}

}  // namespace

std::vector<IValue> schema_values(const ir::Op& op, PyObject* arguments) {
  std::vector<IValue> values;
  const auto& schema = op.schema().arguments();
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(arguments); ++k)
    values.push_back(argument(PyTuple_GET_ITEM(arguments, k), schema.at(static_cast<size_t>(k))));
  return values;
}

RuleText default_rule_text(const ir::Op& op, PyObject* arguments) {
  const std::vector<IValue> values = schema_values(op, arguments);
  ir::PrintOptions options;
  options.locations = false;
  PyThreadState* thread = PyEval_SaveThread();  // the engine wants it so
  struct Restore {
    PyThreadState* thread;
    ~Restore() { PyEval_RestoreThread(thread); }
  };
  const passes::DefaultRuleTraces traces = [&] {
    const Restore restore{thread};
    return passes::default_rule_traces(op, values);
  }();
  return {ir::print_python(*traces.augmented_forward, options),
          ir::print_python(*traces.backward, options)};
}

std::vector<std::string> rule_ids() {
  std::vector<std::string> ids;
  for (const c10::OperatorName& n : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = ir::Op::find(n.name, n.overload_name);
    if (!op || (ops::is_mutable(*op) && !(*op == prims::copy_()))) continue;
    const auto& s = op->schema();
    const bool takes = std::any_of(s.arguments().begin(), s.arguments().end(), [](const auto& a) {
      return a.type()->str().find("Tensor") != std::string::npos;
    });
    const bool gives = std::any_of(s.returns().begin(), s.returns().end(), [](const auto& a) {
      return a.type()->str().find("Tensor") != std::string::npos;
    });
    if (takes && gives) ids.push_back(op->id());
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace fulgurite::python
