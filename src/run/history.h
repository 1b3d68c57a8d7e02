// In which order the results of one call get their history, when its core has run: the nodes of the
// program's own (run/compiled.h), and between them calls of custom autograd.Functions, leaves that
// the call makes, and boundaries, where hooks are.
#pragma once

#include <utility>
#include <vector>

#include "passes/pipeline.h"
#include "run/function_host.h"
#include "run/plan.h"

namespace fulgurite::run {

// Values on the memory of something that the caller, or backward, may look at: the two share a
// version counter, as a view and its base do.
using SameCounter = std::vector<std::pair<ir::ValueId, ir::ValueId>>;

// A call of a Function: prims.function of the forward trace.
struct FunctionStep {
  int64_t call;
  ir::ValueList inputs, outputs, saved, results;
  std::vector<int64_t> view_of;
  std::vector<int64_t> written;
  SameCounter same_counter{};
};

// prims.leaf: the result is a leaf, on the memory of `value`.
struct LeafStep {
  ir::ValueId value, result;
  bool is_argument = false;  // the caller's tensor itself becomes a leaf
  SameCounter same_counter{};
};

// prims.boundary: the result is `value` with a node of its own, which passes gradients on. With a
// base that node is eager's: the views that lead from there to `value` are taken again.
struct BoundaryStep {
  int64_t number;
  ir::ValueId value, result, base = ir::kNoValue;
  std::vector<const ir::Bind*> views = {};  // of the forward trace
};

// prims.argument: the result is the argument itself, after the instructions of the epilogue that
// write it back have run; those of another one, where that is what is written.
struct ArgumentStep {
  ir::ValueId value, argument, result;
  ir::ValueId written = ir::kNoValue;  // the result of the step of that other one
  std::vector<size_t> write_back = {};
};

struct HistoryStep {
  enum class Kind : uint8_t { Part, Function, Leaf, Boundary, Argument } kind;
  size_t index;  // of a part, or of a step of that kind
};

struct HistoryPlan {
  std::vector<FunctionStep> functions;
  std::vector<LeafStep> leaves;
  std::vector<BoundaryStep> boundaries;
  std::vector<ArgumentStep> arguments;
  bool has_steps() const {
    return !(functions.empty() && leaves.empty() && boundaries.empty() && arguments.empty());
  }
  std::vector<HistoryStep> steps;  // what has a history is made before what depends on it
};

HistoryPlan history_plan(const passes::Lowered& parts);

// The same memory and version counter under another identity.
at::Tensor tensor_of_its_own(const at::Tensor& t);

// As a view shares that of its base; nothing for inference tensors.
void share_version_counter(const at::Tensor& view, const at::Tensor& base);

// Puts the results of a Function's call into the frame, with their history.
void give_function_history(const FunctionStep& step, const FunctionHost& host, Frame& frame);
void make_leaf(const LeafStep& step, Frame& frame);
void make_boundary(const BoundaryStep& step, const FunctionHost* host, Frame& frame);
void give_argument_history(const ArgumentStep& step, const Plan& epilogue, Frame& frame);
// The caller's tensors that the steps made leaves are again what they were: the run has failed.
void take_leaves_back(const HistoryPlan& plan, Frame& frame);

}  // namespace fulgurite::run
