#include "run/compiled.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "ir/errors.h"
#include "ir/stack.h"
#include "ops/prims.h"
#include "ops/rules.h"
#include "ops/traits.h"
#include "run/below_autograd.h"
#include "run/ruled.h"

namespace fulgurite::run {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

at::Tensor default_random_state() { return at::detail::getDefaultCPUGenerator().get_state(); }
void set_default_random_state(const at::Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

// Per value of a backward trace: bit k if it depends on cotangent k (63: any beyond).
std::vector<uint64_t> cotangents_of_values(const ir::Trace& t) {
  std::vector<uint64_t> mask(t.values.size(), 0);
  for (size_t k = t.num_saved_inputs; k < t.inputs.size(); ++k)
    mask[t.inputs[k]] = uint64_t{1} << std::min<size_t>(k - t.num_saved_inputs, 63);
  for (const ir::Bind& b : t.binds) {
    uint64_t m = 0;
    for_each_arg(b, [&](ir::ValueId id) { m |= mask[id]; });
    for_each_result(b, [&](ir::ValueId id) { mask[id] |= m; });
  }
  return mask;
}

// The history of what an input is (or was, before the call overwrote it) to the program.
struct InputBefore : torch::autograd::Node {
  std::string name() const override { return "InputBefore"; }
  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
};

// The history of the results of one call.
struct CompiledBackward : torch::autograd::Node {
  std::shared_ptr<const Compiled> program;
  const BackwardProgram* backward = nullptr;  // of `program`
  std::vector<SavedVariable> saved;           // by slot
  std::vector<c10::IValue> numbers;           // by slot, for numbers
  // Of the part, for create_graph; undefined where the call itself overwrote it.
  std::vector<at::Tensor> inputs;
  std::vector<uint32_t> versions;          // of the inputs at the call
  std::vector<c10::IValue> input_numbers;  // for create_graph
  at::Tensor random_state;
  bool released = false;

  std::string name() const override { return "CompiledBackward[" + program->name() + "]"; }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto& s : saved) s.reset_data();
    inputs.clear();
    released = !saved.empty();
  }

  variable_list apply(variable_list&& gradients) override {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    if (!c10::GradMode::is_enabled()) return apply_plan(gradients);
    for (const at::Tensor& x : inputs)
      if (!x.defined()) return apply_backward_trace(gradients);
    return apply_with_graph(gradients);
  }

  // create_graph without an input, which the call overwrote: the backward trace itself runs under
  // autograd. That needs saved values with their histories, which intermediate ones have not.
  variable_list apply_backward_trace(const variable_list& gradients) {
    const ir::Trace& t = *backward->part->differentiable_backward;
    Frame frame(t.values.size());
    load_constants(t, frame);
    const auto& slots = backward->saved;
    for (size_t k = 0; k < slots.size(); ++k) {
      const SavedSlot& slot = slots[k];
      if (slot.kind == SavedSlot::Kind::Number) {
        frame[t.inputs[k]] = numbers[k];
        continue;
      }
      at::Tensor v = saved[k].unpack(slot.kind == SavedSlot::Kind::Output ? getptr() : nullptr);
      if (slot.copy_of >= 0) v = with_history_of_input(v, slot.copy_of);
      const ir::Value& value = program->parts().forward->value(slot.value);
      TORCH_CHECK(slot.kind != SavedSlot::Kind::Intermediate || slot.copy_of >= 0 ||
                      !value.tensor().requires_grad,
                  "FG-181: create_graph through ", program->name(),
                  ": the compiled call overwrote an input that it would need to compute ",
                  value.name, " again");
      frame[t.inputs[k]] = v;
    }
    for (size_t k = 0; k < gradients.size(); ++k) {
      const ir::ValueId id = t.inputs[t.num_saved_inputs + k];
      const auto& type = t.value(id).tensor();
      const auto options = at::TensorOptions().dtype(type.dtype).device(type.device);
      frame[id] = gradients[k].defined() ? gradients[k] : at::zeros(type.sizes, options);
    }
    UnderAutograd under;
    std::vector<c10::IValue> stack;
    for (const ir::Bind& b : t.binds) ir::run_bind(b, frame, stack);
    variable_list out(t.outputs.size());
    for (size_t k = 0; k < t.outputs.size(); ++k)
      if (t.outputs[k] != ir::kNoValue && task_should_compute_output(k))
        out[k] = frame[t.outputs[k]].toTensor();
    return out;
  }

  // An input whose history may lead to another input: gradients with respect to that one must not
  // come through here.
  at::Tensor start_of_part(const at::Tensor& x, size_t edge) {
    at::Tensor alias = x.detach();
    auto node = c10::make_intrusive<InputBefore>();
    node->add_next_edge(next_edge(edge));
    torch::autograd::set_history(alias, node);
    return alias;
  }

