// The recorder writes down every operator that a program runs, while it runs for real.
//
// How it listens: a boxed fallback on one dispatch key above autograd (recorder_key()), switched on
// for the recording thread alone by including the key in its thread-local key set. The fallback
// notes the operator and its arguments, redispatches below itself, and notes the results. Composite
// operators are redispatched with the key still on, so that their parts come back here: they become
// regions.
//
// How it knows tensors: by TensorImpl, held weakly (so that nothing lives longer than in eager, and
// no address is used twice while recording). A new TensorImpl on a known storage with known
// geometry is the same value (autograd unpacks saved tensors so); with its own version counter it
// is `prims.data`. A tensor that nobody introduced is an *external*: the caller of `finish` must
// know where it comes from, or refuse.
//
// What it cannot record soundly stops the recording with a reason; the program is not disturbed.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/errors.h"
#include "ir/trace.h"
#include "record/numbers.h"

namespace fulgurite::record {

// Where the program is, asked once per operator. Must be cheap; may return an empty file.
struct Position {
  std::string file;
  int line = 0;
  std::string module;  // path of the module whose forward is running, "" if none
};
using PositionProvider = Position (*)();

struct External {
  at::Tensor tensor;
  ir::ValueId value;
  // Index of the input or external whose .grad this tensor is, -1 if none.
  int32_t grad_of = -1;
  // The input or external that is a view of it (its `_base`), if nothing else explains it; -1:
  // none.
  int32_t base_of = -1;
};

// An input on memory that another input has too and the program writes.
struct SharedInput {
  ir::ValueId value;
  bool is_view = false;  // to autograd, of the one input that is the base of all
  bool is_base = false;
  bool own_version = false;  // writes through it are not counted for the base, or the first of them
  bool is_restricted =
      false;  // a view that eager does not let be written (made under no_grad, by split, ...)
  bool is_transformed = false;  // conjugate or negative
};

// A leaf that was there before the run, and whether it had a .grad then.
struct LeafGrad {
  at::Tensor leaf;
  bool defined_before;  // when the program came upon it
};

// A call of a custom autograd.Function that gave its outputs a history.
struct FunctionCall {
  std::string name;
  std::vector<at::Tensor> inputs;   // tensors among the arguments, in order
  std::vector<at::Tensor> outputs;  // tensors among what it returned, in order
  std::vector<at::Tensor> saved;    // for backward, in order
  std::vector<at::Tensor> dirty;    // mark_dirty
};

struct Recording {
  ir::TracePtr trace;               // inputs: those added, then the externals, then `numbers`
  std::vector<External> externals;  // in the order in which they are inputs
  std::vector<int> numbers;         // nodes of Recorder::numbers that are inputs, in order
  std::vector<LeafGrad> leaves;
  std::vector<SharedInput> shared;
  std::vector<ir::ValueId> views;  // inputs that are views to autograd, of whatever
  std::optional<Refusal> refusal;  // the trace is absent then
  size_t operators = 0;            // how many leaf operators ran
};

class Recorder {
 public:
  // Without `where` it records no program of a user's (a rule is derived): users' rules do not
  // hold.
  explicit Recorder(std::string name, PositionProvider where = nullptr);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Introduces a tensor that the program receives. The same TensorImpl twice gives the same value.
  ir::ValueId add_input(const at::Tensor& tensor, const std::string& name);

  // The program runs inside a Scope, on the thread that made it. Scopes nest with those of other
  // recorders: the innermost records, the outer ones see nothing (their callers refuse).
  class Scope {
   public:
    explicit Scope(Recorder& recorder);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Recorder* outer_;
    bool outer_included_;
  };

  // In-place operators on leaves that require grad: with this they are given their functional
  // meaning (ops/open_leaf.h) instead of eager's error.
  void open_leaves();
  // Writes a leaf back in another way than the program did: takes the value and the leaf, returns
  // what the caller gets; undefined if it is as the program has it.
  using WriteBack = std::function<at::Tensor(const at::Tensor& value, const at::Tensor& leaf)>;
  // To be called when the program is over, inside no Scope. Those of `outputs` that are an opened
  // leaf, or a view of one with a history, are replaced by tensors that hold the program's value.
  void close_leaves(std::vector<at::Tensor>& outputs, const WriteBack& write_back = {});
  // Where a leaf was first written, e.g. "train.py:31: aten.mul_".
  const std::vector<std::string>& leaf_writes() const;

