// Custom autograd.Functions in compiled programs (docs/decisions/0010-functions.md).
//
// While a call is recorded, `FunctionCalls` notes each call of a Function: what the forward left in
// its context. A compiled call does not run the forward: the program has computed its results. It
// applies a class derived from the user's, whose forward only hands over those results and fills
// the context as the recorded one did. So the history is made by eager's own code, and backward is
// the user's, looked up and run when eager would.
#pragma once

#include <Python.h>

#include <torch/csrc/autograd/node.h>

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

// A hook on a tensor that the call registered.
struct TensorHook {
  enum class Kind : uint8_t { Gradient, Accumulated, Retain } kind;
  PyRef tensor;
  PyRef function;                                       // none for retain_grad()
  PyRef handle{};                                       // what register_hook returned
  int boundary = -1;                                    // prims.boundary; -1: on the tensor itself
  c10::intrusive_ptr<torch::autograd::Node> history{};  // of the tensor when it got the hook
};

// The Functions that a call applies, and the hooks that it registers, while it is recorded.
class FunctionCalls : public FunctionSink {
 public:
  explicit FunctionCalls(record::Recorder& recorder) : recorder_(recorder) {}
  std::string called(const FunctionSeen& call) override;
  std::string hooked(PyObject* context, PyObject* hook) override;
  std::string tensor_hooked(PyObject* tensor, PyObject* hook, const std::string& method) override;
  void hook_registered(PyObject* handle) override;
  void random_state_read(PyObject* state) override;
  void checkpoint_began(bool preserves_random_state) override {
    recorder_.begin_checkpoint(preserves_random_state);
  }
  void checkpoint_ended() override { recorder_.end_checkpoint(); }
  // tensor.retain_grad() was called.
  void grad_retained(PyObject* tensor);
  // When the call is over: drops hooks that were removed again. Throws Refusal FG-193 for those
  // that cannot be registered again.
  void settle_hooks();
  // retain_grad() of something that the caller gets: it is about what the tensor is in the end.
  void place_retained(TensorHook& hook);

  std::vector<TensorHook> hooks;
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
  void hooked(int64_t number, const at::Tensor& tensor) const override;
  bool empty() const { return sites_.empty(); }
  int traverse(visitproc visit, void* arg) const;

 private:
  std::vector<FunctionSite> sites_;
};

// What the steps of one run left, by number.
struct StepsOfRun {
  std::vector<PyRef> contexts;     // of Functions: null for those that nothing depends on
  std::vector<at::Tensor> hooked;  // results of boundaries; undefined likewise
};

// They are collected while this exists, on its thread.
class CollectSteps {
 public:
  explicit CollectSteps(StepsOfRun& steps);
  ~CollectSteps();
  CollectSteps(const CollectSteps&) = delete;
  CollectSteps& operator=(const CollectSteps&) = delete;

 private:
  StepsOfRun* outer_;
};

}  // namespace fulgurite::python
