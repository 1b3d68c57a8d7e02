// Tells the recorder what the watcher sees of numbers.
#pragma once

#include "record/recorder.h"
#include "watch/number_sink.h"

namespace fulgurite::python {

class NumberRecorder : public NumberSink {
 public:
  explicit NumberRecorder(record::Recorder& recorder) : recorder_(recorder) {}
  NumberMark mark() const override;
  int input(PyObject* number, const std::string& path) override;
  int constant(PyObject* number) override;
  int read(NumberMark since, PyObject* number) override;
  bool read_all(PyObject* tensor, size_t count, std::vector<int>& nodes) override;
  int calculate(const char* what, int a, int b, PyObject* result) override;
  bool decide(const char* what, int a, int b, bool outcome) override;
  void use(NumberMark since, const std::vector<NumberInCall>& places) override;
  void use_tensors(NumberMark since, const std::vector<NumberInCall>& places,
                   const std::vector<PyObject*>& tensors) override;
  void fix(int node) override;
  bool is_free(int node) const override;
  bool any_fixed() const override;

 private:
  int node(const char* what, int a, int b, const c10::IValue& result);
  record::Recorder& recorder_;
};

// An exact float or int of 64 bits; None for anything else.
c10::IValue number_value(PyObject* number);
// A number as a tensor without dimensions, computed by the program that is recorded, so that it can
// be one of its outputs; and the number in it again (new reference).
at::Tensor number_output(record::Recorder& recorder, PyObject* number, int node);
PyObject* number_in(const at::Tensor& output);
at::Tensor number_tensor(PyObject* number);
// A path as a Python identifier: "self.opt.lr" -> "opt_lr".
std::string identifier(const std::string& path);

}  // namespace fulgurite::python
