#include "run/ruled.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ir/errors.h"
#include "ir/stack.h"
#include "ops/rules.h"
#include "ops/traits.h"
#include "passes/infer.h"
#include "passes/operator_call.h"
#include "passes/user_rules.h"
#include "record/recorder.h"
#include "run/below_autograd.h"

namespace fulgurite::run {
namespace {

using c10::IValue;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Trace;
using ir::ValueId;
using passes::Rule;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

void load_constants(const Trace& t, std::vector<IValue>& env) {
  for (size_t id = 0; id < t.values.size(); ++id)
    if (t.values[id].kind == ir::ValueKind::Constant) env[id] = t.values[id].constant;
}

// Runs a rule's trace; operators in it may have rules themselves.
void run_trace(const Trace& t, std::vector<IValue>& env) {
  std::vector<IValue> stack;
  for (const Bind& b : t.binds) {
    if (c10::GradMode::is_enabled() && rules::find(b.op) && b.results.size() == 1 &&
        std::holds_alternative<ValueId>(b.results[0])) {
      stack.clear();
      ir::push_arguments(b, env, stack);
      if (apply_user_rule(b.op, stack, "")) {
        const auto id = std::get<ValueId>(b.results[0]);
        if (id != kNoValue) env[id] = stack.back();
        continue;
      }
    }
    ir::run_bind(b, env, stack);
  }
}

struct RuleBackward : torch::autograd::Node {
  std::shared_ptr<const Rule> rule;
  std::string of;
  std::vector<SavedVariable> saved;  // by input of the rule that is no cotangent
  std::vector<int> cotangent_of;     // by flat result: input of this node, -1: none
  bool released = false;

  std::string name() const override { return "RuleBackward[" + of + "]"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& s : saved) s.reset_data();
    released = !saved.empty();
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    variable_list out(rule->gradients_of.size());
    bool any = false;
    for (const at::Tensor& g : gradients) any = any || g.defined();
    if (!any) return out;
    const Trace& t = *rule->trace;
    std::vector<IValue> env(t.values.size());
    load_constants(t, env);
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    size_t s = 0;
    for (size_t i = 0; i < t.inputs.size(); ++i) {
      const Rule::Input& in = rule->inputs[i];
      const ir::TensorType& type = t.value(t.inputs[i]).tensor();
      if (in.source == Rule::Source::Cotangent) {
        const int k = cotangent_of.at(in.index);
        env[t.inputs[i]] =
            as_typed(k < 0 ? at::Tensor() : gradients.at(static_cast<size_t>(k)), type);
      } else {
        const bool own = in.source == Rule::Source::Result;
        env[t.inputs[i]] = saved[s++].unpack(own ? getptr() : nullptr);
      }
    }
    run_trace(t, env);
    for (size_t k = 0; k < out.size(); ++k)
      if (t.outputs[k] != kNoValue) out[k] = env[t.outputs[k]].toTensor();
    return out;
  }

