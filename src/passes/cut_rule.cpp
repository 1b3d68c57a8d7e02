#include "passes/cut_rule.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/builder.h"
#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::passes {
namespace {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

// Takes some binds of the joint trace over into a trace of their own.
class Part {
 public:
  Part(const Trace& joint, const Bind& of, const std::string& name, ir::TraceKind kind)
      : joint_(joint), of_(of), b_(name, "rule"), ids_(joint.values.size(), kNoValue) {
    b_.trace().kind = kind;
    b_.trace().functional = true;
  }

  bool has(ValueId id) const { return ids_[id] != kNoValue; }

  void input(ValueId id, std::string name, std::optional<ir::ScalarKind> number = {}) {
    ir::Value v;
    v.type = joint_.value(id).type;
    if (number) v.type = *number;
    v.name = std::move(name);
    ids_[id] = b_.add_input(std::move(v));
  }

  ValueId value(ValueId id) {
    if (id == kNoValue || has(id)) return id == kNoValue ? kNoValue : ids_[id];
    const ir::Value& v = joint_.value(id);
    if (v.kind == ir::ValueKind::Constant) return ids_[id] = b_.add_constant(v.constant);
    if (v.kind == ir::ValueKind::Input)
      throw Refusal("FG-172", of_.op.id() +
                                  ": its gradient uses a tensor that is neither argument nor "
                                  "result");
    ir::Value copy;
    copy.type = v.type;
    if (v.is_tensor()) std::get<ir::TensorType>(copy.type).requires_grad = false;
    return ids_[id] = b_.add_value(std::move(copy));
  }

  void bind(const Bind& x) {
    if (ops::is_value_guard(x.op))
      throw Refusal("FG-173", of_.op.id() + ": its gradient formula depends on the data");
    Bind copy{ops::differentiable_variant(x.op), {}, {}, -1, -1, false};
    const size_t count = std::min(x.args.size(), copy.op.schema().arguments().size());
    for (size_t a = 0; a < count; ++a) copy.args.push_back(map(x.args[a]));
    for (const ir::Result& r : x.results) copy.results.push_back(map(r));
    b_.add_bind(std::move(copy));
  }

  // A new value of this type from `from`, which is a value of the part.
  ValueId emit(const Op& op, std::vector<Arg> args, ir::TensorType type) {
    ir::Value v;
    type.requires_grad = false;
    v.type = std::move(type);
    const ValueId id = b_.add_value(std::move(v));
    b_.add_bind(Bind{op, std::move(args), {ir::Result(id)}, -1, -1, false});
    return id;
  }

  Trace& trace() { return b_.trace(); }
  const ir::TensorType& type(ValueId id) const { return b_.value(id).tensor(); }
  ir::TracePtr finish() { return b_.finish(); }

 private:
  template <class T>
  T map(const T& a) {
    T copy = a;
    if (auto* id = std::get_if<ValueId>(&copy)) *id = value(*id);
    if (auto* list = std::get_if<ValueList>(&copy))
      for (ValueId& id : *list) id = value(id);
    return copy;
  }

  const Trace& joint_;
  const Bind& of_;
  ir::TraceBuilder b_;
  std::vector<ValueId> ids_;
};

class Cutter {
 public:
  Cutter(const Bind& bind, const JointRun& run, const std::vector<ir::TensorType>& types)
      : bind_(bind), run_(run), joint_(*run.trace), types_(types) {}

  std::shared_ptr<Rule> run() {
    rule_->gradients_of = run_.gradients_of;
    given_.assign(joint_.values.size(), false);
    for (const auto* group : {&run_.arguments, &run_.results, &run_.cotangents})
      for (ValueId id : *group)
        if (id != kNoValue) given_[id] = true;
    in_forward_.assign(joint_.binds.size(), false);
    if (run_.augmented) find_forward();
    find_backward();
    if (run_.augmented) forward();
    backward();
    return rule_;
  }

 private:
  // What the results and the saved values need. An effect before the last such bind belongs to it.
  void find_forward() {
    std::vector<bool> needed(joint_.values.size(), false);
    for (const auto* group : {&run_.results, &run_.saved})
      for (ValueId id : *group)
        if (id != kNoValue) needed[id] = true;
    bool any = false;
    for (size_t i = joint_.binds.size(); i-- > 0;) {
      const Bind& x = joint_.binds[i];
      bool wanted = any && ops::has_effect(x.op);
      ops::for_each_made(x, [&](ValueId id) { wanted = wanted || needed[id]; });
      if (!wanted) continue;
      any = true;
      in_forward_[i] = true;
      for_each_arg(x, [&](ValueId id) { needed[id] = true; });
      for_each_result(x, [&](ValueId id) { of_forward(id); });
    }
  }

  void of_forward(ValueId id) {
    if (of_forward_.empty()) of_forward_.assign(joint_.values.size(), false);
    of_forward_[id] = true;
  }

  bool is_of_forward(ValueId id) const { return !of_forward_.empty() && of_forward_[id]; }

  // Does it guard a number that the operator itself returns? The program has a guard for it
  // already.
  bool guards_own_result(const Bind& x) const {
    if (!ops::is_value_guard(x.op)) return false;
    bool own = false;
    for_each_arg(x, [&](ValueId guarded) {
      for (const Bind& b : joint_.binds)
        if (b.op == bind_.op) for_each_result(b, [&](ValueId id) { own = own || id == guarded; });
    });
    return own;
  }

