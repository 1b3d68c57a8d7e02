#include "run/compiled.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <unordered_map>

#include "exec/executor.h"
#include "ir/errors.h"
#include "ir/literal.h"
#include "ops/prims.h"
#include "ops/rules.h"
#include "ops/shared_memory.h"
#include "ops/traits.h"
#include "ops/value_guard.h"
#include "run/below_autograd.h"
#include "run/compiled_backward.h"
#include "run/random_state.h"
#include "run/result_check.h"

namespace fulgurite::run {
namespace {

using torch::autograd::SavedVariable;

std::vector<ir::ValueId> all_used_after_core(const ir::Trace& t,
                                             const std::vector<ir::ValueId>& attached) {
  std::vector<ir::ValueId> keep = t.outputs;
  keep.insert(keep.end(), t.saved.begin(), t.saved.end());
  keep.insert(keep.end(), attached.begin(), attached.end());
  keep.insert(keep.end(), t.inputs.begin(), t.inputs.end());
  for (size_t i = t.epilogue; i < t.binds.size(); ++i)
    for_each_arg(t.binds[i], [&](ir::ValueId id) { keep.push_back(id); });
  return keep;
}

// Of what the saved value `id` is a copy, made because the call overwrites it (passes/split.cpp);
// `id` itself if it is none.
ir::ValueId copied_by(const ir::Trace& t, ir::ValueId id) {
  for (size_t i = 0; i < t.epilogue; ++i) {
    const ir::Bind& b = t.binds[i];
    if (b.op.name() == "aten::clone" && !b.grad_mode && b.location < 0 &&
        std::get<ir::ValueId>(b.results[0]) == id)
      return std::get<ir::ValueId>(b.args[0]);
  }
  return id;
}

// PyTorch's gradients are linear in the cotangents; a user's rule need not be.
bool is_linear(const passes::GradientPart& part) {
  return std::none_of(part.user_rules.begin(), part.user_rules.end(),
                      [](const auto& rule) { return rule != nullptr; });
}

std::vector<ir::ValueId> all_attached(const passes::Lowered& parts) {
  std::vector<ir::ValueId> ids;
  for (const passes::GradientPart& p : parts.parts)
    ids.insert(ids.end(), p.attached.begin(), p.attached.end());
  return ids;
}

// By value: an input that the program writes, or something on its memory.
std::vector<bool> overwritten_inputs(const passes::Lowered& parts) {
  const ir::Trace& t = *parts.forward;
  std::vector<bool> overwritten = ops::overwritten_inputs(t);
  for (const passes::LeafWrite& w : parts.leaf_writes)
    if (t.value(w.destination).kind == ir::ValueKind::Input) overwritten[w.destination] = true;
  const ops::MemoryBases bases(t);
  for (size_t id = 0; id < t.values.size(); ++id)
    overwritten[id] = overwritten[id] || overwritten[bases.base(static_cast<ir::ValueId>(id))];
  return overwritten;
}

}  // namespace

Compiled::Compiled(Parts parts, std::shared_ptr<const FunctionHost> host, bool check_results)
    : parts_(std::move(parts)),
      rules_generation_(parts_.rules_generation),
      check_results_(check_results),
      host_(std::move(host)) {
  const ir::Trace& t = *parts_.forward;
  std::vector<ir::ValueId> keep = all_used_after_core(t, all_attached(parts_));
  for (const passes::LeafWrite& w : parts_.leaf_writes)
    keep.insert(keep.end(), {w.result, w.source});
  core_ = std::make_unique<Plan>(t, 0, t.epilogue, keep, check_results);
  epilogue_ = std::make_unique<Plan>(t, t.epilogue, t.binds.size(), t.outputs, check_results);
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant)
      constants_.emplace_back(static_cast<ir::ValueId>(id), t.values[id].constant);
  history_ = history_plan(parts_);
  for (size_t i = 0; i < epilogue_->size(); ++i)
    if (std::none_of(history_.arguments.begin(), history_.arguments.end(),
                     [&](const ArgumentStep& a) {
                       return std::count(a.write_back.begin(), a.write_back.end(), i) > 0;
                     }))
      rest_of_epilogue_.push_back(i);
  keeps_random_state_ = core_->draws_random_numbers();
  overwritten_ = overwritten_inputs(parts_);
  for (const passes::GradientPart& p : parts_.parts) nodes_.push_back(node_program(p));
}

