#include "run/compiled_backward.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "ir/stack.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "run/below_autograd.h"
#include "run/layout.h"
#include "run/random_state.h"
#include "run/result_check.h"
#include "run/ruled.h"

namespace fulgurite::run {
namespace {

using torch::autograd::variable_list;

// The history of an input as the call found it.
struct InputBefore : torch::autograd::Node {
  std::string name() const override { return "InputBefore"; }
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
};

// A cotangent with the geometry that the backward trace was derived for; zeros if it is undefined,
// or zeros without memory, which cannot be written.
at::Tensor as_recorded(const at::Tensor& g, const ir::TensorType& type) {
  auto options = at::TensorOptions().dtype(type.dtype).device(type.device);
  if (!g.defined() || g._is_zerotensor())
    return at::empty_strided(type.sizes, type.strides, options).zero_();
  if (g.strides() == at::IntArrayRef(type.strides) && g.scalar_type() == type.dtype &&
      !g.is_conj() && !g.is_neg())
    return g;
  return at::empty_strided(type.sizes, type.strides, options).copy_(g);
}

void load_constants(const ir::Trace& t, Frame& frame) {
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant) frame[id] = t.values[id].constant;
}

}  // namespace

void CompiledBackward::release_variables() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& s : saved) s.reset_data();
  inputs.clear();
  freed_ = !saved.empty();
}

Asked CompiledBackward::asked(const variable_list& gradients) {
  Asked a;
  for (const at::Tensor& g : gradients) a.cotangents.push_back(g.defined());
  const auto& outputs = node.backward->trace().outputs;
  for (size_t k = 0; k < outputs.size(); ++k)
    a.gradients.push_back(outputs[k] == ir::kNoValue || task_should_compute_output(k));
  return a;
}

variable_list CompiledBackward::apply(variable_list&& gradients) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Asked a = asked(gradients);
  const auto all = [](const std::vector<bool>& v) {
    return std::find(v.begin(), v.end(), false) == v.end();
  };
  std::shared_ptr<const BackwardPart> made;
  const BackwardPart* part = &node.backward->whole();
  if (!all(a.cotangents) || !all(a.gradients)) {
    made = node.backward->part(a);
    part = made.get();
  }
  check_not_freed(*part);
  if (!c10::GradMode::is_enabled()) return apply_plan(*part, gradients);
  TORCH_CHECK(
      !part->raises,
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation in the compiled ",
      program->name());
  return apply_with_graph(a, gradients);
}

void CompiledBackward::check_not_freed(const BackwardPart& part) const {
  bool is_freed = freed_ && !part.steps.empty();
  if (!done_.empty())
    for (size_t i : part.steps) is_freed = is_freed || done_[i];
  TORCH_CHECK(!is_freed, torch::autograd::ERR_BACKWARD_TWICE);
}

// The graph is not kept: what no other step needs goes.
void CompiledBackward::free_saved(const BackwardPart& part) {
  const BackwardProgram& backward = *node.backward;
  if (&part == &backward.whole()) {
    for (auto& s : saved) s.reset_data();
    inputs.clear();
    freed_ = !saved.empty();
    return;
  }
  if (part.steps.empty()) return;
  if (done_.empty()) done_.assign(backward.trace().binds.size(), false);
  for (size_t i : part.steps) done_[i] = true;
  for (size_t k = 0; k < saved.size(); ++k)
    if (backward.is_spent(k, done_)) saved[k].reset_data();
}

at::Tensor CompiledBackward::unpack(size_t slot) {
  const bool is_output = node.saved[slot].kind == SavedSlot::Kind::Output;
  at::Tensor t = saved[slot].unpack(is_output ? getptr() : nullptr);
  // A user's hooks may give it back in other memory.
  const ir::Trace& backward = node.backward->trace();
  const ir::TensorType& type = backward.value(backward.inputs[slot]).tensor();
  const bool is_moved = t.sizes() == at::IntArrayRef(type.sizes) && !has_strides(t, type.strides);
  return is_moved ? laid_out(t, type) : t;
}

