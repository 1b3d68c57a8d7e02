#include "passes/user_rules.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <sstream>

#include "ir/errors.h"
#include "ir/schema_args.h"
#include "ir/stack.h"
#include "ir/text.h"
#include "ops/traits.h"
#include "passes/cut_rule.h"
#include "passes/default_rule.h"
#include "passes/functionalize.h"
#include "passes/infer.h"
#include "passes/operator_call.h"
#include "record/recorder.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Bind;
using ir::kNoValue;
using ir::TensorType;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;
using rules::RuleError;

namespace {

std::string text(const TensorType& type) {
  ir::Value v;
  v.type = type;
  return ir::type_text(v);
}

// One tracing of one rule, known to the functions that are called by it.
class Tracing : public rules::Gradients {
 public:
  Tracing(const Trace& trace, const Bind& bind, std::string where)
      : trace_(trace),
        bind_(bind),
        where_(std::move(where)),
        slots_(slots_of(bind)),
        outer_(current) {
    current = this;
  }
  ~Tracing() override { current = outer_; }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  static Tracing& active(const char* what) {
    if (current == nullptr)
      throw RuleError("FG-329", std::string(what) +
                                    " was called outside a rule: it works while a rule is traced, "
                                    "for the operator of the rule");
    return *current;
  }
  static Tracing* current_or_null() { return current; }

  std::string place() const { return bind_.op.id() + (where_.empty() ? "" : " at " + where_); }

  std::shared_ptr<const Rule> run(const rules::Rule& rule, const std::vector<bool>& wanted) {
    rule_ = &rule;
    wanted_ = wanted;
    KeepRandomState keep;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    c10::InferenceMode no_inference(false);
    at::AutoGradMode no_grad(false);
    types_ = infer_types(trace_, bind_);
    record::Recorder recorder("rule");
    recorder_ = &recorder;
    make_samples();
    try {
      record::Recorder::Scope scope(recorder);
      // The write-back writes into a value of its own.
      for (const size_t a : ops::written_arguments(bind_))
        arguments_[a] = arguments_[a].toTensor().clone();
      if (rule.joint) {
        joint();
      } else {
        forward_and_backward();
      }
    } catch (const RuleError&) {
      throw;
    } catch (const c10::Error& e) {
      fail("FG-325", "raised an error: " + std::string(e.what_without_backtrace()));
    }
    return cut();
  }

  rules::Augmented default_forward(const std::vector<IValue>& arguments) {
    return default_rule().forward(arguments);
  }

  std::vector<at::Tensor> default_backward(const std::vector<IValue>& saved,
                                           const std::vector<at::Tensor>& cotangents) {
    const DefaultRule& rule = default_rule();
    if (saved.size() != rule.saves())
      fail("FG-324", "the default backward takes " + std::to_string(rule.saves()) +
                         " saved values, found " + std::to_string(saved.size()));
    if (!rule.has_its_cotangents(cotangents))
      fail("FG-324", "the default backward takes a cotangent of each floating result");
    return rule.backward(saved, cotangents);
  }

  // ---- rules::Gradients
  at::Tensor get_grad(const at::Tensor& result) override {
    for (const auto& [of, cotangent] : asked_)
      if (of.is_same(result)) return cotangent;
    record::Pause pause;
    if (!is_differentiable(result.scalar_type()))
      fail("FG-324", "get_grad of a tensor of dtype " +
                         std::string(c10::toString(result.scalar_type())) +
                         ", which has no gradient");
    at::Tensor g = sample(ir::type_of(result));
    recorder_->add_input(g, "g" + std::to_string(asked_.size()));
    asked_.emplace_back(result, g);
    return g;
  }

  void put_grad(const at::Tensor& argument, const at::Tensor& gradient) override {
    for (size_t s = 0; s < slots_.size(); ++s) {
      const IValue& given = arguments_[slots_[s].argument];
      const bool is_clone = given.isTensor() && given.toTensor().is_same(argument);
      if (slots_[s].flat < 0 || !(is_clone || sample_of(s).is_same(argument))) continue;
      at::Tensor& sum = put_.at(s);
      sum = sum.defined() ? sum.add(gradient) : gradient;
      return;
    }
    fail("FG-324", "put_grad of a tensor that is none of the arguments of the operator");
  }

 private:
  [[noreturn]] void fail(const char* code, const std::string& what) const {
    const std::string& name = !rule_           ? ""
                              : rule_->joint   ? rule_->joint_name
                              : in_backward_   ? rule_->backward_name
                              : rule_->forward ? rule_->forward_name
                                               : rule_->backward_name;
    throw RuleError(
        code, "the rule " + (name.empty() ? "" : name + " ") + "for " + place() + ": " + what);
  }