NodeProgram Compiled::node_program(const passes::GradientPart& part) const {
  const ir::Trace& t = *parts_.forward;
  NodeProgram out;
  out.part = &part;
  out.check_results = check_results_;
  out.backward = std::make_unique<BackwardProgram>(part.claimed_backward, part.backward,
                                                   *part.differentiable_backward, is_linear(part),
                                                   check_results_);
  for (const ir::Bind& x : part.functional->binds)
    out.draws_random_numbers = out.draws_random_numbers || ops::is_random(x.op);
  const ops::MemoryBases bases(t);
  // What the caller gets for a leaf that is written back has the memory of what was written.
  auto counter = [&](ir::ValueId id) {
    for (const passes::LeafWrite& w : parts_.leaf_writes)
      if (w.result == id) return bases.counter(w.source);
    return bases.counter(id);
  };
  for (ir::ValueId id : part.saved) {
    SavedSlot s{SavedSlot::Kind::Intermediate, id};
    if (!t.value(id).is_tensor()) {
      s.kind = SavedSlot::Kind::Number;
      out.saves_numbers = true;
    } else if (t.value(id).kind == ir::ValueKind::Input) {
      s.kind = SavedSlot::Kind::Input;
    } else if (std::find(part.attached.begin(), part.attached.end(), id) != part.attached.end()) {
      s.kind = SavedSlot::Kind::Output;
    } else if (std::find(part.inputs.begin(), part.inputs.end(), id) != part.inputs.end()) {
      s.kind = SavedSlot::Kind::Input;  // from another part, or from a Function
    } else {
      const ir::ValueId of = copied_by(t, id);
      if (t.value(of).kind == ir::ValueKind::Input && overwritten_[static_cast<size_t>(of)])
        s.copy_of = of;
      s.has_history = t.value(of).tensor().requires_grad;
      for (ir::ValueId result : part.attached)
        if (counter(result) == counter(id)) s.counter_of = result;
    }
    out.saved.push_back(s);
  }
  return out;
}

// The write-back gave the leaf itself; the caller gets a tensor that holds what was written.
void Compiled::give_leaves_values_of_their_own(Frame& frame) const {
  for (const passes::LeafWrite& w : parts_.leaf_writes) {
    if (!frame[w.result].toTensor().is_same(frame[w.destination].toTensor())) continue;
    UnderAutograd under;
    c10::AutoGradMode no_grad(false);
    const at::Tensor& source = frame[w.source].toTensor();
    frame[w.result] = w.source_is_free ? source.detach() : source.clone();
  }
}

bool Compiled::stale() const {
  const uint64_t now = rules::generation();
  const uint64_t seen = rules_generation_.load(std::memory_order_relaxed);
  if (now == seen) return false;
  if (rules::changed(parts_.operators, seen)) return true;
  rules_generation_.store(now, std::memory_order_relaxed);
  return false;
}

void Interrupted::put_back() {
  if (random_state.defined()) set_default_random_state(random_state);
  random_state = at::Tensor();
  frame.clear();
  at_value_guard = false;
}

Frame Compiled::frame_with(const at::Tensor* const* inputs,
                           const std::vector<c10::IValue>& numbers) const {
  const ir::Trace& t = *parts_.forward;
  Frame frame(core_->registers());
  const size_t tensors = t.inputs.size() - numbers.size();
  for (size_t i = 0; i < tensors; ++i) frame[t.inputs[i]] = *inputs[i];
  for (size_t k = 0; k < numbers.size(); ++k) frame[t.inputs[tensors + k]] = numbers[k];
  for (const auto& [id, tensor] : constants_) frame[id] = tensor;
  return frame;
}