  // Stops the recording with a reason; the first one counts.
  void refuse(const std::string& code, const std::string& message);

  // Python is about to read or set leaf.grad: what it is now is what the call found.
  void note_grad_access(const at::Tensor& leaf);
  // Python set t.requires_grad.
  // Another tensor on its memory comes into being without an operator (`.data`).
  void note_alias(const at::Tensor& tensor) { note_requires_grad(tensor); }
  void note_requires_grad(const at::Tensor& t);
  // Python set leaf.grad: what it is at the end is written by the trace, whatever it was.
  void note_grad_write(const at::Tensor& leaf);

  // A custom Function was called; its operators are recorded already. The number of the call
  // (prims.function), or -1 if it cannot be recorded (the recording is refused then).
  int note_function(const FunctionCall& call);
  // Hooks are registered on what the tensor is now, which the call has made: a place for them
  // (prims.boundary), by number; -1 if it cannot be recorded.
  int note_boundary(const at::Tensor& t);
  // Nothing is registered there after all.
  void drop_boundary(int number);
  // Whether the call made the tensor, as far as it is known.
  bool is_made_here(const at::Tensor& t);
  // Whether the call has given memory of the tensor new contents with a history.
  bool is_written_with_grad(const at::Tensor& t) const;
  // Something that is no operator read the state of the default generator (prims.random_state).
  void note_random_state(const at::Tensor& state);
  // What torch.utils.checkpoint computes again in backward begins, and ends.
  void begin_checkpoint(bool preserves_random_state);
  void end_checkpoint();
  // Something that is no operator bumped the version counter of t (mark_dirty without a history).
  void note_version_bump(const at::Tensor& t);

  // What Python does with numbers (record/numbers.h).
  Numbers& numbers();
  Mark mark() const;
  // The one number that was read out of a tensor since then, if it is this value; else -1.
  int read_number(Mark since, const c10::IValue& value);
  // The one number that was read out of this tensor since then; else -1.
  int read_number_of(Mark since, const at::Tensor& tensor);
  // Since then one operator was called with these numbers.
  void use_numbers(Mark since, const std::vector<NumberPlace>& places);
  void check_number(int comparison);

  // Whether the tensor was recorded as another one that has the same memory: right for what
  // autograd and `.data` make in the call, wrong for a tensor that was there before it.
  bool is_known_by_memory(const at::Tensor& tensor) const;

  // The externals so far, and names for them (they are "external<k>" otherwise).
  const std::vector<External>& externals() const;
  void name_external(size_t index, std::string name);

  // Outputs of the program, flat; an undefined tensor stands for None.
  Recording finish(const std::vector<at::Tensor>& outputs, std::string output_template);

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Users' rules (ops/rules.h) hold while a call is recorded, too: an operator that has one is run by
// the hook, which returns false if the operator is to run as usual.
using RuleHook = bool (*)(const ir::Op& op, std::vector<c10::IValue>& stack,
                          const std::string& where);
void set_rule_hook(RuleHook hook);

// Inside it users' rules hold for what runs eagerly on this thread; nothing is recorded. Does
// nothing where no rule is registered, or a recording goes on.
class UnderRules {
 public:
  explicit UnderRules(PositionProvider where = nullptr);
  ~UnderRules();
  UnderRules(const UnderRules&) = delete;
  UnderRules& operator=(const UnderRules&) = delete;

 private:
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Recorder::Scope> scope_;
};

// Is a recording going on on this thread?
bool recording();
// Switches recording off on this thread for a while (compiled parts called by a recorded program
// ...).
class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  bool excluded_before_;
};

// Registers the fallback; throws UserError FG-002 if another library has taken the key. Called
// once.
void install();
// Records and replays a small program; returns "" or what went wrong.
std::string self_test();
const char* key_name();

}  // namespace fulgurite::record