  void make_samples() {
    size_t flat = 0;
    auto one = [&](ValueId id) {
      samples_.emplace_back();
      if (id != kNoValue) {
        if (!trace_.value(id).is_tensor())
          fail("FG-324", "the operator takes a number that was read out of a tensor");
        TensorType type = trace_.value(id).tensor();
        samples_.back() = sample(type);
        recorder_->add_input(samples_.back(), "arg" + std::to_string(flat));
      }
      ++flat;
      return samples_.back();
    };
    const auto& schema = bind_.op.schema().arguments();
    for (size_t a = 0; a < bind_.args.size(); ++a) {
      if (const auto* id = std::get_if<ValueId>(&bind_.args[a])) {
        const at::Tensor t = one(*id);
        arguments_.push_back(t.defined() ? IValue(t) : IValue());
      } else if (const auto* list = std::get_if<ValueList>(&bind_.args[a])) {
        std::vector<at::Tensor> tensors;
        for (ValueId e : *list) tensors.push_back(one(e));
        arguments_.push_back(ir::boxed_list(
            std::vector<c10::IValue>(tensors.begin(), tensors.end()), schema[a].type()));
      } else {
        arguments_.push_back(std::get<IValue>(bind_.args[a]));
      }
    }
    put_.resize(slots_.size());
  }

  at::Tensor sample_of(size_t slot) const {
    return samples_.at(static_cast<size_t>(slots_[slot].flat));
  }

  std::vector<at::Tensor> flat_results(const std::vector<IValue>& results) const {
    const auto& returns = bind_.op.schema().returns();
    if (results.size() != returns.size())
      fail("FG-323", "the augmented forward gave " + std::to_string(results.size()) +
                         " results; expected " + std::to_string(returns.size()));
    return tensors_of(results);
  }

  void check(const std::string& what, const at::Tensor& t, const TensorType& expected) const {
    if (t.sizes() == at::IntArrayRef(expected.sizes) && t.scalar_type() == expected.dtype &&
        t.device() == expected.device)
      return;
    TensorType plain = expected;
    plain.strides = ir::default_strides(plain.sizes);
    plain.requires_grad = false;
    TensorType found = ir::type_of(t);
    found.strides = ir::default_strides(found.sizes);
    found.requires_grad = false;
    fail("FG-324", what + " is " + text(found) + "; expected " + text(plain));
  }

  void take_results(const std::vector<IValue>& results) {
    results_ = flat_results(results);
    if (results_.size() != types_.size())
      fail("FG-323", "the augmented forward gave " + std::to_string(results_.size()) +
                         " tensors; expected " + std::to_string(types_.size()));
    for (size_t r = 0; r < results_.size(); ++r) {
      if (!results_[r].defined()) fail("FG-323", "result " + std::to_string(r) + " is no tensor");
      check("result " + std::to_string(r), results_[r], types_[r]);
      results_[r] = conform(results_[r], types_[r]);
    }
  }

  void take_gradient(size_t slot, const at::Tensor& g) {
    if (!g.defined()) return;
    const Slot& s = slots_[slot];
    const auto& name = bind_.op.schema().arguments()[s.argument].name();
    if (s.flat < 0) return;  // a number has no gradient
    const at::Tensor of = sample_of(slot);
    if (!is_differentiable(of.scalar_type()))
      fail("FG-324", "there is a gradient for " + name + ", which is " + text(ir::type_of(of)) +
                         " and has none; expected None");
    TensorType expected = ir::type_of(of);
    check("the gradient of " + name, g, expected);
    if (static_cast<size_t>(s.flat) < wanted_.size() && !wanted_[static_cast<size_t>(s.flat)])
      return;
    gradients_of_.push_back(static_cast<size_t>(s.flat));
    gradients_.push_back(g.resolve_conj().resolve_neg());
  }

  void cotangents_of_results() {
    record::Pause pause;
    for (size_t r = 0; r < results_.size(); ++r) {
      cotangents_.emplace_back();
      if (!is_differentiable(types_[r].dtype)) continue;
      TensorType type = types_[r];
      cotangents_.back() = sample(type);
      recorder_->add_input(cotangents_.back(), "g" + std::to_string(r));
    }
  }

  void forward_and_backward() {
    rules::Augmented a;
    if (rule_->forward) {
      a = rule_->forward(arguments_);
      augmented_ = true;
    } else {
      a = default_forward(arguments_);
    }
    take_results(a.results);
    for (const IValue& v : a.saved)
      if (augmented_ && v.isTensor() && v.toTensor().defined()) saved_.push_back(v.toTensor());
    cotangents_of_results();
    in_backward_ = true;
    const std::vector<at::Tensor> gradients = rule_->backward
                                                  ? rule_->backward(a.saved, cotangents_)
                                                  : default_backward(a.saved, cotangents_);
    if (gradients.size() != slots_.size())
      fail("FG-323", "the backward gave " + std::to_string(gradients.size()) +
                         " gradients; expected " + std::to_string(slots_.size()) +
                         ", one for each tensor argument of " + signature() +
                         " (None where there is none)");
    for (size_t s = 0; s < slots_.size(); ++s) take_gradient(s, gradients[s]);
  }