bool Compiled::has_same_inputs(const at::Tensor* const* inputs,
                               const std::vector<c10::IValue>& numbers, const Interrupted& run,
                               const Handover& from) const {
  const ir::Trace& t = *parts_.forward;
  const size_t tensors = t.inputs.size() - numbers.size();
  std::vector<size_t> position(t.values.size());
  for (size_t i = 0; i < t.inputs.size(); ++i) position[static_cast<size_t>(t.inputs[i])] = i;
  for (const auto& [before, id] : from.same_inputs) {
    const c10::IValue& had = run.frame[static_cast<size_t>(before)];
    const size_t i = position[static_cast<size_t>(id)];
    if (i >= tensors ? !ir::same_constant(had, numbers[i - tensors])
                     : !had.isTensor() || !had.toTensor().is_same(*inputs[i]))
      return false;
  }
  return true;
}

// The functional part. False if the data left its path.
bool Compiled::run_core(Frame& frame, Interrupted& run, const Handover* from) const {
  if (from != nullptr) {
    for (const auto& [before, now] : from->taken)
      frame[static_cast<size_t>(now)] = std::move(run.frame[static_cast<size_t>(before)]);
    run.frame.clear();
    if (from->random_again && run.random_state.defined())
      set_default_random_state(run.random_state);
  }
  // A program that was left before and draws no numbers has not changed the state.
  if (core_->draws_random_numbers() && !run.random_state.defined())
    run.random_state = default_random_state();
  const BelowAutograd below;
  constexpr size_t kNowhere = static_cast<size_t>(-1);
  run.step = kNowhere;
  try {
    if (from != nullptr) core_->run(frame, from->again);
    core_->run(frame, from != nullptr ? from->start : 0, run.step);
    return true;
  } catch (const prims::ValueGuardFailed&) {
    run.at_value_guard =
        run.step != kNowhere && ops::is_value_guard(parts_.forward->binds[run.step].op);
    run.found = prims::last_found();
    run.frame = std::move(frame);
    return false;
  }
}

namespace {

// The exception that is being handled, raised when something was written already.
[[noreturn]] void rethrow_after_write() {
  try {
    throw;
  } catch (const exec::ExecutorError&) {
    throw;
  } catch (const WrongResult&) {
    throw;
  } catch (const WriteBackFailed&) {
    throw;
  } catch (const c10::Error& e) {
    throw WriteBackFailed(e.what_without_backtrace());
  } catch (const std::exception& e) {
    throw WriteBackFailed(e.what());
  }
}

}  // namespace

void Compiled::finish(Frame& frame, std::vector<at::Tensor>& outputs) const {
  const ir::Trace& t = *parts_.forward;
  if (epilogue_->size() > 0) {
    UnderAutograd under;
    try {
      history_.arguments.empty() ? epilogue_->run(frame) : epilogue_->run(frame, rest_of_epilogue_);
    } catch (...) {
      rethrow_after_write();
    }
  }
  outputs.resize(t.outputs.size());
  for (size_t k = 0; k < t.outputs.size(); ++k)
    outputs[k] = t.outputs[k] == ir::kNoValue ? at::Tensor() : frame[t.outputs[k]].toTensor();
}

bool Compiled::run(const at::Tensor* const* inputs, const std::vector<c10::IValue>& numbers,
                   std::vector<at::Tensor>& outputs, Interrupted& run, const Handover* from) const {
  Frame frame = frame_with(inputs, numbers);
  bool written = false;
  try {
    if (!run_core(frame, run, from)) return false;
    if (!parts_.leaf_writes.empty()) give_leaves_values_of_their_own(frame);
    if (!history_.steps.empty()) attach(frame, run.random_state, written);
  } catch (...) {
    if (written) rethrow_after_write();
    take_leaves_back(history_, frame);
    run.put_back();
    throw;
  }
  run.random_state = at::Tensor();  // what was drawn stays drawn
  finish(frame, outputs);
  return true;
}