variable_list CompiledBackward::apply_plan(const BackwardPart& part,
                                           const variable_list& gradients) {
  const ir::Trace& t = *part.trace;
  Frame frame(part.plan->registers());
  load_constants(t, frame);
  const auto& slots = node.saved;
  for (size_t k = 0; k < slots.size(); ++k) {
    if (!part.takes[k]) continue;
    if (slots[k].kind == SavedSlot::Kind::Number) {
      frame[t.inputs[k]] = numbers[k];
    } else {
      frame[t.inputs[k]] = unpack(k);
    }
  }
  // Then saved tensors die with their last use in the plan.
  if (!torch::autograd::get_current_graph_task_keep_graph()) free_saved(part);
  BelowAutograd below;
  for (size_t k = 0; k < gradients.size(); ++k) {
    const size_t input = t.num_saved_inputs + k;
    if (part.takes[input])
      frame[t.inputs[input]] = as_recorded(gradients[k], t.value(t.inputs[input]).tensor());
  }
  at::Tensor random_state_now;  // a checkpoint draws again what it drew
  if (part.plan->draws_random_numbers()) random_state_now = default_random_state();
  try {
    part.plan->run(frame);
  } catch (...) {
    if (random_state_now.defined()) set_default_random_state(random_state_now);
    throw;
  }
  variable_list out(t.outputs.size());
  for (size_t k = 0; k < t.outputs.size(); ++k)
    if (t.outputs[k] != ir::kNoValue && task_should_compute_output(k))
      out[k] = frame[t.outputs[k]].toTensor();
  return out;
}

// The binds of the functional trace that compute the outputs which take part; and those that draw
// random numbers, for the others to draw the same again.
std::vector<bool> CompiledBackward::binds_for(const variable_list& gradients) const {
  const passes::GradientPart& part = *node.part;
  const ir::Trace& t = *part.functional;
  std::vector<bool> needed(t.values.size(), false), runs(t.epilogue, false);
  for (size_t k = 0; k < gradients.size(); ++k)
    if (gradients[k].defined()) needed[part.functional_attached[k]] = true;
  for (size_t i = t.epilogue; i-- > 0;) {
    runs[i] = ops::is_random(t.binds[i].op);
    ops::for_each_made(t.binds[i], [&](ir::ValueId id) { runs[i] = runs[i] || needed[id]; });
    if (runs[i]) for_each_arg(t.binds[i], [&](ir::ValueId id) { needed[id] = true; });
  }
  return runs;
}

// Inputs may be views of each other: each begins a history of its own here, so that gradients end
// at it.
at::Tensor CompiledBackward::input_for_graph(size_t i) {
  const at::Tensor& x = inputs[i];
  const ir::Trace& t = *node.part->functional;
  TORCH_CHECK(
      x.is_inference() || x._version() == versions[i],
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation: input ",
      t.value(t.inputs[i]).name, " of the compiled ", program->name(), " is at version ",
      x._version(), "; expected version ", versions[i],
      " instead (FG-181: differentiating again needs every input)");
  return with_history_of_input(x, node.part->inputs[i]);
}

bool CompiledBackward::can_compute_again() const {
  return !node.draws_random_numbers || node.part->functional == program->parts().functional;
}