  // From the gradients backwards, stopping at arguments, results and what the forward computes.
  void find_backward() {
    needed_.assign(joint_.values.size(), false);
    in_backward_.assign(joint_.binds.size(), false);
    for (ValueId id : run_.gradients)
      if (id != kNoValue) needed_[id] = true;
    for (size_t i = joint_.binds.size(); i-- > 0;) {
      const Bind& x = joint_.binds[i];
      if (in_forward_[i]) continue;
      bool wanted = ops::has_effect(x.op) && !(x.op == bind_.op) && !guards_own_result(x);
      for_each_result(x, [&](ValueId id) { wanted = wanted || (needed_[id] && !given_[id]); });
      if (!wanted) continue;
      in_backward_[i] = true;
      for_each_arg(x, [&](ValueId id) { needed_[id] = true; });
    }
    for (size_t id = 0; id < joint_.values.size(); ++id)
      if (needed_[id] && !given_[id] && is_of_forward(static_cast<ValueId>(id)))
        saved_.push_back(static_cast<ValueId>(id));
  }

  std::optional<ir::ScalarKind> number(size_t argument) const {
    return argument < run_.numbers.size() ? run_.numbers[argument] : std::nullopt;
  }

  void forward() {
    Part part(joint_, bind_, "augmented_forward_" + bind_.op.base_name(),
              ir::TraceKind::AugmentedForward);
    std::vector<bool> used(joint_.values.size(), false);
    for (size_t i = 0; i < joint_.binds.size(); ++i)
      if (in_forward_[i]) for_each_arg(joint_.binds[i], [&](ValueId id) { used[id] = true; });
    for (ValueId id : run_.results)
      if (id != kNoValue) used[id] = true;
    for (size_t k = 0; k < run_.arguments.size(); ++k) {
      const ValueId id = run_.arguments[k];
      if (id == kNoValue || !used[id] || part.has(id)) continue;
      part.input(id, "arg" + std::to_string(k), number(k));
      rule_->forward_arguments.push_back(k);
    }
    for (size_t i = 0; i < joint_.binds.size(); ++i)
      if (in_forward_[i]) part.bind(joint_.binds[i]);
    std::vector<bool> taken(joint_.values.size(), false);
    for (size_t r = 0; r < run_.results.size(); ++r) {
      const ValueId id = run_.results[r];
      if (id == kNoValue) {
        part.trace().outputs.push_back(kNoValue);
        continue;
      }
      part.trace().outputs.push_back(
          own_result(part, part.value(id), types_.at(r), !is_of_forward(id) || taken[id]));
      taken[id] = true;
    }
    for (ValueId id : saved_) part.trace().saved.push_back(part.value(id));
    rule_->forward = part.finish();
  }

  // A result gets a history of its own: it must not be an argument, a constant or another result.
  static ValueId own_result(Part& part, ValueId id, const ir::TensorType& wanted, bool shared) {
    static const Op clone = Op::get("aten::clone");
    ir::TensorType type = part.type(id);
    if (shared) {
      if (!type.is_dense()) type.strides = ir::default_strides(type.sizes);
      id = part.emit(clone, {Arg(id), Arg(IValue())}, type);
    }
    if (type.strides == wanted.strides) return id;
    type.strides = wanted.strides;
    const IValue strides(std::vector<int64_t>(wanted.strides.begin(), wanted.strides.end()));
    return part.emit(prims::conform(),
                     {Arg(id), Arg(IValue(static_cast<int64_t>(type.dtype))), Arg(strides)}, type);
  }

  void backward() {
    Part part(joint_, bind_, "backward_" + bind_.op.base_name(), ir::TraceKind::Rule);
    auto give = [&](const std::vector<ValueId>& group, Rule::Source source, const char* name) {
      for (size_t k = 0; k < group.size(); ++k) {
        if (group[k] == kNoValue || !needed_[group[k]] || part.has(group[k])) continue;
        const bool is_argument = source == Rule::Source::Argument;
        part.input(group[k], name + std::to_string(k),
                   is_argument ? number(k) : std::optional<ir::ScalarKind>());
        rule_->inputs.push_back({source, k});
        if (source != Rule::Source::Cotangent) ++part.trace().num_saved_inputs;
      }
    };
    give(run_.arguments, Rule::Source::Argument, "arg");
    give(run_.results, Rule::Source::Result, "result");
    give(saved_, Rule::Source::Saved, "saved");
    give(run_.cotangents, Rule::Source::Cotangent, "g");
    for (size_t i = 0; i < joint_.binds.size(); ++i)
      if (in_backward_[i]) part.bind(joint_.binds[i]);
    for (ValueId g : run_.gradients) part.trace().outputs.push_back(part.value(g));
    rule_->trace = part.finish();
  }

  const Bind& bind_;
  const JointRun& run_;
  const Trace& joint_;
  const std::vector<ir::TensorType>& types_;
  std::shared_ptr<Rule> rule_ = std::make_shared<Rule>();
  std::vector<bool> given_, needed_, in_forward_, in_backward_, of_forward_;
  std::vector<ValueId> saved_;
};

}  // namespace

std::shared_ptr<Rule> cut_rule(const Bind& bind, const JointRun& joint,
                               const std::vector<ir::TensorType>& result_types) {
  return Cutter(bind, joint, result_types).run();
}

}  // namespace fulgurite::passes
