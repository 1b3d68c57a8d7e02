#include "run/history.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/alias.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/errors.h"
#include "ir/stack.h"
#include "ops/prims.h"
#include "ops/shared_memory.h"
#include "ops/traits.h"
#include "run/below_autograd.h"

namespace fulgurite::run {
namespace {

using ir::Bind;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

// The node of a boundary. Hooks on its result are hooks on it.
struct Hooks : torch::autograd::Node {
  std::string name() const override { return "Hooks"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

FunctionStep function_step(const Bind& b) {
  FunctionStep s;
  s.call = std::get<c10::IValue>(b.args[1]).toInt();
  s.inputs = std::get<ValueList>(b.args[2]);
  s.outputs = std::get<ValueList>(b.args[3]);
  s.saved = std::get<ValueList>(b.args[4]);
  s.view_of = std::get<c10::IValue>(b.args[5]).toIntVector();
  s.written = std::get<c10::IValue>(b.args[6]).toIntVector();
  s.results = std::get<ValueList>(b.results[0]);
  return s;
}

class Ordering {
 public:
  explicit Ordering(const passes::Lowered& parts) : parts_(parts), t_(*parts.forward) {
    producer_.assign(t_.values.size(), nullptr);
    for (const Bind& b : t_.binds) for_each_result(b, [&](ValueId id) { producer_[id] = &b; });
  }

  HistoryPlan run() {
    for (size_t i = 0; i < t_.epilogue; ++i) add_step(t_.binds[i]);
    if (plan_.has_steps()) share_counters();
    order();
    return std::move(plan_);
  }

 private:
  using Kind = HistoryStep::Kind;

  void add_step(const Bind& b) {
    if (b.op == prims::function()) plan_.functions.push_back(function_step(b));
    if (b.op == prims::leaf()) {
      LeafStep s{std::get<ValueId>(b.args[0]), std::get<ValueId>(b.results[0])};
      s.is_argument = std::get<c10::IValue>(b.args[1]).toBool();
      plan_.leaves.push_back(std::move(s));
    }
    if (b.op == prims::boundary()) plan_.boundaries.push_back(boundary_step(b));
    if (b.op == prims::argument()) plan_.arguments.push_back(argument_step(b));
  }

  BoundaryStep boundary_step(const Bind& b) const {
    BoundaryStep s{std::get<c10::IValue>(b.args[1]).toInt(), std::get<ValueId>(b.args[0]),
                   std::get<ValueId>(b.results[0])};
    const auto* base = std::get_if<ValueId>(&b.args[2]);
    if (base == nullptr || *base == ir::kNoValue) return s;
    s.base = *base;
    for (ValueId id = s.value; id != s.base;) {
      const Bind* view = producer_[id];
      if (view == nullptr || !std::holds_alternative<ValueId>(view->args[0]))
        throw InternalError("a tensor with hooks is no view of its base");
      s.views.insert(s.views.begin(), view);
      id = std::get<ValueId>(view->args[0]);
    }
    return s;
  }

  ArgumentStep argument_step(const Bind& b) const {
    ArgumentStep s{std::get<ValueId>(b.args[0]), std::get<ValueId>(b.args[1]),
                   std::get<ValueId>(b.results[0])};
    if (const auto* written = std::get_if<ValueId>(&b.args[2])) s.written = *written;
    if (s.written != ir::kNoValue) return s;
    for (size_t i = t_.epilogue; i < t_.binds.size(); ++i) {
      const Bind& x = t_.binds[i];
      bool takes = x.op == prims::bump_version_();
      for_each_arg(x, [&](ValueId id) { takes = takes || id == s.result; });
      for (size_t a : ops::written_arguments(x))
        if (const auto* id = std::get_if<ValueId>(&x.args[a]); id && *id == s.argument && takes)
          s.write_back.push_back(i - t_.epilogue);
    }
    if (s.write_back.empty())
      throw InternalError("an argument that the program goes on with is not written back");
    return s;
  }

  // What a step gives a history, and of what it needs the history.
  using Ids = std::vector<ValueId>;
  Ids given(const HistoryStep& s) const {
    if (s.kind == Kind::Part) return parts_.parts[s.index].attached;
    if (s.kind == Kind::Leaf) return {plan_.leaves[s.index].result};
    if (s.kind == Kind::Boundary) return {plan_.boundaries[s.index].result};
    if (s.kind == Kind::Argument) return {plan_.arguments[s.index].result};
    const FunctionStep& f = plan_.functions[s.index];
    return {f.results.begin(), f.results.end()};
  }
  Ids needed(const HistoryStep& s) const {
    if (s.kind == Kind::Part) return parts_.parts[s.index].differentiable;
    if (s.kind == Kind::Leaf) return {};
    if (s.kind == Kind::Boundary) {
      const BoundaryStep& b = plan_.boundaries[s.index];
      return {b.base != ir::kNoValue ? b.base : b.value};
    }
    if (s.kind == Kind::Argument) {
      const ArgumentStep& a = plan_.arguments[s.index];
      return {a.written != ir::kNoValue ? a.written : a.value};
    }
    const FunctionStep& f = plan_.functions[s.index];
    Ids ids(f.inputs.begin(), f.inputs.end());
    ids.insert(ids.end(), f.saved.begin(), f.saved.end());
    return ids;
  }

  void order() {
    std::vector<HistoryStep> waiting;
    for (size_t k = 0; k < plan_.leaves.size(); ++k) waiting.push_back({Kind::Leaf, k});
    for (size_t k = 0; k < parts_.parts.size(); ++k) waiting.push_back({Kind::Part, k});
    for (size_t k = 0; k < plan_.functions.size(); ++k) waiting.push_back({Kind::Function, k});
    for (size_t k = 0; k < plan_.boundaries.size(); ++k) waiting.push_back({Kind::Boundary, k});
    for (size_t k = 0; k < plan_.arguments.size(); ++k) waiting.push_back({Kind::Argument, k});
    std::set<ValueId> missing;
    for (const HistoryStep& s : waiting)
      for (ValueId id : given(s)) missing.insert(id);
    while (!waiting.empty()) {
      auto ready = std::find_if(waiting.begin(), waiting.end(), [&](const HistoryStep& s) {
        const Ids ids = needed(s);
        return std::none_of(ids.begin(), ids.end(),
                            [&](ValueId id) { return missing.count(id) > 0; });
      });
      if (ready == waiting.end())
        throw InternalError("the parts of the gradient depend on each other in a circle");
      for (ValueId id : given(*ready)) missing.erase(id);
      plan_.steps.push_back(*ready);
      waiting.erase(ready);
    }
  }

  void share_counters() {
    std::set<ValueId> held(t_.inputs.begin(), t_.inputs.end());
    held.insert(t_.outputs.begin(), t_.outputs.end());
    for (const auto& part : parts_.parts) held.insert(part.attached.begin(), part.attached.end());
    for (const FunctionStep& f : plan_.functions)
      for (const ValueList* ids : {&f.inputs, &f.results, &f.saved})
        held.insert(ids->begin(), ids->end());
    for (const LeafStep& s : plan_.leaves) held.insert(s.value);
    const ops::MemoryBases bases(t_);
    auto share = [&](ValueId id, SameCounter& same) {
      const std::vector<ValueId> above = bases.counted_bases(id);
      const auto base =
          std::find_if(above.rbegin(), above.rend(), [&](ValueId b) { return held.count(b) > 0; });
      if (base != above.rend()) same.emplace_back(id, *base);
    };
    for (FunctionStep& f : plan_.functions)
      for (const ValueList* ids : {&f.inputs, &f.saved})
        for (ValueId id : *ids) share(id, f.same_counter);
    for (LeafStep& s : plan_.leaves) share(s.value, s.same_counter);
  }

  const passes::Lowered& parts_;
  const Trace& t_;
  std::vector<const Bind*> producer_;
  HistoryPlan plan_;
};

}  // namespace

// Another value of the frame may be the same tensor; its history is another.
at::Tensor tensor_of_its_own(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  if (t.is_inference()) return t;
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(),
                                                  /*allow_tensor_metadata_change=*/true));
}

void share_version_counter(const at::Tensor& view, const at::Tensor& base) {
  if (view.is_same(base) || view.is_inference() || base.is_inference()) return;
  view.unsafeGetTensorImpl()->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
}

HistoryPlan history_plan(const passes::Lowered& parts) { return Ordering(parts).run(); }

namespace {

void share_counters(const SameCounter& same, const Frame& frame) {
  for (auto [id, root] : same) share_version_counter(frame[id].toTensor(), frame[root].toTensor());
}

}  // namespace

void make_leaf(const LeafStep& step, Frame& frame) {
  share_counters(step.same_counter, frame);
  const at::Tensor& value = frame[step.value].toTensor();
  at::Tensor leaf = step.is_argument ? value : tensor_of_its_own(value);
  leaf.set_requires_grad(true);
  frame[step.result] = std::move(leaf);
}

void take_leaves_back(const HistoryPlan& plan, Frame& frame) {
  for (const LeafStep& step : plan.leaves)
    if (step.is_argument && frame[step.value].isTensor())
      frame[step.value].toTensor().set_requires_grad(false);
}

namespace {

// The views of a boundary, of its base with the history that it has now.
at::Tensor taken_again(const BoundaryStep& step, Frame& frame) {
  std::vector<std::pair<ValueId, c10::IValue>> before;
  for (const Bind* b : step.views)
    for_each_result(*b, [&](ValueId id) { before.emplace_back(id, frame[id]); });
  const UnderAutograd under;
  const c10::AutoGradMode grad(true);
  std::vector<c10::IValue> stack;
  for (const Bind* b : step.views) ir::run_bind(*b, frame, stack);
  at::Tensor view = frame[step.value].toTensor();
  if (step.views.empty()) view = at::alias(view);  // it has the geometry of its base
  for (auto& [id, value] : before) frame[id] = std::move(value);
  return view;
}

}  // namespace

void make_boundary(const BoundaryStep& step, const FunctionHost* host, Frame& frame) {
  at::Tensor result;
  if (step.base != ir::kNoValue) result = taken_again(step, frame);
  if (!result.defined() || !result.requires_grad()) {
    const at::Tensor& value = frame[step.value].toTensor();
    result = tensor_of_its_own(value);
    auto node = c10::make_intrusive<Hooks>();
    node->add_next_edge(torch::autograd::impl::gradient_edge(value));
    torch::autograd::set_history(result, node);
  }
  if (host != nullptr && step.number >= 0) host->hooked(step.number, result);
  frame[step.result] = std::move(result);
}

void give_argument_history(const ArgumentStep& step, const Plan& epilogue, Frame& frame) {
  const at::Tensor argument = frame[step.argument].toTensor();
  if (!step.write_back.empty()) {
    frame[step.result] = frame[step.value];  // what the write-back copies
    const UnderAutograd under;
    epilogue.run(frame, step.write_back);
    frame[step.argument] = argument;
  }
  frame[step.result] = argument;
}

void give_function_history(const FunctionStep& step, const FunctionHost& host, Frame& frame) {
  share_counters(step.same_counter, frame);
  FunctionTensors tensors;
  for (ValueId id : step.inputs) tensors.inputs.push_back(frame[id].toTensor());
  UnderAutograd under;
  {
    c10::AutoGradMode no_grad(false);
    for (size_t k = 0; k < step.outputs.size(); ++k) {
      const at::Tensor& computed = frame[step.outputs[k]].toTensor();
      if (step.view_of[k] >= 0) {
        // As in the forward: a view that was taken without grad mode.
        const at::Tensor& base = tensors.inputs[static_cast<size_t>(step.view_of[k])];
        if (!computed.is_alias_of(base))
          throw InternalError("the view that an autograd.Function returns is a copy");
        tensors.outputs.push_back(
            base.as_strided(computed.sizes(), computed.strides(), computed.storage_offset()));
      } else if (step.view_of[k] == -2) {
        tensors.outputs.push_back(
            computed.as_strided(computed.sizes(), computed.strides(), computed.storage_offset()));
      } else {
        tensors.outputs.push_back(tensor_of_its_own(computed));
      }
    }
  }
  for (ValueId id : step.saved) {
    at::Tensor t = frame[id].toTensor();
    for (size_t k = 0; k < step.inputs.size(); ++k)
      if (step.inputs[k] == id) t = tensors.inputs[k];
    for (size_t k = 0; k < step.outputs.size(); ++k)
      if (step.outputs[k] == id && step.view_of[k] < 0) t = tensors.outputs[k];
    tensors.saved.push_back(std::move(t));
  }
  c10::AutoGradMode grad(true);
  const std::vector<at::Tensor> results = host.give_history(step.call, tensors);
  for (size_t k = 0; k < step.results.size(); ++k)
    if (step.results[k] != ir::kNoValue) frame[step.results[k]] = results.at(k);
}

}  // namespace fulgurite::run