variable_list CompiledBackward::apply_with_graph(const Asked& a, const variable_list& gradients) {
  const passes::GradientPart& part = *node.part;
  const ir::Trace& t = *part.functional;
  // The numbers that a part drew are between those of the others: they are not drawn again.
  if (!can_compute_again()) return apply_backward_trace(a, gradients);
  const std::vector<bool> runs = binds_for(gradients);
  std::vector<bool> used(t.values.size(), false);
  for (size_t i = 0; i < runs.size(); ++i)
    if (runs[i]) for_each_arg(t.binds[i], [&](ir::ValueId id) { used[id] = true; });
  for (size_t i = 0; i < inputs.size(); ++i)
    if (used[t.inputs[i]] && !inputs[i].defined()) return apply_backward_trace(a, gradients);
  Frame frame(t.values.size());
  load_constants(t, frame);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (used[t.inputs[i]]) frame[t.inputs[i]] = input_for_graph(i);
  for (size_t k = 0; k < input_numbers.size(); ++k)
    frame[t.inputs[inputs.size() + k]] = input_numbers[k];
  UnderAutograd under;
  at::Tensor state_now;
  if (random_state.defined()) {
    state_now = default_random_state();
    set_default_random_state(random_state);
  }
  std::vector<c10::IValue> stack;
  for (size_t i = 0; i < t.epilogue; ++i) {
    if (!runs[i]) continue;
    c10::AutoGradMode mode(t.binds[i].grad_mode || t.binds[i].op == prims::set_data());
    if (i < part.user_rules.size() && part.user_rules[i]) {
      run_ruled(t.binds[i], part.user_rules[i], frame);
    } else {
      ir::run_bind(t.binds[i], frame, stack);
    }
    if (node.check_results) check_results(t, t.binds[i], frame);
  }
  if (state_now.defined()) set_default_random_state(state_now);
  variable_list outputs, seeds;
  for (size_t k = 0; k < gradients.size(); ++k) {
    if (!gradients[k].defined()) continue;
    const at::Tensor o = frame[part.functional_attached[k]].toTensor();
    if (!o.requires_grad()) continue;
    outputs.push_back(o);
    seeds.push_back(gradients[k]);
  }
  variable_list out(part.differentiable.size());
  variable_list wanted;
  std::vector<size_t> where;
  for (size_t k = 0; k < part.differentiable.size(); ++k) {
    const auto at = std::find(part.inputs.begin(), part.inputs.end(), part.differentiable[k]);
    const ir::ValueId id = t.inputs[static_cast<size_t>(at - part.inputs.begin())];
    if (!used[id] || !task_should_compute_output(k)) continue;
    wanted.push_back(frame[id].toTensor());
    where.push_back(k);
  }
  if (outputs.empty() || wanted.empty()) return out;
  variable_list found =
      torch::autograd::grad(outputs, wanted, seeds, /*retain_graph=*/true, /*create_graph=*/true,
                            /*allow_unused=*/true);
  for (size_t k = 0; k < where.size(); ++k) out[where[k]] = found[k];
  return out;
}

variable_list CompiledBackward::apply_backward_trace(const Asked& a,
                                                     const variable_list& gradients) {
  const ir::TracePtr trace = part_of(node.part->differentiable_backward, a, /*linear=*/true);
  const ir::Trace& t = *trace;
  std::vector<bool> used(t.values.size(), false);
  for (const ir::Bind& b : t.binds) for_each_arg(b, [&](ir::ValueId id) { used[id] = true; });
  for (ir::ValueId id : t.outputs)
    if (id != ir::kNoValue) used[id] = true;
  Frame frame(t.values.size());
  load_constants(t, frame);
  const auto& slots = node.saved;
  for (size_t k = 0; k < slots.size(); ++k) {
    const SavedSlot& slot = slots[k];
    if (!used[t.inputs[k]]) continue;
    if (slot.kind == SavedSlot::Kind::Number) {
      frame[t.inputs[k]] = numbers[k];
      continue;
    }
    at::Tensor v = unpack(k);
    const bool is_copy = slot.copy_of != ir::kNoValue;
    if (is_copy) v = with_history_of_input(v, slot.copy_of);
    TORCH_CHECK(is_copy || !slot.has_history, "FG-181: create_graph through ", program->name(),
                ": ", program->parts().forward->value(slot.value).name,
                " would have to be computed again, and the compiled call ",
                can_compute_again() ? "overwrote an input that this needs"
                                    : "drew random numbers between autograd.Functions or hooks");
    frame[t.inputs[k]] = v;
  }
  for (size_t k = 0; k < gradients.size(); ++k) {
    const ir::ValueId id = t.inputs[t.num_saved_inputs + k];
    if (used[id]) frame[id] = as_recorded(gradients[k], t.value(id).tensor());
  }
  UnderAutograd under;
  std::vector<c10::IValue> stack;
  for (const ir::Bind& b : t.binds) {
    ir::run_bind(b, frame, stack);
    if (node.check_results) check_results(t, b, frame);
  }
  variable_list out(t.outputs.size());
  for (size_t k = 0; k < t.outputs.size(); ++k)
    if (t.outputs[k] != ir::kNoValue) out[k] = frame[t.outputs[k]].toTensor();
  return out;
}

// A tensor with the contents that an input (of the forward trace) had, and the history that it had.
at::Tensor CompiledBackward::with_history_of_input(const at::Tensor& contents, ir::ValueId input) {
  const auto& differentiable = node.part->differentiable;
  const auto k = static_cast<size_t>(
      std::find(differentiable.begin(), differentiable.end(), input) - differentiable.begin());
  if (k == differentiable.size()) return contents;
  at::Tensor alias = contents.detach();
  auto before = c10::make_intrusive<InputBefore>();
  before->add_next_edge(next_edge(k));
  torch::autograd::set_history(alias, before);
  return alias;
}

}  // namespace fulgurite::run