  void joint() {
    const std::vector<IValue> results = rule_->joint(arguments_, *this);
    std::vector<at::Tensor> own = flat_results(results);
    augmented_ = true;
    take_results(results);
    for (const at::Tensor& r : own) {
      cotangents_.emplace_back();
      for (const auto& [of, g] : asked_)
        if (of.is_same(r)) cotangents_.back() = g;
    }
    for (const auto& [of, g] : asked_)
      if (std::none_of(own.begin(), own.end(), [&](const at::Tensor& r) { return r.is_same(of); }))
        fail("FG-324", "get_grad was asked of a tensor that the rule does not return");
    for (size_t s = 0; s < slots_.size(); ++s) take_gradient(s, put_[s]);
  }

  std::string signature() const {
    std::ostringstream out;
    out << bind_.op.schema();
    return out.str();
  }

  std::shared_ptr<const Rule> cut() {
    std::vector<at::Tensor> all = results_;
    for (const auto* group : {&saved_, &gradients_, &cotangents_})
      all.insert(all.end(), group->begin(), group->end());
    record::Recording recording = recorder_->finish(all, "");
    if (recording.refusal) fail("FG-326", "cannot be traced: " + recording.refusal->message());
    JointRun run;
    run.trace = recording.trace;
    if (std::any_of(run.trace->binds.begin(), run.trace->binds.end(),
                    [](const Bind& b) { return ops::is_mutable(b.op); }))
      run.trace = functionalize(*run.trace).trace;
    for (size_t i = run.trace->epilogue; i < run.trace->binds.size(); ++i)
      if (ops::is_mutable(run.trace->binds[i].op))
        fail("FG-326", "it writes into its arguments (" + run.trace->binds[i].op.id() +
                           "); expected a rule without effects");
    for (const record::External& e : recording.externals) {
      (void)e;
      fail("FG-326",
           "it uses a tensor that is neither an argument nor was made in the rule; expected "
           "torch operators on what it is given");
    }
    const auto& o = run.trace->outputs;
    auto next = o.begin();
    auto take = [&](std::vector<ValueId>& into, size_t count) {
      into.assign(next, next + static_cast<std::ptrdiff_t>(count));
      next += static_cast<std::ptrdiff_t>(count);
    };
    take(run.results, results_.size());
    take(run.saved, saved_.size());
    take(run.gradients, gradients_.size());
    take(run.cotangents, cotangents_.size());
    size_t input = 0;
    for (const at::Tensor& t : samples_)
      run.arguments.push_back(t.defined() ? run.trace->inputs.at(input++) : kNoValue);
    run.gradients_of = gradients_of_;
    run.augmented = augmented_;
    try {
      const auto rule = cut_rule(bind_, run, types_);
      rule->of_user = true;
      return rule;
    } catch (const Refusal& r) {
      fail("FG-326", "cannot be traced: " + r.message());
    }
  }

  const DefaultRule& default_rule() {
    if (!default_) default_ = std::make_unique<DefaultRule>(trace_, bind_, types_, place());
    return *default_;
  }

  static thread_local Tracing* current;

  const Trace& trace_;
  const Bind& bind_;
  std::string where_;
  std::vector<Slot> slots_;
  Tracing* outer_;
  const rules::Rule* rule_ = nullptr;
  record::Recorder* recorder_ = nullptr;
  bool in_backward_ = false;
  bool augmented_ = false;
  std::vector<bool> wanted_;
  std::vector<TensorType> types_;    // of the results, flat
  std::vector<at::Tensor> samples_;  // by flat argument
  std::vector<IValue> arguments_;
  std::vector<at::Tensor> results_, saved_, gradients_, cotangents_;
  std::vector<size_t> gradients_of_;
  std::vector<std::pair<at::Tensor, at::Tensor>> asked_;
  std::vector<at::Tensor> put_;  // by slot
  std::unique_ptr<const DefaultRule> default_;
};

thread_local Tracing* Tracing::current = nullptr;

}  // namespace

std::shared_ptr<const Rule> user_rule(const Trace& trace, const Bind& bind,
                                      const std::vector<bool>& wanted, const std::string& where) {
  const auto rule = rules::find(bind.op);
  if (!rule) return nullptr;
  return Tracing(trace, bind, where).run(*rule, wanted);
}

std::string rule_place() {
  const Tracing* t = Tracing::current_or_null();
  return t == nullptr ? "" : t->place();
}

rules::Augmented default_augmented_forward(const std::vector<IValue>& arguments) {
  return Tracing::active("a default augmented forward").default_forward(arguments);
}

std::vector<at::Tensor> default_backward(const std::vector<IValue>& saved,
                                         const std::vector<at::Tensor>& cotangents) {
  return Tracing::active("a default backward").default_backward(saved, cotangents);
}

rules::Gradients& gradients_of_rule() { return Tracing::active("get_grad or put_grad"); }

}  // namespace fulgurite::passes
