// fulgurite.jit's result: a callable that records its first calls and serves later ones from
// compiled programs. The hit path is one vectorcall: guards, plan, results; everything else is
// behind it.
#pragma once

#include <Python.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "entry.h"
#include "entry_cache.h"
#include "exec/executor.h"
#include "run/back_off.h"
#include "watch/intercept.h"

namespace fulgurite::python {

struct JitOptions {
  bool fullgraph = false;  // raise instead of falling back
  bool caching = true;
  bool reinplace = true;
  bool check_results = false;       // of every plan (run/result_check.h)
  bool functional_leaves = false;   // leaf_inplace="functional"
  bool write_back_at_once = false;  // skip_inplace_functionalization
  size_t max_entries = 256;
  size_t max_branches = 128;          // programs behind one set of guards, told apart by data
  exec::ExecutorList executors = {};  // in order; complete (exec/registry.h)
};

struct Fallback {
  std::string code;
  std::string reason;
  uint64_t count = 0;
};

struct JitState {
  PyRef callable;
  std::string name;
  JitOptions options;
  EntryCache entries;
  uint64_t evicted_unused = 0;  // programs that made room for others before they served a call
  uint64_t hits = 0;
  uint64_t misses = 0;
  std::vector<Fallback> fallbacks;
  // Where numbers were found that were others in an earlier call: they are inputs of later
  // programs, as far as they are only used as numbers.
  std::unordered_set<std::string> varying;
  std::vector<std::string> recompiles;  // why each entry after the first was made
  // Parts of a program that is refused as a whole; each substitute is a JitFunction.
  std::vector<Part> parts;
  // Places whose content differs from call to call (watch/follow.cpp).
  std::unordered_set<std::string> places;
  std::string last_failure;
  run::BackOff back_off;
  double last_record_milliseconds = 0;
  // What was registered with executors when the entries were made: of all, and of ours.
  uint64_t seen_generation = 0, executors_generation = 0;

  // Drops the programs if an executor of ours has changed since they were made.
  void follow_executors();

  // Counts it; true if this reason is new.
  bool fall_back(const std::string& code, const std::string& reason);
};

// Creates the type; called once by the module.
PyObject* jit_function_type();
PyObject* new_jit_function(PyObject* callable, std::string name, JitOptions options);
// Runs the function's own Python code, with the parts of it that are compiled.
PyObject* call_eagerly(const JitState& state, PyObject* const* args, size_t nargsf,
                       PyObject* kwnames);
// The state of a JitFunction, or nullptr (no exception) if the object is none.
JitState* jit_state(PyObject* object);

// The exception type fulgurite.CompileError, set by the module.
extern PyObject* compile_error;
// Called as hook(jit_function, event, detail) at "compiled", "fallback" (a new reason) and
// "recompile"; may be null.
extern PyObject* event_hook;

}  // namespace fulgurite::python
