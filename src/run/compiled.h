// A compiled program: the plan of its functional part, the history that its results get, the plan
// of its epilogue. It knows tensors only; whoever calls it has checked the guards.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/trace.h"
#include "passes/pipeline.h"
#include "run/backward_program.h"
#include "run/plan.h"

namespace fulgurite::run {

// What each saved value is, for the autograd node.
struct SavedSlot {
  enum class Kind : uint8_t { Input, Output, Intermediate, Number } kind;
  ir::ValueId value;  // of the forward trace
  // An intermediate that is a copy of this input, which the call overwrites; -1 otherwise.
  int32_t copy_of = -1;
  bool has_history = false;  // an intermediate that depends on inputs that require grad
};

class Compiled : public std::enable_shared_from_this<Compiled> {
 public:
  using Parts = passes::Lowered;
  explicit Compiled(Parts parts);

  // Runs on `inputs` (arguments, then externals, as the trace has them) and `numbers` (the trace's
  // last inputs). Throws
  // prims::ValueGuardFailed with nothing changed if the data leave the recorded path, and whatever
  // an operator throws, likewise with nothing changed (random state included) unless the epilogue
  // had begun.
  void run(const at::Tensor* const* inputs, const std::vector<c10::IValue>& numbers,
           std::vector<at::Tensor>& outputs) const;

  // Whether a gradient rule that the program depends on has been changed since it was compiled.
  bool stale() const;

  const Parts& parts() const { return parts_; }
  const std::string& name() const { return parts_.forward->name; }
  bool has_gradient() const { return parts_.backward != nullptr; }
  const BackwardProgram& backward() const { return *backward_; }
  const std::vector<SavedSlot>& saved() const { return saved_; }
  const Plan& core() const { return *core_; }
  const Plan& epilogue() const { return *epilogue_; }

 private:
  void give_leaves_values_of_their_own(Frame& frame) const;
  void attach(Frame& frame, const at::Tensor* const* inputs,
              const std::vector<c10::IValue>& numbers, const at::Tensor& random_state) const;

  Parts parts_;
  mutable std::atomic<uint64_t> rules_generation_;  // up to which the program is known to be fresh
  std::unique_ptr<Plan> core_, epilogue_;
  std::unique_ptr<BackwardProgram> backward_;
  std::vector<SavedSlot> saved_;
  std::vector<std::pair<ir::ValueId, at::Tensor>> constants_;
  std::vector<bool> overwritten_;  // inputs that the call writes
  bool saves_numbers_ = false;
  bool keeps_random_state_ = false;  // for another forward under create_graph
};

}  // namespace fulgurite::run
