// The watcher: runs a Python callable once, for real, and reports what the run depended on and did.
//
//   guards     every fact about Python state, alive before the call, that the run consulted;
//              `check()` says in about a microsecond whether all of them still hold
//   effects    the writes to objects that outlive the call, in program order
//   refusals   why the run must not be reused, in the words of the program
//   tensors    the tensors that the program reached through Python rather than through its
//   arguments
//
// What the caller must guard itself: the identity of the callable and of the arguments that are no
// containers, the structure of the containers named in WatchOptions, tensors' metadata (type,
// shape, dtype, requires_grad, no instance `__dict__`, ...), and torch's global modes.
// docs/watcher.md says how it works; start reading the code at watch.cpp. All functions need the
// GIL unless they say otherwise.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "functions.h"
#include "number_sink.h"
#include "py_ref.h"

namespace fulgurite::python {

struct SourceLocation {
  std::string file;
  int line = 0;
};

struct Refusal {
  std::string what;
  SourceLocation where;
};

enum class EffectKind {
  SetAttr,
  DelAttr,
  SetItem,
  DelItem,
  SetGlobal,
  DelGlobal,
  SetCell,     // value is null when the cell is emptied
  TensorAttr,  // `t.grad = g`, `t.requires_grad = b`, `t.anything = x`; a null value deletes
  Mutate,      // any other change of a container; key is the method's name, value its arguments
  Backward,    // runs the autograd engine, which may accumulate into the `.grad` of leaves
  Warn,        // warnings.warn; holder: the globals of the line it blames, key: which (see
               // ../warning_effect.h), value: the text
  Print,       // writes text to a stream; holder: which (null: sys.stdout as it is then), key:
               // (whether it flushes, the text without numbers), value: texts, and tuples of a
               // number and its format, in order
  Log,         // Logger._log; holder: the logger, key and value: see ../output_effect.h
  Io,          // other logging, other warnings and writes to streams; value: the arguments
  Other,
};

const char* effect_kind_name(EffectKind kind);

// A write to an object that outlives the call.
struct Effect {
  EffectKind kind;
  PyRef holder;
  PyRef key;
  PyRef value;
  std::string text;
  SourceLocation where;
  bool fresh = false;  // TensorAttr only: the holder was made by the call and may not outlive it
  bool whole = false;  // the container was guarded as a whole before its first change
};

// A pre-existing tensor that the program reached through Python; an argument is listed only if the
// program found it in Python state as well. Borrowed: the guard program keeps the tensor alive.
// `attribute_grad`: the program read its `.grad` (the holder is given here, not the gradient).
struct TensorRead {
  PyObject* tensor;
  std::string path;
  bool attribute_grad;
  int slot = -1;  // it is whatever the guards find there (then nothing keeps it alive)
};

// A number from outside, which each call finds anew: in a slot, or through GuardProgram::number.
struct NumberRead {
  int node;
  int slot = -1;
  int64_t guard = -1;
};

struct GuardInfo {
  std::string kind;
  std::string expression;
  std::string reason;
};

namespace watching {
class GuardTable;
}

class GuardProgram {
 public:
  GuardProgram();
  explicit GuardProgram(std::unique_ptr<watching::GuardTable> table);
  GuardProgram(GuardProgram&&) noexcept;
  GuardProgram& operator=(GuardProgram&&) noexcept;
  ~GuardProgram();

  // Finds the objects that differ from call to call, and checks what is known about them. `slots`
  // begins with the arguments that are followed (WatchOptions) and gets the rest.
  bool resolve(std::vector<PyRef>& slots) const;
  // Whether everything else the recorded run read is as it was. Runs no Python code.
  bool check();
  // The same, without what `held` says too, all of which has just held.
  bool check_beside(const GuardProgram& held);
  // Gives every fact a number (not 0); those that `like` has too get the numbers that they have
  // there.
  void number_facts(const GuardProgram* like);
  uint32_t number_of(size_t fact) const;
  uint32_t failed() const;  // the number of the fact that failed last; 0 if it has none
  bool has_fact(uint32_t number) const;
  // Where a recording that follows what it finds instead of fixing it would serve a call that this
  // program does not; "" if that is not known to help.
  std::string changing_place(const std::vector<PyRef>& given) const;
  // Whether a fact about this very object is part of the program.
  bool holds_facts_about(PyObject* object) const;
  size_t size() const;
  std::vector<GuardInfo> describe() const;
  // The first guard that fails now with its old and new value; empty if all hold.
  std::string explain_failure(const std::vector<PyRef>& given = {});
  // The number that a guard of Observation::numbers finds now: borrowed, null if it is gone.
  PyObject* number(uint32_t guard) const;
  // The places of numbers that have another value now.
  std::vector<std::string> varied() const;
  // For the tp_traverse of the Python object that owns this program: guards hold strong references.
  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  std::unique_ptr<watching::GuardTable> table_;
};

// What a watched run came across, older than itself. Owns the objects.
class KnownObjects {
 public:
  KnownObjects() = default;
  KnownObjects(KnownObjects&& other) noexcept : objects_(std::move(other.objects_)) {
    other.objects_.clear();
  }
  KnownObjects& operator=(KnownObjects&& other) noexcept {
    std::swap(objects_, other.objects_);
    return *this;
  }
  ~KnownObjects() {
    for (auto& [object, parent] : objects_) Py_DECREF(object);
  }
  // Takes over the references.
  explicit KnownObjects(std::unordered_map<PyObject*, int>&& objects)
      : objects_(std::move(objects)) {}
  bool contains(PyObject* object) const { return objects_.count(object) != 0; }

