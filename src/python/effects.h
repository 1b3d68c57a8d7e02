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

#include "recipe.h"
#include "watch/watcher.h"

namespace at {
class Tensor;
}

namespace fulgurite::python {

class Effects {
 public:
  // What to replay, without the effects on `.grad` (the program's own). Throws Refusal FG-201 for
  // an effect that cannot be replayed exactly. `result`: the call's; tensors that the program has
  // to give are appended to `tensors` (borrowed).
  static Effects of(Observation& seen, PyObject* result, PyObject* const* args, size_t nargs,
                    std::vector<PyObject*>& tensors);

  bool empty() const { return steps_.empty() && numbers_.empty(); }
  // Before the program runs: computes the numbers. False if a guard on them fails, or if an object
  // that the call writes is one that it takes for another.
  bool prepare(const GuardProgram& guards, PyObject* const* args, size_t nargs,
               const std::vector<PyRef>& slots, std::vector<PyRef>& numbers) const;
  std::string explain_failure(const std::vector<PyRef>& slots) const;
  // After the program has succeeded. The call's result (new reference), or nullptr with an
  // exception set.
  PyObject* commit(const std::vector<at::Tensor>& outputs, PyObject* const* args,
                   const std::vector<PyRef>& slots, const std::vector<PyRef>& numbers) const;
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

  bool write(const Step& step, PyObject* holder, PyObject* value) const;

  Recipe recipe_;
  int result_ = -1;
  std::vector<Step> steps_;
  Arithmetic numbers_;
};

}  // namespace fulgurite::python
