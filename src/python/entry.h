// One compiled specialisation of a function, with all that must hold for it to be used.
#pragma once

#include <Python.h>

#include <memory>
#include <string>
#include <vector>

#include "effects.h"
#include "modes.h"
#include "run/branch_tree.h"
#include "run/tensor_guard.h"
#include "structure.h"
#include "watch/watcher.h"

namespace fulgurite::python {

// A guard in words: where it comes from and what it says.
struct GuardLine {
  std::string kind;
  std::string expression;
  std::string reason;
};

// A tensor that the guards look at: one of the arguments' tensors, one that differs from
// call to call, or a fixed one.
struct TensorRef {
  int32_t argument = -1;
  int32_t slot = -1;  // what the guards find there
  at::Tensor fixed;
  const at::Tensor& get(const std::vector<const at::Tensor*>& arguments,
                        const std::vector<PyRef>& slots) const {
    if (slot >= 0) return tensor_of(slots[static_cast<size_t>(slot)].get());
    return argument >= 0 ? *arguments[static_cast<size_t>(argument)] : fixed;
  }
};

// An input of the program that is no argument.
struct External {
  bool is_grad = false;  // it is the .grad of `tensor`
  bool is_base = false;  // it is the ._base of `tensor`
  TensorRef tensor;
  std::string path;  // how the program reached it
};

// The metadata of a tensor that the guards find anew in each call.
struct SlotGuard {
  int32_t slot;
  run::TensorGuard guard;
  std::string path;
};

// A number that is an input of the program: an argument, what a guard finds, or what is in a slot.
struct NumberInput {
  int32_t argument = -1;
  int64_t guard = -1;
  int32_t slot = -1;
};

struct GradGuard {
  TensorRef leaf;
  bool defined;  // whether leaf.grad was a tensor when the recorded call began
};

class Entry : public run::Branch {
 public:
  Modes modes;
  ArgumentStructure arguments;
  std::vector<run::TensorGuard> tensors;  // arguments' tensors, then externals
  std::vector<size_t>
      argument_positions;   // the arguments' tensors that are inputs: a tensor given twice is one
  run::AliasGuard aliases;  // over arguments' tensors (all of them), then externals
  bool check_aliases = false;
  bool writes_leaves = false;  // that require grad, in place
  std::vector<External> externals;
  std::vector<GradGuard> grads;
  // Arguments that are also reached through Python state: they must be the very same tensor again.
  std::vector<std::pair<size_t, const void*>> fixed_arguments;
  std::vector<NumberInput> numbers;
  GuardProgram python;
  std::vector<SlotGuard> slot_tensors;
  Effects effects;
  bool has_effects = false;                          // beside the result, which they make
  uint64_t geometry = 0;                             // of the tensors in slots: a hash
  std::shared_ptr<const PythonFunctions> functions;  // that the program applies; null: none

  // Whether the call may be served. Then `inputs` are the program's inputs; `scratch` keeps alive
  // those that are made for the call, and `slots` has the objects that differ from call to call.
  // `held`: an entry that has just been found to hold; what both read of Python's state is not
  // looked at again.
  bool check(PyObject* const* args, size_t nargs, PyObject* kwnames, const Modes& now,
             std::vector<const at::Tensor*>& inputs, std::vector<at::Tensor>& scratch,
             std::vector<PyRef>& slots, const Entry* held = nullptr);
  // The fact about Python's state for which `check` said no; 0 if it was something else. Other
  // entries that have it (GuardProgram::has_fact) would say no as well.
  uint32_t refused_by() const { return refused_by_; }
  // How often `check` looked at everything that the program read of Python's state.
  uint64_t checks() const { return checks_; }
  // Takes its place in the tree of `beside`, which was left because of the data (null: a tree of
  // its own), if its program asks about data at all.
  static void plant(const std::shared_ptr<Entry>& entry, const Entry* beside);
  // After a successful check and run: does the effects, makes the result (new reference, or nullptr
  // with an exception set). `steps`: what its steps left.
  PyObject* finish(const std::vector<at::Tensor>& outputs, PyObject* const* args,
                   const std::vector<PyRef>& slots, const StepsOfRun& steps) const;
  // A place to follow in a new recording because this entry does not serve the call; "" if none.
  std::string place_to_follow(PyObject* const* args, size_t nargs, PyObject* kwnames);
  // The numbers among the program's inputs, once the guards hold; false if one is gone.
  bool read_numbers(PyObject* const* args, const std::vector<PyRef>& slots,
                    std::vector<c10::IValue>& values) const;
  // Where numbers are that are others than the recorded ones.
  std::vector<std::string> varied(PyObject* const* args, size_t nargs, PyObject* kwnames) const;
  // The first guard that fails, in words; "" if all hold.
  std::string explain_failure(PyObject* const* args, size_t nargs, PyObject* kwnames,
                              const Modes& now);
  std::vector<GuardLine> guard_lines() const;
  std::vector<std::string> tensor_paths;  // one per tensor guard

 private:
  // All tensors that guards look at: those of the arguments, then the externals.
  bool gather(const std::vector<PyObject*>& args, const std::vector<PyRef>& slots,
              std::vector<const at::Tensor*>& all, std::vector<at::Tensor>& scratch) const;
  void drop_repeated(std::vector<const at::Tensor*>& all) const;
  bool refuses_by_fact() {
    refused_by_ = python.failed();
    return false;
  }
  // Where each input of the program comes from.
  std::vector<std::string> places() const;
  bool find_objects(PyObject* const* args, size_t nargs, PyObject* kwnames,
                    std::vector<PyRef>& slots);
  std::vector<PyObject*> matched_;
  std::vector<PyObject*> followed_;
  uint32_t refused_by_ = 0;
  uint64_t checks_ = 0;
};

}  // namespace fulgurite::python