// The histories that inputs had before the call, by value.
struct Compiled::InputEdges : std::unordered_map<ir::ValueId, torch::autograd::Edge> {};

void Compiled::attach(Frame& frame, const at::Tensor& random_state, bool& written) const {
  InputEdges before;
  if (!history_.arguments.empty())
    for (const passes::GradientPart& part : parts_.parts)
      for (ir::ValueId id : part.differentiable)
        if (parts_.forward->value(id).kind == ir::ValueKind::Input)
          before.emplace(id, torch::autograd::impl::gradient_edge(frame[id].toTensor()));
  for (const HistoryStep& step : history_.steps) {
    switch (step.kind) {
      case HistoryStep::Kind::Part:
        attach_part(step.index, frame, random_state, before);
        break;
      case HistoryStep::Kind::Function:
        give_function_history(history_.functions[step.index], *host_, frame);
        break;
      case HistoryStep::Kind::Leaf:
        make_leaf(history_.leaves[step.index], frame);
        break;
      case HistoryStep::Kind::Boundary:
        make_boundary(history_.boundaries[step.index], host_.get(), frame);
        break;
      case HistoryStep::Kind::Argument:
        written = true;
        give_argument_history(history_.arguments[step.index], *epilogue_, frame);
        break;
    }
  }
}

void Compiled::attach_part(size_t k, Frame& frame, const at::Tensor& random_state,
                           const InputEdges& before) const {
  const NodeProgram& b = nodes_[k];
  const passes::GradientPart& part = *b.part;
  auto node = c10::make_intrusive<CompiledBackward>(shared_from_this(), b);
  torch::autograd::edge_list edges;
  edges.reserve(part.differentiable.size());
  // Eager's graph does not reach inputs without a gradient.
  auto edge_to = [&](ir::ValueId id) {
    const auto it = before.find(id);
    return it != before.end() ? it->second
                              : torch::autograd::impl::gradient_edge(frame[id].toTensor());
  };
  for (size_t i = 0; i < part.differentiable.size(); ++i)
    edges.push_back(b.backward->trace().outputs[i] == ir::kNoValue
                        ? torch::autograd::Edge()
                        : edge_to(part.differentiable[i]));
  node->set_next_edges(std::move(edges));
  for (ir::ValueId id : part.attached) {
    if (history_.steps.size() > 1) frame[id] = tensor_of_its_own(frame[id].toTensor());
    torch::autograd::set_history(frame[id].toTensor(), node);
  }
  node->saved.resize(b.saved.size());
  if (b.saves_numbers) node->numbers.resize(b.saved.size());
  for (size_t s = 0; s < b.saved.size(); ++s) {
    const c10::IValue& v = frame[b.saved[s].value];
    if (b.saved[s].kind == SavedSlot::Kind::Number) {
      node->numbers[s] = v;
    } else {
      if (b.saved[s].counter_of != ir::kNoValue)
        share_version_counter(v.toTensor(), frame[b.saved[s].counter_of].toTensor());
      node->saved[s] = SavedVariable(v.toTensor(), b.saved[s].kind == SavedSlot::Kind::Output);
    }
  }
  node->inputs.reserve(part.inputs.size());
  node->versions.reserve(part.inputs.size());
  for (ir::ValueId id : part.inputs) {
    if (!frame[id].isTensor()) {
      node->input_numbers.push_back(frame[id]);
      continue;
    }
    const at::Tensor& x = frame[id].toTensor();
    node->inputs.push_back(overwritten_[static_cast<size_t>(id)] ? at::Tensor() : x);
    node->versions.push_back(x.is_inference() ? 0 : static_cast<uint32_t>(x._version()));
  }
  if (keeps_random_state_) node->random_state = random_state;
}

}  // namespace fulgurite::run
