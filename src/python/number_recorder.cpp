#include "number_recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <cctype>

#include "ir/errors.h"
#include "ops/number_prims.h"
#include "ops/prims.h"
#include "structure.h"
#include "without_gil.h"

namespace fulgurite::python {

using c10::IValue;

IValue number_value(PyObject* number) {
  if (number == nullptr) return {};
  if (PyFloat_CheckExact(number)) return PyFloat_AS_DOUBLE(number);
  if (!PyLong_CheckExact(number)) return {};
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0) return {};
  return static_cast<int64_t>(v);
}

std::string identifier(const std::string& path) {
  std::string name;
  for (char c : path) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  for (const char* prefix : {"self_", "closure_", "globals_"})
    if (name.rfind(prefix, 0) == 0) name = name.substr(std::string(prefix).size());
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0]))) name = "_" + name;
  return name.empty() ? "external" : name;
}

at::Tensor number_tensor(PyObject* number) {
  const bool is_float = PyFloat_CheckExact(number);
  const at::Scalar value = is_float ? at::Scalar(PyFloat_AS_DOUBLE(number))
                                    : at::Scalar(static_cast<int64_t>(PyLong_AsLongLong(number)));
  return at::full({}, value, is_float ? at::kDouble : at::kLong);
}

at::Tensor number_output(record::Recorder& recorder, PyObject* number, int node) {
  const record::Recorder::Scope scope(recorder);
  const record::Mark since = recorder.mark();
  at::Tensor output = number_tensor(number);
  recorder.use_numbers(since, {record::NumberPlace{node, 1}});
  if (!recorder.numbers().is_free(node))
    throw InternalError("a number that the program gives is not its own");
  return output;
}

PyObject* number_in(const at::Tensor& output) {
  if (output.scalar_type() == at::kDouble)
    return PyFloat_FromDouble(*output.const_data_ptr<double>());
  return PyLong_FromLongLong(*output.const_data_ptr<int64_t>());
}

NumberMark NumberRecorder::mark() const {
  const record::Mark m = recorder_.mark();
  return {m.binds, m.regions};
}

int NumberRecorder::input(PyObject* number, const std::string& path) {
  return recorder_.numbers().input(number_value(number), identifier(path));
}

int NumberRecorder::constant(PyObject* number) {
  return recorder_.numbers().constant(number_value(number));
}

int NumberRecorder::read(NumberMark since, PyObject* number) {
  return recorder_.read_number({since.operators, since.regions}, number_value(number));
}

// What tolist() read out of sight is read again, element by element, where the recorder sees it.
bool NumberRecorder::read_all(PyObject* tensor, size_t count, std::vector<int>& nodes) {
  constexpr size_t kMostElements = 64;
  const at::Tensor& t = tensor_of(tensor);
  if (count > kMostElements || static_cast<size_t>(t.numel()) != count || t.is_complex() ||
      t.layout() != at::kStrided || t.is_quantized())
    return false;
  const at::NoGradGuard no_grad;
  const at::Tensor flat = count > 0 ? t.reshape({-1}) : t;
  for (size_t i = 0; i < count; ++i) {
    const record::Mark since = recorder_.mark();
    const at::Scalar value = flat.select(0, static_cast<int64_t>(i)).item();
    if (value.isBoolean()) {
      nodes.push_back(-1);
      continue;
    }
    const IValue number =
        value.isFloatingPoint() ? IValue(value.toDouble()) : IValue(value.toLong());
    nodes.push_back(recorder_.read_number(since, number));
    if (nodes.back() < 0) return false;
  }
  return true;
}

// Runs the calculation on the recorded values: only if it gives what Python got is it the same.
int NumberRecorder::node(const char* what, int a, int b, const IValue& result) {
  const auto op = prims::calculation(what);
  if (!op || a < 0) return -1;
  record::Numbers& numbers = recorder_.numbers();
  std::vector<IValue> stack{numbers.value(a)};
  if (b >= 0) stack.push_back(numbers.value(b));
  if (op->schema().arguments().size() != stack.size()) return -1;
  try {
    record::Pause pause;
    op->handle().callBoxed(&stack);
  } catch (const prims::ValueGuardFailed&) {
    return -1;
  }
  const bool same = result.isBool() ? stack[0].toBool() == result.toBool()
                                    : record::same_number(stack[0], result);
  return same ? numbers.calculate(*op, a, b, result) : -1;
}

int NumberRecorder::calculate(const char* what, int a, int b, PyObject* result) {
  return node(what, a, b, number_value(result));
}

bool NumberRecorder::decide(const char* what, int a, int b, bool outcome) {
  const int decision = node(what, a, b, IValue(outcome));
  if (decision < 0) return false;
  recorder_.check_number(decision);
  return true;
}

void NumberRecorder::use(NumberMark since, const std::vector<NumberInCall>& places) {
  std::vector<record::NumberPlace> list;
  for (const NumberInCall& p : places)
    list.push_back({p.node, p.position, p.keyword, p.element, p.is_operand});
  const WithoutGil no_gil;  // a gradient rule may be derived
  recorder_.use_numbers({since.operators, since.regions}, list);
}

void NumberRecorder::use_tensors(NumberMark since, const std::vector<NumberInCall>& places,
                                 const std::vector<PyObject*>& tensors) {
  std::vector<record::NumberPlace> list;
  for (size_t i = 0; i < places.size(); ++i) {
    const int node =
        recorder_.read_number_of({since.operators, since.regions}, tensor_of(tensors[i]));
    if (node >= 0) list.push_back({node, places[i].position, places[i].keyword});
  }
  if (list.empty()) return;
  const WithoutGil no_gil;
  recorder_.use_numbers({since.operators, since.regions}, list);
}

void NumberRecorder::fix(int n) { recorder_.numbers().fix(n); }

bool NumberRecorder::is_free(int n) const { return recorder_.numbers().is_free(n); }

bool NumberRecorder::any_fixed() const {
  for (const record::Numbers::Node& n : recorder_.numbers().nodes())
    if (n.fixed) return true;
  return false;
}

}  // namespace fulgurite::python
