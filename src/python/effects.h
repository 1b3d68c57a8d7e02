// The Python effects of a recorded call, done again by each call that its program serves.
//
// Everything is checked before the program runs, the values are made when it has succeeded, and
// then all writes are done in the order in which the recorded run did them. A list or dict whose
// whole content was guarded is written once, as it was in the end.
#pragma once

#include <Python.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "functions.h"
#include "recipe.h"
#include "watch/watcher.h"

namespace at {
class Tensor;
}

namespace fulgurite::python {

class Effects {
 public:
  // What to replay, without the effects on `.grad` and `requires_grad` (the program's own). Throws
  // Refusal FG-201 for an effect that cannot be replayed exactly. `result`: the call's; tensors and
  // numbers that the program has to give are appended to `outputs` (borrowed). `functions`: the
  // Functions that the call applied, with their contexts, and the hooks that it registered.
  static Effects of(Observation& seen, PyObject* result, PyObject* const* args, size_t nargs,
                    FunctionCalls& functions, std::vector<PyObject*>& outputs);

  bool empty() const { return steps_.empty(); }
  // Before the program runs: false if an object that the call writes is one that it takes for
  // another.
  bool prepare(const GuardProgram& guards, PyObject* const* args, size_t nargs,
               const std::vector<PyRef>& slots) const;
  // After the program has succeeded. The call's result (new reference), or nullptr with an
  // exception set. `steps`: what the run's steps left.
  PyObject* commit(const std::vector<at::Tensor>& outputs, PyObject* const* args,
                   const std::vector<PyRef>& slots, const StepsOfRun& steps) const;
  std::string result_expression() const { return recipe_.expression(result_); }
  std::vector<std::string> describe() const;  // one line per write
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Step {
    enum class Kind : uint8_t {
      SetAttribute,
      DeleteAttribute,
      SetItem,
      DeleteItem,
      SetCell,
      Append,
      SetAdd,
      SetDiscard,
      Warn,
      Print,
      Log,
      WriteAll,
    } kind;
    Locator holder;
    PyRef key;
    int value = -1;
    std::string text;
  };
  struct Maker;
  // What a Function's context holds at the end of the call.
  struct ContextStep {
    int attributes = -1;  // a dict of the recipe
    std::vector<int> hooks;
  };

  // A hook on a tensor. Nodes of the recipe.
  struct HookStep {
    TensorHook::Kind kind;
    int boundary;  // -1: on `tensor`
    int tensor = -1, function = -1, handle = -1;
  };

  void add_contexts(const std::vector<FunctionSite>& functions, Maker& maker);
  bool fill_contexts(Recipe::Making& making, const std::vector<PyRef>& contexts) const;
  void reserve_handles(const FunctionCalls& functions);
  void add_hooks(FunctionCalls& functions, Maker& maker);
  bool register_hooks(Recipe::Making& making, const std::vector<at::Tensor>& hooked) const;
  bool write(const Step& step, PyObject* holder, PyObject* value) const;

  Recipe recipe_;
  int result_ = -1;
  std::vector<Step> steps_;
  std::vector<ContextStep> contexts_;  // by call of a Function
  std::vector<HookStep> hooks_;        // in the order of registration
};

}  // namespace fulgurite::python