  // A cotangent with the geometry that the rule was traced for.
  static at::Tensor as_typed(const at::Tensor& g, const ir::TensorType& type) {
    if (g.defined() && g.strides() == at::IntArrayRef(type.strides) &&
        g.scalar_type() == type.dtype)
      return g;
    at::Tensor out = at::empty_strided(type.sizes, type.strides,
                                       at::TensorOptions().dtype(type.dtype).device(type.device));
    return g.defined() ? out.copy_(g) : out.zero_();
  }
};

std::vector<at::Tensor> tensors_of(const std::vector<ValueId>& ids,
                                   const std::vector<IValue>& env) {
  std::vector<at::Tensor> out;
  for (ValueId id : ids)
    out.push_back(id == kNoValue || !env[id].isTensor() ? at::Tensor() : env[id].toTensor());
  return out;
}

// The forward of the rule, below autograd: what it saves.
std::vector<at::Tensor> run_forward(const Bind& bind, const Rule& rule,
                                    const std::vector<at::Tensor>& arguments,
                                    std::vector<IValue>& env) {
  const BelowAutograd below;
  std::vector<IValue> stack;
  if (!rule.forward) {
    ir::run_bind(bind, env, stack);
    return {};
  }
  const Trace& f = *rule.forward;
  std::vector<IValue> inner(f.values.size());
  load_constants(f, inner);
  for (size_t k = 0; k < f.inputs.size(); ++k)
    inner[f.inputs[k]] = arguments.at(rule.forward_arguments[k]);
  for (const Bind& b : f.binds) ir::run_bind(b, inner, stack);
  size_t next = 0;
  for (const ir::Result& r : bind.results) {
    const auto place = [&](ValueId id) {
      const ValueId from = f.outputs.at(next++);
      if (id != kNoValue && from != kNoValue) env[id] = inner[from];
    };
    if (const auto* id = std::get_if<ValueId>(&r)) {
      place(*id);
    } else {
      for (ValueId id_in_list : std::get<ir::ValueList>(r)) place(id_in_list);
    }
  }
  return tensors_of(f.saved, inner);
}

bool is_floating(const at::Tensor& t) {
  return at::isFloatingType(t.scalar_type()) || at::isComplexType(t.scalar_type());
}

// Values for the results of a bind that has none yet; `next` is the first free id.
void name_results(const passes::OneBind& one, Bind& bind, size_t& next) {
  const auto& returns = bind.op.schema().returns();
  size_t in_list = passes::infer_types(*one.trace, one.bind).size();
  for (const c10::Argument& r : returns)
    if (r.type()->kind() == c10::TypeKind::TensorType && in_list > 0) --in_list;
  for (const c10::Argument& r : returns) {
    if (r.type()->kind() != c10::TypeKind::ListType) {
      bind.results.emplace_back(static_cast<ValueId>(next++));
      continue;
    }
    ir::ValueList list;
    for (size_t k = 0; k < in_list; ++k) list.push_back(static_cast<ValueId>(next++));
    bind.results.emplace_back(std::move(list));
  }
}

bool wants_gradient(const std::vector<IValue>& stack, size_t first, const Op& op,
                    const std::string& where) {
  bool wanted = false;
  auto one = [&](const at::Tensor& t) {
    if (!t.defined() || !t.requires_grad()) return;
    wanted = true;
    if (t.layout() != at::kStrided || t.is_nested() ||
        t.key_set().has(c10::DispatchKey::FuncTorchGradWrapper) ||
        t.key_set().has(c10::DispatchKey::FuncTorchBatched) ||
        t.key_set().has(c10::DispatchKey::Python))
      throw rules::RuleError("FG-328", "the rule for " + op.id() +
                                           (where.empty() ? "" : " at " + where) +
                                           " meets a tensor of a kind that rules are not applied "
                                           "to (" +
                                           t.toString() +
                                           "); expected a strided, dense tensor outside "
                                           "torch.func transforms");
  };
  for (size_t i = first; i < stack.size(); ++i) {
    if (stack[i].isTensor()) one(stack[i].toTensor());
    if (stack[i].isTensorList() || stack[i].isOptionalTensorList())
      for (const IValue& e : stack[i].toListRef())
        if (e.isTensor()) one(e.toTensor());
  }
  return wanted;
}

// x.mul_(w) under the rule of mul: x.copy_(mul(x, w)), which passes the gradient on.
void apply_in_place(const Op& op, const ops::Functional& functional, std::vector<IValue>& stack,
                    size_t first, const std::string& where) {
  std::vector<IValue> given(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
  std::vector<IValue> arguments;
  for (int a : functional.argument_of) {
    IValue v = given.at(static_cast<size_t>(a));
    // The rule may save it, and it is overwritten.
    if (ops::writes_argument(op, static_cast<size_t>(a)) && v.isTensor()) v = v.toTensor().clone();
    arguments.push_back(std::move(v));
  }
  if (!apply_user_rule(functional.op, arguments, where))
    throw InternalError("the rule of " + functional.op.id() + " does not apply");
  size_t result = 0;
  std::vector<IValue> written;
  for (size_t a = 0; a < given.size(); ++a) {
    if (!ops::writes_argument(op, a) || !given[a].isTensor()) continue;
    at::Tensor target = given[a].toTensor();
    target.copy_(arguments.at(result++).toTensor());
    written.emplace_back(target);
  }
  stack.resize(first);
  const size_t returns = op.schema().returns().size();
  for (size_t r = 0; r < returns; ++r) stack.push_back(written.at(r));
}

struct Install {
  Install() { record::set_rule_hook(&apply_user_rule); }
};
const Install install;  // the recorder is below this layer

}  // namespace

void run_ruled(const Bind& bind, const std::shared_ptr<const Rule>& rule,
               std::vector<IValue>& env) {
  std::vector<ValueId> argument_ids, result_ids;
  for (const ir::Arg& a : bind.args) {
    if (const auto* id = std::get_if<ValueId>(&a)) argument_ids.push_back(*id);
    if (const auto* list = std::get_if<ir::ValueList>(&a))
      argument_ids.insert(argument_ids.end(), list->begin(), list->end());
  }
  for (const ir::Result& r : bind.results) {
    if (const auto* id = std::get_if<ValueId>(&r)) result_ids.push_back(*id);
    if (const auto* list = std::get_if<ir::ValueList>(&r))
      result_ids.insert(result_ids.end(), list->begin(), list->end());
  }
  const std::vector<at::Tensor> arguments = tensors_of(argument_ids, env);
  const std::vector<at::Tensor> saved = run_forward(bind, *rule, arguments, env);
  auto node = c10::make_intrusive<RuleBackward>();
  node->rule = rule;
  node->of = bind.op.id();
  torch::autograd::edge_list edges;
  for (size_t k : rule->gradients_of) {
    const at::Tensor& t = arguments.at(k);
    edges.push_back(t.requires_grad() ? torch::autograd::impl::gradient_edge(t)
                                      : torch::autograd::Edge());
  }
  node->set_next_edges(std::move(edges));
  int inputs = 0;
  for (ValueId id : result_ids) {
    node->cotangent_of.push_back(-1);
    if (id == kNoValue || !env[id].isTensor()) continue;
    at::Tensor t = env[id].toTensor();
    if (!t.defined() || !is_floating(t)) continue;
    for (const at::Tensor& a : arguments)
      if (a.is_same(t)) {
        const BelowAutograd below;
        t = at::alias(t);
      }
    env[id] = t;
    node->cotangent_of.back() = inputs++;
    torch::autograd::set_history(t, node);
  }
  for (const Rule::Input& in : rule->inputs) {
    if (in.source == Rule::Source::Cotangent) continue;
    const at::Tensor t = in.source == Rule::Source::Argument ? arguments.at(in.index)
                         : in.source == Rule::Source::Saved
                             ? saved.at(in.index)
                             : env[result_ids.at(in.index)].toTensor();
    node->saved.emplace_back(t, in.source == Rule::Source::Result && t.requires_grad());
  }
}

bool apply_user_rule(const Op& op, std::vector<IValue>& stack, const std::string& where) {
  if (!c10::GradMode::is_enabled() || !rules::any()) return false;
  const size_t first = stack.size() - op.schema().arguments().size();
  if (!rules::find(op)) {
    if (!ops::is_mutable(op)) return false;
    const auto functional = ops::functional_variant(op);
    if (!functional || !rules::find(functional->op) || !wants_gradient(stack, first, op, where))
      return false;
    apply_in_place(op, *functional, stack, first, where);
    return true;
  }
  if (!wants_gradient(stack, first, op, where)) return false;
  const passes::OneBind one = passes::one_bind(
      op, std::vector<IValue>(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end()));
  std::vector<bool> wanted;
  for (ValueId id : passes::tensor_arguments(*one.trace, one.bind))
    wanted.push_back(id != kNoValue && one.trace->value(id).tensor().requires_grad);
  const auto rule = passes::user_rule(*one.trace, one.bind, wanted, where);
  if (!rule) return false;
  Bind bind = one.bind;
  size_t next = one.trace->values.size();
  name_results(one, bind, next);
  std::vector<IValue> env(next);
  for (size_t i = 0; i < one.tensors.size(); ++i) env[one.trace->inputs[i]] = one.tensors[i];
  run_ruled(bind, rule, env);
  stack.resize(first);
  for (const ir::Result& r : bind.results) {
    if (const auto* id = std::get_if<ValueId>(&r)) {
      stack.push_back(env[*id].isNone() ? IValue(at::Tensor()) : env[*id]);
    } else {
      c10::List<at::Tensor> list;
      for (ValueId id_in_list : std::get<ir::ValueList>(r))
        list.push_back(env[id_in_list].toTensor());
      stack.emplace_back(std::move(list));
    }
  }
  return true;
}

}  // namespace fulgurite::run