 private:
  std::unordered_map<PyObject*, int> objects_;
};

struct Observation {
  GuardProgram guards;
  KnownObjects known;
  std::unordered_map<PyObject*, int> slots;  // objects that the guards find anew in each call
  std::vector<std::string> changed;          // places to follow in the next recording
  std::vector<Effect> effects;
  std::vector<Refusal> refusals;
  // Python functions and nn.Modules that the run called and in which nothing was refused; none of
  // them was called from another one.
  std::vector<PyRef> pure_parts;
  std::vector<TensorRead> tensors;
  bool asked_for_gradients = false;  // the program read requires_grad or the like of some tensor
  size_t opcodes = 0;
  // Nodes whose numbers are read anew for each call, and where.
  std::vector<NumberRead> numbers;
  // The objects which are numbers of the program, and their nodes. They are owned by
  // `number_owners`.
  std::unordered_map<PyObject*, int> number_objects;
  std::vector<PyRef> number_owners;
};

struct WatchOptions {
  // Argument containers (list, tuple, dict, nested) that the caller guards by structure: reads
  // inside them need no guard, writes to them are effects.
  std::vector<PyObject*> argument_structure;
  // Arguments, or objects in argument containers, that differ from call to call: the caller checks
  // their type and puts them into the first slots. Reads inside them are guarded by path.
  std::vector<PyObject*> followed;
  // Places whose content differs from call to call, as Observation::changed and changing_place name
  // them.
  const std::unordered_set<std::string>* places = nullptr;
  // Called before the program reads or sets the `.grad` of a tensor that was there before the call.
  void (*on_grad_access)(PyObject* tensor, void* context) = nullptr;
  // Called before the program sets `requires_grad` of such a tensor.
  void (*on_requires_grad)(PyObject* tensor, void* context) = nullptr;
  // Called before another tensor on the memory of this one comes into being without an operator.
  void (*on_alias)(PyObject* tensor, void* context) = nullptr;
  void* context = nullptr;  // of the three
  // Gets what becomes of numbers; null: numbers are guarded by value.
  NumberSink* numbers = nullptr;
  // Is told of calls of custom autograd.Functions; null: they refuse the run.
  FunctionSink* functions = nullptr;
  // Numbers read from these places (as GuardProgram::varied names them) are followed.
  const std::unordered_set<std::string>* varying = nullptr;
  // Arguments that are followed: objects that nobody else has, and their nodes.
  std::vector<std::pair<PyObject*, int>> number_arguments;
};

// Calls `callable` (vectorcall convention) under watch. Returns a new reference, or null with the
// program's own exception set; `out` is filled in both cases. Called while a watch is active on
// this thread it only calls through.
PyObject* watch(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                const WatchOptions& options, Observation& out);

// Whether this interpreter can be watched now.
bool watcher_supported(std::string* why_not);

// Offsets of the instructions of a code object that would refuse a run, whatever they work on.
std::vector<int> unknown_instructions(PyObject* code);

// Whether a watch is active on this thread.
bool watching_now();

// The innermost frame of this thread outside torch, fulgurite and the standard library, else the
// innermost of all. `module_path`, if given, gets the path or class of the innermost nn.Module
// whose method is running ("self.layers.0.linear1"; empty outside modules). Needs no GIL if this
// thread has a Python thread state and is inside a call from Python.
SourceLocation current_location(std::string* module_path);

}  // namespace fulgurite::python
