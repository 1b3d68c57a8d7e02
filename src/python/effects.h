// The Python effects of a recorded call, done again by each call that its program serves.
//
// Everything is checked and computed before the program runs, the values are made when it has
// succeeded, and then all writes are done in the order in which the recorded run did them. A list
// or dict whose whole content was guarded is written once, as it was in the end.
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

// A number from outside: an argument, or what a guard finds.
struct NumberInput {
  int32_t argument = -1;
  int64_t guard = -1;
};

// A number that is an attribute of the context of a Function's call.
struct NumberInContext {
  size_t call;
  PyRef name;
  NumberInput number;
};

class Effects {
 public:
  // What to replay, without the effects on `.grad` (the program's own). Throws Refusal FG-201 for
  // an effect that cannot be replayed exactly. `result`: the call's; tensors that the program has
  // to give are appended to `tensors` (borrowed).
  // `functions`: the Functions that the call applied, with their contexts.
  static Effects of(Observation& seen, PyObject* result, PyObject* const* args, size_t nargs,
                    const std::vector<FunctionSite>& functions,
                    std::vector<NumberInContext> context_numbers, std::vector<PyObject*>& tensors);

  bool empty() const { return steps_.empty() && numbers_.empty(); }
  // Before the program runs: computes the numbers. False if a guard on them fails, or if an object
  // that the call writes is one that it takes for another.
  bool prepare(const GuardProgram& guards, PyObject* const* args, size_t nargs,
               const std::vector<PyRef>& slots, std::vector<PyRef>& numbers) const;
  std::string explain_failure(const std::vector<PyRef>& slots) const;
  // After the program has succeeded. The call's result (new reference), or nullptr with an
  // exception set. `contexts`: of the Functions that the run applied (ContextsOfRun);
  // `numbers_in_contexts`: what context_numbers() are now.
  PyObject* commit(const std::vector<at::Tensor>& outputs, PyObject* const* args,
                   const std::vector<PyRef>& slots, const std::vector<PyRef>& numbers,
                   const std::vector<PyRef>& contexts,
                   const std::vector<PyObject*>& numbers_in_contexts) const;
  const std::vector<NumberInContext>& context_numbers() const { return context_numbers_; }
  std::string result_expression() const { return recipe_.expression(result_); }
  std::vector<std::string> describe() const;  // one line per write
  std::vector<std::string> number_guards() const;
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

  void add_contexts(const std::vector<FunctionSite>& functions, Maker& maker);
  bool fill_contexts(Recipe::Making& making, const std::vector<PyRef>& contexts,
                     const std::vector<PyObject*>& numbers) const;
  bool write(const Step& step, PyObject* holder, PyObject* value) const;

  Recipe recipe_;
  int result_ = -1;
  std::vector<Step> steps_;
  std::vector<ContextStep> contexts_;  // by call of a Function
  std::vector<NumberInContext> context_numbers_;
  Arithmetic numbers_;
};

}  // namespace fulgurite::python
