// What the watcher tells about numbers: floats and ints that come from outside or out of tensors,
// the arithmetic on them, and the operators that take them. The receiver (the recorder) hands out a
// node for each; a node that is *fixed* is guarded by its exact value.
#pragma once

#include <Python.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fulgurite::python {

// How far the recording of operators is.
struct NumberMark {
  size_t operators = 0;
  size_t regions = 0;
};

// Where a number stands in a call of an operator.
struct NumberInCall {
  int node = -1;
  int position = -1;  // among the positional arguments, a tensor's method's self included
  std::string keyword;
  int element = -1;         // in a list
  bool is_operand = false;  // of a Python operator whose other operand is a tensor
};

class NumberSink {
 public:
  virtual ~NumberSink() = default;
  virtual NumberMark mark() const = 0;
  virtual int input(PyObject* number, const std::string& path) = 0;
  virtual int constant(PyObject* number) = 0;
  // The number that was read out of a tensor since then; -1 if it is not this one.
  virtual int read(NumberMark since, PyObject* number) = 0;
  // All of a tensor's, in order, -1 for what is no number (bools are guarded); false if it cannot
  // be done.
  virtual bool read_all(PyObject* tensor, size_t count, std::vector<int>& nodes) = 0;
  // "float_add" and so on (ops/number_prims.h); -1 if the result is not that of the operator.
  virtual int calculate(const char* what, int a, int b, PyObject* result) = 0;
  // As `calculate`, for a comparison that decides what the program does: it is guarded.
  virtual bool decide(const char* what, int a, int b, bool outcome) = 0;
  virtual void use(NumberMark since, const std::vector<NumberInCall>& places) = 0;
  // Tensors without dimensions that were given since then where an operator may take a number.
  virtual void use_tensors(NumberMark since, const std::vector<NumberInCall>& places,
                           const std::vector<PyObject*>& tensors) = 0;
  virtual void fix(int node) = 0;
  virtual bool is_free(int node) const = 0;
  virtual bool any_fixed() const = 0;
};

}  // namespace fulgurite::python
