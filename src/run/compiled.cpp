#include "run/compiled.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/rules.h"
#include "ops/traits.h"
#include "run/below_autograd.h"
#include "run/compiled_backward.h"
#include "run/random_state.h"

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

// The value whose memory `id` has: what it is a view or the `.data` of.
ir::ValueId input_behind(const ir::Trace& t, ir::ValueId id) {
  for (size_t i = t.binds.size(); i-- > 0;) {
    const ir::Bind& b = t.binds[i];
    if (!ops::is_view(b.op) || !std::holds_alternative<ir::ValueId>(b.args[0])) continue;
    bool made = false;
    for_each_result(b, [&](ir::ValueId r) { made = made || r == id; });
    if (made) id = std::get<ir::ValueId>(b.args[0]);
  }
  return id;
}

// The backward before it was reinplaced.
ir::TracePtr claimed_backward(const passes::Lowered& parts) {
  for (auto s = parts.backward_stages.rbegin(); s != parts.backward_stages.rend(); ++s)
    if (s->name == "claim") return s->trace;
  return parts.differentiable_backward;
}

// PyTorch's gradients are linear in the cotangents; a user's rule need not be.
bool is_linear(const passes::Lowered& parts) {
  return std::none_of(parts.user_rules.begin(), parts.user_rules.end(),
                      [](const auto& rule) { return rule != nullptr; });
}

}  // namespace

Compiled::Compiled(Parts parts)
    : parts_(std::move(parts)), rules_generation_(parts_.rules_generation) {
  const ir::Trace& t = *parts_.forward;
  std::vector<ir::ValueId> keep = all_used_after_core(t, parts_.attached);
  for (const passes::LeafWrite& w : parts_.leaf_writes)
    keep.insert(keep.end(), {w.result, w.source});
  core_ = std::make_unique<Plan>(t, 0, t.epilogue, keep);
  epilogue_ = std::make_unique<Plan>(t, t.epilogue, t.binds.size(), t.outputs);
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant)
      constants_.emplace_back(static_cast<ir::ValueId>(id), t.values[id].constant);
  if (!has_gradient()) return;
  backward_ = std::make_unique<BackwardProgram>(claimed_backward(parts_), parts_.backward,
                                                is_linear(parts_));
  keeps_random_state_ = core_->draws_random_numbers();
  overwritten_.assign(t.inputs.size(), false);
  for (const ir::Bind& bind : t.binds)
    for (size_t a : ops::written_arguments(bind))
      ir::for_each_value(bind.args[a], [&](ir::ValueId written) {
        const ir::ValueId id = input_behind(t, written);
        for (size_t k = 0; k < t.inputs.size(); ++k)
          if (t.inputs[k] == id ||
              (t.value(id).storage >= 0 && t.value(id).storage == t.value(t.inputs[k]).storage))
            overwritten_[k] = overwritten_[k] || !(bind.op == prims::set_grad());
      });
  for (const passes::LeafWrite& w : parts_.leaf_writes)
    for (size_t k = 0; k < t.inputs.size(); ++k)
      overwritten_[k] = overwritten_[k] || t.inputs[k] == w.destination;
  for (ir::ValueId id : t.saved) {
    SavedSlot s{SavedSlot::Kind::Intermediate, id};
    if (!t.value(id).is_tensor()) {
      s.kind = SavedSlot::Kind::Number;
      saves_numbers_ = true;
    } else if (t.value(id).kind == ir::ValueKind::Input) {
      s.kind = SavedSlot::Kind::Input;
    } else if (std::find(parts_.attached.begin(), parts_.attached.end(), id) !=
               parts_.attached.end()) {
      s.kind = SavedSlot::Kind::Output;
    } else {
      const ir::ValueId of = copied_by(t, id);
      for (size_t k = 0; k < t.inputs.size(); ++k)
        if (t.inputs[k] == of && overwritten_[k]) s.copy_of = static_cast<int32_t>(k);
      s.has_history = t.value(of).tensor().requires_grad;
    }
    saved_.push_back(s);
  }
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

void Compiled::run(const at::Tensor* const* inputs, const std::vector<c10::IValue>& numbers,
                   std::vector<at::Tensor>& outputs) const {
  const ir::Trace& t = *parts_.forward;
  Frame frame(core_->registers());
  const size_t tensors = t.inputs.size() - numbers.size();
  for (size_t i = 0; i < tensors; ++i) frame[t.inputs[i]] = *inputs[i];
  for (size_t k = 0; k < numbers.size(); ++k) frame[t.inputs[tensors + k]] = numbers[k];
  for (const auto& [id, tensor] : constants_) frame[id] = tensor;
  at::Tensor random_state;
  if (core_->draws_random_numbers()) random_state = default_random_state();
  try {
    BelowAutograd below;
    core_->run(frame);
  } catch (...) {
    if (random_state.defined()) set_default_random_state(random_state);
    throw;
  }
  if (!parts_.leaf_writes.empty()) give_leaves_values_of_their_own(frame);
  if (has_gradient()) attach(frame, inputs, numbers, random_state);
  if (epilogue_->size() > 0) {
    UnderAutograd under;
    epilogue_->run(frame);
  }
  outputs.resize(t.outputs.size());
  for (size_t k = 0; k < t.outputs.size(); ++k)
    outputs[k] = t.outputs[k] == ir::kNoValue ? at::Tensor() : frame[t.outputs[k]].toTensor();
}

void Compiled::attach(Frame& frame, const at::Tensor* const* inputs,
                      const std::vector<c10::IValue>& numbers,
                      const at::Tensor& random_state) const {
  const ir::Trace& t = *parts_.forward;
  auto node = c10::make_intrusive<CompiledBackward>(shared_from_this());
  torch::autograd::edge_list edges;
  edges.reserve(parts_.differentiable.size());
  // Eager's graph does not reach inputs without a gradient.
  for (size_t k = 0; k < parts_.differentiable.size(); ++k)
    edges.push_back(backward_->trace().outputs[k] == ir::kNoValue
                        ? torch::autograd::Edge()
                        : torch::autograd::impl::gradient_edge(*inputs[parts_.differentiable[k]]));
  node->set_next_edges(std::move(edges));
  for (ir::ValueId id : parts_.attached) torch::autograd::set_history(frame[id].toTensor(), node);
  node->saved.resize(saved_.size());
  if (saves_numbers_) node->numbers.resize(saved_.size());
  for (size_t k = 0; k < saved_.size(); ++k) {
    const c10::IValue& v = frame[saved_[k].value];
    if (saved_[k].kind == SavedSlot::Kind::Number) {
      node->numbers[k] = v;
    } else {
      node->saved[k] = SavedVariable(v.toTensor(), saved_[k].kind == SavedSlot::Kind::Output);
    }
  }
  const size_t tensors = t.inputs.size() - numbers.size();
  node->input_numbers = numbers;
  node->inputs.reserve(tensors);
  node->versions.reserve(tensors);
  for (size_t i = 0; i < tensors; ++i) {
    node->inputs.push_back(overwritten_[i] ? at::Tensor() : *inputs[i]);
    node->versions.push_back(
        inputs[i]->is_inference() ? 0 : static_cast<uint32_t>(inputs[i]->_version()));
  }
  if (keeps_random_state_) node->random_state = random_state;
}

}  // namespace fulgurite::run
