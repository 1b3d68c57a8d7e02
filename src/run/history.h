// In which order the results of one call get their history, when its core has run: the nodes of the
// program's own (run/compiled.h), and the calls of custom autograd.Functions between them.
#pragma once

#include <utility>
#include <vector>

#include "passes/pipeline.h"
#include "run/function_host.h"
#include "run/plan.h"

namespace fulgurite::run {

// A call of a Function: prims.function of the forward trace.
struct FunctionStep {
  int64_t call;
  ir::ValueList inputs, outputs, saved, results;
  std::vector<int64_t> view_of;
  std::vector<int64_t> written;
  // Values on the memory of something that the caller, or backward, may look at: the two share a
  // version counter, as a view and its base do.
  std::vector<std::pair<ir::ValueId, ir::ValueId>> same_counter;
};

struct HistoryStep {
  bool is_function;
  size_t index;  // of a part, or of a FunctionStep
};

struct HistoryPlan {
  std::vector<FunctionStep> functions;
  std::vector<HistoryStep> steps;  // what has a history is made before what depends on it
};

HistoryPlan history_plan(const passes::Lowered& parts);

// The same memory and version counter under another identity.
at::Tensor tensor_of_its_own(const at::Tensor& t);

// As a view shares that of its base; nothing for inference tensors.
void share_version_counter(const at::Tensor& view, const at::Tensor& base);

// Puts the results of a Function's call into the frame, with their history.
void give_function_history(const FunctionStep& step, const FunctionHost& host, Frame& frame);

}  // namespace fulgurite::run
