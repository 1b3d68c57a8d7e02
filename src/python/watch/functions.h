// Calls of custom autograd.Functions, and hooks on tensors, as the watcher sees them: who is called
// with what, what the forward tells its context, what comes out. Who watches
// (WatchOptions::functions) is told when a call is over, between the same operators as in the
// program.
#pragma once

#include <Python.h>

#include <string>
#include <utility>
#include <vector>

#include "py_ref.h"

namespace fulgurite::python {

// Something that was done to a context and that its attributes do not show: `ctx.to_save = (x,)`
// (which is what save_for_backward does), or ctx.register_hook(hook).
struct ContextNote {
  PyRef context;
  std::string name;  // of the attribute; "register_hook"
  PyRef value;
};

struct FunctionSeen {
  PyRef function;                  // the class
  PyRef arguments;                 // a tuple
  PyRef result;                    // a tensor, a tuple, or anything else
  std::vector<ContextNote> notes;  // of this call
  bool grad_mode;
};

class FunctionSink {
 public:
  virtual ~FunctionSink() = default;
  // A Function was called. "", or why the run must be refused.
  virtual std::string called(const FunctionSeen& call) = 0;
  // ctx.register_hook(hook) after the call that made ctx. "", or why the run must be refused.
  virtual std::string hooked(PyObject* context, PyObject* hook) = 0;
  // tensor.<method>(hook) begins. "", or why the run must be refused.
  virtual std::string tensor_hooked(PyObject* tensor, PyObject* hook,
                                    const std::string& method) = 0;
  // ... and has returned a handle; null if it raised.
  virtual void hook_registered(PyObject* handle) = 0;
  // The state of the default random generator was read: a tensor.
  virtual void random_state_read(PyObject* state) = 0;
  // What runs between these is computed again in backward (torch.utils.checkpoint).
  virtual void checkpoint_began(bool preserves_random_state) = 0;
  virtual void checkpoint_ended() = 0;
};

namespace watching {

class FunctionWatch {
 public:
  void set_sink(FunctionSink* sink) { sink_ = sink; }
  bool can_record() const { return sink_ != nullptr; }
  FunctionSink* sink() const { return sink_; }

  void begin(PyObject* function, PyRef arguments, bool grad_mode);
  // Whether `object` is a context and the attribute one that its C code keeps.
  static bool is_context(PyObject* object);
  void note(PyObject* context, std::string name, PyObject* value);
  // The innermost call is over: with a result, or (null) with an exception. "", or why the run must
  // be refused.
  std::string end(PyObject* result);

  // The generators of open checkpoints, and how many effects there were when they began.
  std::vector<std::pair<PyObject*, size_t>> checkpoints;
  // A function that is called again in backward, with what its variables hold by then.
  void will_be_called_again(PyObject* function);
  // Whether such a variable holds something else now.
  bool any_rebound() const;

 private:
  FunctionSink* sink_ = nullptr;
  std::vector<FunctionSeen> active_;
  std::vector<std::pair<PyRef, PyRef>> variables_;  // cells of such functions, and their contents
};

}  // namespace watching
}  // namespace fulgurite::python
