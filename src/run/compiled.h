// A compiled program: the plan of its functional part, the history that its results get, the plan
// of its epilogue. It knows tensors only; whoever calls it has checked the guards.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ir/trace.h"
#include "passes/pipeline.h"
#include "run/backward_program.h"
#include "run/handover.h"
#include "run/history.h"
#include "run/plan.h"

namespace fulgurite::run {

// What each saved value is, for the autograd node.
struct SavedSlot {
  enum class Kind : uint8_t { Input, Output, Intermediate, Number } kind;
  ir::ValueId value;  // of the forward trace
  // An intermediate that is a copy of this input, which the call overwrites; kNoValue otherwise.
  ir::ValueId copy_of = ir::kNoValue;
  bool has_history = false;  // an intermediate that depends on inputs that require grad
  // An intermediate on the memory of this result: the two share a version counter, as a view and
  // its base do. kNoValue otherwise.
  ir::ValueId counter_of = ir::kNoValue;
};

// One node of the graph.
struct NodeProgram {
  const passes::GradientPart* part;  // of Compiled::parts()
  std::unique_ptr<BackwardProgram> backward;
  std::vector<SavedSlot> saved;
  bool saves_numbers = false;
  bool draws_random_numbers = false;  // the part of the forward, if it is run again
};

// A run that left its program, and what it had computed. Nothing is changed yet but the state of
// the random generator, which is put back when this goes, unless another program goes on from here.
class Interrupted {
 public:
  Interrupted() = default;
  Interrupted(const Interrupted&) = delete;
  Interrupted& operator=(const Interrupted&) = delete;
  ~Interrupted() { put_back(); }

  Frame frame;
  size_t step = 0;              // that failed
  bool at_value_guard = false;  // there; if not, nobody can go on
  uint64_t found = 0;           // by the guard
  at::Tensor random_state;      // at the start of the call, if numbers may have been drawn

  // The call begins anew.
  void put_back();
};

// The epilogue raised: what it wrote before stays, and the call cannot be run again.
struct WriteBackFailed : std::runtime_error {
  explicit WriteBackFailed(const std::string& why)
      : std::runtime_error(
            "a compiled program could not write back what the caller can see (FG-901); what it had "
            "written before stays: " +
            why) {}
};

class Compiled : public std::enable_shared_from_this<Compiled> {
 public:
  using Parts = passes::Lowered;
  // `host`: for the calls of autograd.Functions in the program.
  explicit Compiled(Parts parts, std::shared_ptr<const FunctionHost> host = nullptr);

  // Runs on `inputs` (arguments, then externals, as the trace has them) and `numbers` (the trace's
  // last inputs). False if the data leave the recorded path: `run` then has what was computed.
  // Throws whatever an operator throws, with nothing changed (random state included) unless the
  // epilogue had begun.
  // `from`: how to go on where `run`, of another program, was interrupted (run/handover.h).
  bool run(const at::Tensor* const* inputs, const std::vector<c10::IValue>& numbers,
           std::vector<at::Tensor>& outputs, Interrupted& run,
           const Handover* from = nullptr) const;
  // Whether these are the inputs that the interrupted run had, as far as `from` relies on them.
  bool has_same_inputs(const at::Tensor* const* inputs, const std::vector<c10::IValue>& numbers,
                       const Interrupted& run, const Handover& from) const;

  // Whether a gradient rule that the program depends on has been changed since it was compiled.
  bool stale() const;

  const Parts& parts() const { return parts_; }
  const std::string& name() const { return parts_.forward->name; }
  const Plan& core() const { return *core_; }
  const Plan& epilogue() const { return *epilogue_; }

 private:
  Frame frame_with(const at::Tensor* const* inputs, const std::vector<c10::IValue>& numbers) const;
  bool run_core(Frame& frame, Interrupted& run, const Handover* from) const;
  void finish(Frame& frame, std::vector<at::Tensor>& outputs) const;
  void give_leaves_values_of_their_own(Frame& frame) const;
  struct InputEdges;
  // `written`: something that the caller can see.
  void attach(Frame& frame, const at::Tensor& random_state, bool& written) const;
  void attach_part(size_t part, Frame& frame, const at::Tensor& random_state,
                   const InputEdges& before) const;
  NodeProgram node_program(const passes::GradientPart& part) const;

  Parts parts_;
  mutable std::atomic<uint64_t> rules_generation_;  // up to which the program is known to be fresh
  std::unique_ptr<Plan> core_, epilogue_;
  std::vector<NodeProgram> nodes_;  // by part
  HistoryPlan history_;
  std::vector<size_t> rest_of_epilogue_;  // instructions that no step of the history does
  std::shared_ptr<const FunctionHost> host_;
  std::vector<std::pair<ir::ValueId, at::Tensor>> constants_;
  std::vector<bool> overwritten_;    // by value: an input that the call writes
  bool keeps_random_state_ = false;  // for another forward under create_graph
};

}  // namespace fulgurite::run
