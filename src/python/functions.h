// Custom autograd.Functions in compiled programs (docs/decisions/0010-functions.md).
//
// While a call is recorded, `FunctionCalls` notes each call of a Function: what the forward left in
// its context. A compiled call does not run the forward: the program has computed its results. It
// applies a class derived from the user's, whose forward only hands over those results and fills
// the context as the recorded one did. So the history is made by eager's own code, and backward is
// the user's, looked up and run when eager would.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "record/recorder.h"
#include "run/function_host.h"
#include "watch/functions.h"

namespace fulgurite::python {

// One call of a Function in a program.
struct FunctionSite {
  PyRef function;                    // the user's class
  std::vector<int> arguments;        // of apply: the number of the tensor, or -1
  std::vector<int> outputs;          // of forward: the number of the tensor, or -1
  std::vector<int> saved;            // by save_for_backward: the number of the tensor, -1: None
  std::vector<bool> differentiable;  // by tensor among the outputs
  std::vector<std::pair<std::string, PyRef>> flags;  // attributes such as materialize_grads
  PyRef replay;                                      // the class that is applied
  PyRef context;                                     // of the recorded call; only while recording
  std::vector<PyRef> hooks;                          // registered on it; only while recording
};

// The Functions that a call applies while it is recorded.
class FunctionCalls : public FunctionSink {
 public:
  explicit FunctionCalls(record::Recorder& recorder) : recorder_(recorder) {}
  std::string called(const FunctionSeen& call) override;
  std::string hooked(PyObject* context, PyObject* hook) override;

  // By the number of the call (prims.function).
  std::vector<FunctionSite> sites;

 private:
  void count_dirty(const FunctionSeen& seen);
  record::Recorder& recorder_;
};

class PythonFunctions : public run::FunctionHost {
 public:
  // Throws Refusal FG-190 if a class cannot be derived from.
  explicit PythonFunctions(std::vector<FunctionSite> sites);
  ~PythonFunctions() override;
  std::vector<at::Tensor> give_history(int64_t call,
                                       const run::FunctionTensors& tensors) const override;
  bool empty() const { return sites_.empty(); }
  int traverse(visitproc visit, void* arg) const;

 private:
  std::vector<FunctionSite> sites_;
};

// The contexts that the Functions of one run got, by call: null for those that nothing depends on.
// They are collected while this exists, on its thread.
class ContextsOfRun {
 public:
  explicit ContextsOfRun(std::vector<PyRef>& contexts);
  ~ContextsOfRun();
  ContextsOfRun(const ContextsOfRun&) = delete;
  ContextsOfRun& operator=(const ContextsOfRun&) = delete;

 private:
  std::vector<PyRef>* outer_;
};

}  // namespace fulgurite::python