  // The contents that an input had, with the history that it had.
  at::Tensor with_history_of_input(const at::Tensor& contents, ir::ValueId input) {
    const auto& differentiable = backward->part->differentiable;
    const auto k = static_cast<size_t>(
        std::find(differentiable.begin(), differentiable.end(), input) - differentiable.begin());
    return k == differentiable.size() ? contents : start_of_part(contents, k);
  }

  variable_list apply_plan(const variable_list& gradients) {
    const BackwardProgram& b = *backward;
    const ir::Trace& t = *b.part->backward;
    Frame frame(b.plan->registers());
    load_constants(t, frame);
    const auto& slots = b.saved;
    // If the graph is not kept, saved tensors die with their last use in the plan.
    const bool keep = torch::autograd::get_current_graph_task_keep_graph();
    auto self = getptr();
    for (size_t k = 0; k < slots.size(); ++k) {
      if (slots[k].kind == SavedSlot::Kind::Number) {
        frame[t.inputs[k]] = numbers[k];
      } else {
        frame[t.inputs[k]] =
            saved[k].unpack(slots[k].kind == SavedSlot::Kind::Output ? self : nullptr);
      }
    }
    if (!keep) {
      for (auto& s : saved) s.reset_data();
      inputs.clear();
      released = !saved.empty();
    }
    BelowAutograd below;
    uint64_t defined = 0;
    for (size_t k = 0; k < gradients.size(); ++k) {
      const ir::ValueId id = t.inputs[t.num_saved_inputs + k];
      const auto& type = t.value(id).tensor();
      if (gradients[k].defined()) defined |= uint64_t{1} << std::min<size_t>(k, 63);
      frame[id] = as_recorded(gradients[k], type);
    }
    if (b.raises) {
      run_what_is_asked_for(frame, defined);
    } else {
      b.plan->run(frame);
    }
    variable_list out(t.outputs.size());
    for (size_t k = 0; k < t.outputs.size(); ++k) {
      if (t.outputs[k] == ir::kNoValue || !task_should_compute_output(k)) continue;
      if ((b.depends_on[k] & defined) == 0) continue;
      out[k] = frame[t.outputs[k]].toTensor();
    }
    return out;
  }

  // The binds that the wanted gradients need; a part that raises counts only if a cotangent reaches
  // it, as eager does not run nodes that get no gradient.
  void run_what_is_asked_for(Frame& frame, uint64_t defined) {
    static const ir::Op overwritten = ir::Op::get("fulgurite::overwritten");
    const ir::Trace& t = *backward->part->differentiable_backward;
    const std::vector<uint64_t> reached_by = cotangents_of_values(t);
    std::vector<bool> needed(t.values.size(), false);
    for (size_t k = 0; k < t.outputs.size(); ++k)
      if (t.outputs[k] != ir::kNoValue && task_should_compute_output(k))
        needed[t.outputs[k]] = true;
    std::vector<bool> runs(t.binds.size(), false);
    for (size_t i = t.binds.size(); i-- > 0;) {
      for_each_result(t.binds[i], [&](ir::ValueId id) { runs[i] = runs[i] || needed[id]; });
      if (runs[i]) for_each_arg(t.binds[i], [&](ir::ValueId id) { needed[id] = true; });
    }
    std::vector<c10::IValue> stack;
    c10::AutoGradMode no_grad(false);
    for (size_t i = 0; i < t.binds.size(); ++i) {
      if (!runs[i]) continue;
      const ir::Bind& b = t.binds[i];
      if (b.op == overwritten && (reached_by[std::get<ir::ValueId>(b.results[0])] & defined) == 0) {
        const auto id = std::get<ir::ValueId>(b.results[0]);
        frame[id] = as_recorded(at::Tensor(), t.value(id).tensor());
        continue;
      }
      ir::run_bind(b, frame, stack);
    }
  }

  // A cotangent with the geometry that the backward trace was derived for; zeros if it is
  // undefined.
  static at::Tensor as_recorded(const at::Tensor& g, const ir::TensorType& type) {
    auto options = at::TensorOptions().dtype(type.dtype).device(type.device);
    if (!g.defined()) return at::empty_strided(type.sizes, type.strides, options).zero_();
    if (g.strides() == at::IntArrayRef(type.strides) && g.scalar_type() == type.dtype) return g;
    return at::empty_strided(type.sizes, type.strides, options).copy_(g);
  }

  static void load_constants(const ir::Trace& t, Frame& frame) {
    for (size_t id = 0; id < t.values.size(); ++id)
      if (t.values[id].kind == ir::ValueKind::Constant) frame[id] = t.values[id].constant;
  }

  // create_graph: the functional trace runs once more, now under autograd, and is differentiated by
  // it.
  variable_list apply_with_graph(const variable_list& gradients) {
    TORCH_CHECK(!backward->raises,
                "one of the variables needed for gradient computation has been modified by an "
                "inplace operation in the compiled ",
                program->name(), " (FG-181: differentiating again needs every value)");
    const passes::GradientPart& part = *backward->part;
    const ir::Trace& t = *part.functional;
    TORCH_CHECK(!backward->draws_random_numbers || part.functional == program->parts().functional,
                "FG-192: create_graph through ", program->name(),
                ": the part of it between autograd.Functions draws random numbers, which are not "
                "drawn again");
    Frame frame(t.values.size());
    load_constants(t, frame);
    variable_list differentiable;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor& x = inputs[i];
      TORCH_CHECK(x.is_inference() || x._version() == versions[i],
                  "one of the variables needed for gradient computation has been modified by an "
                  "inplace operation: input ",
                  t.value(t.inputs[i]).name, " of the compiled ", program->name(),
                  " is at version ", x._version(), "; expected version ", versions[i],
                  " instead (FG-181: differentiating again needs every input)");
      frame[t.inputs[i]] = x;
    }
    for (size_t k = 0; k < input_numbers.size(); ++k)
      frame[t.inputs[inputs.size() + k]] = input_numbers[k];
    bool all_leaves = true;
    for (const at::Tensor& x : inputs) all_leaves = all_leaves && x.is_leaf();
    for (size_t k = 0; k < part.differentiable.size(); ++k) {
      const auto at = std::find(part.inputs.begin(), part.inputs.end(), part.differentiable[k]) -
                      part.inputs.begin();
      c10::IValue& x = frame[t.inputs[static_cast<size_t>(at)]];
      if (!all_leaves) x = start_of_part(x.toTensor(), k);
      differentiable.push_back(x.toTensor());
    }
    UnderAutograd under;
    at::Tensor state_now;
    if (random_state.defined()) {
      state_now = default_random_state();
      set_default_random_state(random_state);
    }
    std::vector<c10::IValue> stack;
    for (size_t i = 0; i < t.epilogue; ++i) {
      c10::AutoGradMode mode(t.binds[i].grad_mode || t.binds[i].op == prims::set_data());
      if (i < part.user_rules.size() && part.user_rules[i]) {
        run_ruled(t.binds[i], part.user_rules[i], frame);
      } else {
        ir::run_bind(t.binds[i], frame, stack);
      }
    }
    if (state_now.defined()) set_default_random_state(state_now);
    variable_list outputs, seeds;
    for (size_t k = 0; k < gradients.size(); ++k) {
      const at::Tensor o = frame[part.functional_attached[k]].toTensor();
      if (!gradients[k].defined() || !o.requires_grad()) continue;
      outputs.push_back(o);
      seeds.push_back(gradients[k]);
    }
    variable_list out(part.differentiable.size());
    if (outputs.empty()) return out;
    variable_list wanted;
    std::vector<size_t> where;
    for (size_t k = 0; k < differentiable.size(); ++k) {
      if (!task_should_compute_output(k)) continue;
      wanted.push_back(differentiable[k]);
      where.push_back(k);
    }
    variable_list found =
        torch::autograd::grad(outputs, wanted, seeds, /*retain_graph=*/true, /*create_graph=*/true,
                              /*allow_unused=*/true);
    for (size_t k = 0; k < where.size(); ++k) out[where[k]] = found[k];
    return out;
  }
};

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

std::vector<uint64_t> dependencies(const ir::Trace& t) {
  const std::vector<uint64_t> mask = cotangents_of_values(t);
  std::vector<uint64_t> out;
  for (ir::ValueId id : t.outputs)
    out.push_back(id == ir::kNoValue ? 0 : mask[id] == 0 ? ~uint64_t{0} : mask[id]);
  return out;
}

// The input of which the saved value `id` is a copy that was made because the call overwrites it.
ir::ValueId overwritten_input_copied_by(const ir::Trace& t, ir::ValueId id,
                                        const std::vector<bool>& overwritten) {
  for (size_t i = 0; i < t.epilogue; ++i) {
    const ir::Bind& b = t.binds[i];
    if (b.op.name() != "aten::clone" || std::get<ir::ValueId>(b.results[0]) != id) continue;
    const auto source = std::get<ir::ValueId>(b.args[0]);
    if (overwritten[static_cast<size_t>(source)]) return source;
  }
  return ir::kNoValue;
}

std::vector<ir::ValueId> all_attached(const passes::Lowered& parts) {
  std::vector<ir::ValueId> ids;
  for (const passes::GradientPart& p : parts.parts)
    ids.insert(ids.end(), p.attached.begin(), p.attached.end());
  return ids;
}

// By value: an input that the program writes.
std::vector<bool> overwritten_inputs(const passes::Lowered& parts) {
  const ir::Trace& t = *parts.forward;
  std::vector<bool> overwritten(t.values.size(), false);
  for (const ir::Bind& bind : t.binds) {
    if (bind.op == prims::set_grad()) continue;
    for (size_t a : ops::written_arguments(bind))
      ir::for_each_value(bind.args[a], [&](ir::ValueId id) {
        for (ir::ValueId input : t.inputs)
          if (input == id ||
              (t.value(id).storage >= 0 && t.value(id).storage == t.value(input).storage))
            overwritten[input] = true;
      });
  }
  for (const passes::LeafWrite& w : parts.leaf_writes)
    if (t.value(w.destination).kind == ir::ValueKind::Input) overwritten[w.destination] = true;
  return overwritten;
}

}  // namespace

Compiled::Compiled(Parts parts, std::shared_ptr<const FunctionHost> host)
    : parts_(std::move(parts)), rules_generation_(parts_.rules_generation), host_(std::move(host)) {
  const ir::Trace& t = *parts_.forward;
  std::vector<ir::ValueId> keep = all_used_after_core(t, all_attached(parts_));
  for (const passes::LeafWrite& w : parts_.leaf_writes)
    keep.insert(keep.end(), {w.result, w.source});
  core_ = std::make_unique<Plan>(t, 0, t.epilogue, keep);
  epilogue_ = std::make_unique<Plan>(t, t.epilogue, t.binds.size(), t.outputs);
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant)
      constants_.emplace_back(static_cast<ir::ValueId>(id), t.values[id].constant);
  history_ = history_plan(parts_);
  keeps_random_state_ = core_->draws_random_numbers();
  overwritten_ = overwritten_inputs(parts_);
  for (const passes::GradientPart& p : parts_.parts) backward_.push_back(backward_program(p));
}

BackwardProgram Compiled::backward_program(const passes::GradientPart& part) const {
  const ir::Trace& t = *parts_.forward;
  const ir::Trace& b = *part.backward;
  BackwardProgram out;
  out.part = &part;
  out.plan = std::make_unique<Plan>(b, 0, b.binds.size(), b.outputs);
  static const ir::Op overwritten = ir::Op::get("fulgurite::overwritten");
  for (const ir::Bind& x : b.binds) out.raises = out.raises || x.op == overwritten;
  for (const ir::Bind& x : part.functional->binds)
    out.draws_random_numbers = out.draws_random_numbers || ops::is_random(x.op);
  out.depends_on = dependencies(*part.differentiable_backward);
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
      s.copy_of = overwritten_input_copied_by(t, id, overwritten_);
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
    {
      BelowAutograd below;
      core_->run(frame);
    }
    if (!parts_.leaf_writes.empty()) give_leaves_values_of_their_own(frame);
    if (!history_.steps.empty()) attach(frame, random_state);
  } catch (...) {
    if (random_state.defined()) set_default_random_state(random_state);
    throw;
  }
  if (epilogue_->size() > 0) {
    UnderAutograd under;
    epilogue_->run(frame);
  }
  outputs.resize(t.outputs.size());
  for (size_t k = 0; k < t.outputs.size(); ++k)
    outputs[k] = t.outputs[k] == ir::kNoValue ? at::Tensor() : frame[t.outputs[k]].toTensor();
}

void Compiled::attach(Frame& frame, const at::Tensor& random_state) const {
  for (const HistoryStep& step : history_.steps) {
    if (step.is_function) {
      give_function_history(history_.functions[step.index], *host_, frame);
    } else {
      attach_part(step.index, frame, random_state);
    }
  }
}

void Compiled::attach_part(size_t k, Frame& frame, const at::Tensor& random_state) const {
  const BackwardProgram& b = backward_[k];
  const passes::GradientPart& part = *b.part;
  auto node = c10::make_intrusive<CompiledBackward>();
  node->program = shared_from_this();
  node->backward = &b;
  torch::autograd::edge_list edges;
  edges.reserve(part.differentiable.size());
  for (ir::ValueId id : part.differentiable)
    edges.push_back(torch::autograd::impl::gradient_edge(frame[id].toTensor()));
  node->set_next_edges(std::move(edges));
  for (ir::ValueId id : part.attached) {
    if (!history_.functions.empty()) frame[id] = tensor_of_its_own(frame[id].toTensor());
    torch::autograd::set_history(frame[id].toTensor(), node);
  }
  node->saved.resize(b.saved.size());
  if (b.saves_numbers) node->numbers.resize(b.saved.size());
  for (size_t s = 0; s < b.saved.size(); ++s) {
    const c10::IValue& v = frame[b.saved[s].value];
    if (b.saved[s].kind == SavedSlot::Kind::Number) {
      node->numbers[s] = v;
    } else {
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
