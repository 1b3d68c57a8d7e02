#include "passes/differentiate.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/builder.h"
#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/checkpoint.h"
#include "passes/derive.h"
#include "passes/functional/overlap.h"
#include "passes/infer.h"
#include "passes/overwritten_needs.h"
#include "passes/user_rules.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Result;
using ir::TensorType;
using ir::Trace;
using ir::Value;
using ir::ValueId;
using ir::ValueList;

std::vector<ValueId> attached_values(const Trace& t) {
  std::vector<bool> in_core(t.values.size(), false);
  for (size_t i = 0; i < t.epilogue; ++i)
    for_each_result(t.binds[i], [&](ValueId id) { in_core[id] = true; });
  std::vector<ValueId> attached;
  auto leaves = [&](ValueId id) {
    if (id == kNoValue || !in_core[id] || !t.value(id).is_tensor() ||
        !t.value(id).tensor().requires_grad)
      return;
    if (std::find(attached.begin(), attached.end(), id) == attached.end()) attached.push_back(id);
  };
  for (size_t i = t.epilogue; i < t.binds.size(); ++i)
    if ((t.binds[i].grad_mode || ops::is_view(t.binds[i].op)) && !ops::cuts_gradient(t.binds[i].op))
      for_each_arg(t.binds[i], leaves);
  for (ValueId id : t.outputs) leaves(id);
  return attached;
}

namespace {

class Differentiator {
 public:
  Differentiator(const Functionalized& f, bool to_read, bool separate)
      : to_read_(to_read),
        separate_(separate),
        in_(*f.trace),
        overwritten_(f),
        b_(in_, "differentiate"),
        cotangent_(in_.values.size(), kNoValue) {}

  Joint run() {
    Joint joint;
    joint.forward_inputs = in_.inputs.size();
    joint.forward_outputs = in_.outputs.size();
    find_active();
    parts_ = gradient_parts(in_, active_, attached_values(in_), to_read_, separate_);
    gradients_.resize(parts_.count);

    rules_.resize(in_.binds.size());
    for (size_t i = 0; i < in_.epilogue; ++i) forward(i);
    for (const auto& attached : parts_.attached) {
      for (ValueId id : attached) {
        Value g;
        g.name = "g_" + in_.value(id).name;
        TensorType type = in_.value(id).tensor();
        type.requires_grad = false;
        if (overlaps_itself(type)) type.strides = ir::default_strides(type.sizes);
        g.type = type;
        part_ = parts_.of_value[id];
        accumulate(id, b_.add_input(std::move(g)));
      }
    }
    for (size_t i = in_.epilogue; i-- > 0;) backward(i);
    for (size_t p = 0; p < parts_.count; ++p) joint.parts.push_back(node_values(p));
    for (size_t p = 0; p < parts_.count; ++p)
      for (ValueId id : joint.parts[p].differentiable)
        b_.trace().outputs.push_back(gradient(p, id));
    b_.begin_epilogue();
    keep_for_history();
    for (size_t i = in_.epilogue; i < in_.binds.size(); ++i) b_.add_bind(in_.binds[i]);
    joint.trace = b_.finish();
    joint.user_rules = std::move(rules_);
    joint.partition = std::move(parts_);
    return joint;
  }

 private:
  // An only part gives a gradient, or None, for every input that requires grad.
  NodeValues node_values(size_t part) const {
    NodeValues n{parts_.attached[part], {}};
    if (parts_.count == 1 && !has_steps()) {
      for (ValueId id : in_.inputs)
        if (in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad)
          n.differentiable.push_back(id);
      return n;
    }
    for (const auto& [id, g] : gradients_[part]) n.differentiable.push_back(id);
    return n;
  }

  ValueId gradient(size_t part, ValueId of) const {
    auto it = gradients_[part].find(of);
    return it == gradients_[part].end() ? kNoValue : it->second;
  }

  bool has_steps() const {
    bool any = separate_;
    if (to_read_) return false;
    for (const Bind& b : in_.binds) any = any || ops::has_own_history(b.op);
    return any;
  }

  // Between parts and steps tensors with a history are needed after the core has run.
  void keep_for_history() {
    if (!has_steps()) return;
    std::set<ValueId> ids;
    for (const auto& attached : parts_.attached) ids.insert(attached.begin(), attached.end());
    for (const Bind& b : in_.binds) {
      if (!ops::has_own_history(b.op)) continue;
      for_each_arg(b, [&](ValueId id) { ids.insert(id); });
      for_each_result(b, [&](ValueId id) { ids.insert(id); });
    }
    b_.add_bind(Bind{prims::keep(), {Arg(ValueList(ids.begin(), ids.end()))}, {}, -1, -1, false});
  }

  // Values that depend differentiably on an input that requires grad, or on a leaf that the call
  // makes. Hooks run whatever a boundary depends on. So do those that the caller gets with a
  // history that leads nowhere (computed from a view of a leaf, taken without grad mode): others
  // may be computed from them.
  void find_active() {
    active_.assign(in_.values.size(), false);
    std::vector<bool> attached(in_.values.size(), false);
    for (ValueId id : attached_values(in_)) attached[id] = true;
    for (const Bind& b : in_.binds)
      for (ValueId id : inputs_of_step(b)) attached[id] = true;
    for (ValueId id : in_.inputs)
      active_[id] = in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad;
    for (size_t i = 0; i < in_.epilogue; ++i) {
      const Bind& b = in_.binds[i];
      if (!b.grad_mode && !(b.op == prims::set_data())) continue;
      bool any = b.op == prims::leaf() || b.op == prims::boundary() || b.op == prims::argument();
      for_each_arg(b, [&](ValueId id) { any = any || active_[id]; });
      for_each_result(b, [&](ValueId id) {
        if (!any && !attached[id]) return;
        active_[id] = in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad;
      });
    }
  }

  ValueId emit(const Op& op, std::vector<Arg> args, const TensorType& type) {
    Value v;
    TensorType t = type;
    t.requires_grad = false;
    v.type = std::move(t);
    const ValueId id = b_.add_value(std::move(v));
    b_.add_bind(Bind{op, std::move(args), {Result(id)}, location_, -1, false});
    return id;
  }

  void accumulate(ValueId of, ValueId gradient) {
    if (gradient == kNoValue) return;
    const bool inner = parts_.of_value[of] == part_;
    ValueId& sum = inner
                       ? cotangent_[of]
                       : gradients_[static_cast<size_t>(part_)].emplace(of, kNoValue).first->second;
    if (sum == kNoValue) {
      sum = gradient;
      return;
    }
    static const Op add = Op::get("aten::add", "Tensor");
    const TensorType& a = b_.value(sum).tensor();
    const TensorType& c = b_.value(gradient).tensor();
    Bind bind{add, {Arg(sum), Arg(gradient), Arg(IValue(1))}, {}, -1, -1, false};
    TensorType type = a;
    if (a != c || !a.is_contiguous()) type = infer_types(b_.trace(), bind).at(0);
    sum = emit(add, std::move(bind.args), type);
  }

  // A bind of the forward: the operator, or what a user's rule has in its place.
  void forward(size_t index) {
    const Bind& bind = in_.binds[index];
    saved_.emplace_back();
    if (rules::any() && (bind.grad_mode || bind.op == prims::set_data())) {
      bool active = false;
      for_each_result(bind, [&](ValueId id) { active = active || active_[id]; });
      const std::vector<ValueId> arguments = tensor_arguments(in_, bind);
      std::vector<bool> wanted(arguments.size(), false);
      bool any = false;
      for (size_t a = 0; a < arguments.size(); ++a) {
        wanted[a] = arguments[a] != kNoValue && active_[arguments[a]];
        any = any || wanted[a];
      }
      if (active && any) rules_[index] = user_rule(in_, bind, wanted, place(bind));
    }
    const auto& rule = rules_[index];
    if (!rule || !rule->forward) {
      b_.add_bind(bind);
      return;
    }
    const Trace& t = *rule->forward;
    const std::vector<ValueId> arguments = tensor_arguments(in_, bind);
    const std::vector<ValueId> results = tensor_results(in_, bind);
    std::vector<ValueId> ids(t.values.size(), kNoValue);
    for (size_t k = 0; k < t.inputs.size(); ++k)
      ids[t.inputs[k]] = arguments.at(rule->forward_arguments[k]);
    // The write-back writes what the forward gives; any other operator is replaced by it.
    const bool writes = ops::is_mutable(bind.op);
    for (size_t r = 0; r < results.size() && !writes; ++r)
      if (results[r] != kNoValue && t.outputs.at(r) != kNoValue) ids[t.outputs[r]] = results[r];
    inline_trace(t, ids, bind.location);
    if (writes) {
      Bind write = bind;
      write.args[0] = Arg(ids[t.outputs.at(0)]);
      b_.add_bind(std::move(write));
    }
    for (ValueId id : t.saved) saved_.back().push_back(ids[id]);
  }

  // Adds the binds of a rule's trace. `ids`: the values of its inputs, and of those results that
  // have one already; complete afterwards.
  void inline_trace(const Trace& t, std::vector<ValueId>& ids, int32_t location) {
    for (size_t id = 0; id < t.values.size(); ++id)
      if (t.values[id].kind == ir::ValueKind::Constant)
        ids[id] = b_.add_constant(t.values[id].constant);
    auto map_id = [&](ValueId id) {
      if (id == kNoValue) return kNoValue;
      if (ids[id] == kNoValue) {
        Value copy;
        copy.type = t.value(id).type;
        ids[id] = b_.add_value(std::move(copy));
      }
      return ids[id];
    };
    auto map = [&](const auto& a) {
      auto copy = a;
      if (auto* id = std::get_if<ValueId>(&copy)) *id = map_id(*id);
      if (auto* list = std::get_if<ValueList>(&copy))
        for (ValueId& id : *list) id = map_id(id);
      return copy;
    };
    for (const Bind& x : t.binds) {
      Bind copy{x.op, {}, {}, location, -1, false};
      for (const Arg& a : x.args) copy.args.push_back(map(a));
      for (const Result& r : x.results) copy.results.push_back(map(r));
      b_.add_bind(std::move(copy));
    }
  }

  std::string place(const Bind& bind) const {
    if (bind.location < 0) return "";
    const auto& at = in_.locations[static_cast<size_t>(bind.location)];
    return at.file + ":" + std::to_string(at.line);
  }

  // The cotangent of a result as a user's rule was traced for it.
  ValueId cotangent_for(const Rule& rule, ValueId result, const TensorType& type) {
    const ValueId g = cotangent_[result];
    if (!rule.of_user) return g;
    const auto dims = [](const ir::Dims& d) {
      return IValue(std::vector<int64_t>(d.begin(), d.end()));
    };
    if (g == kNoValue) {
      static const Op zeros = Op::get("aten::zeros");
      TensorType fresh = type;
      fresh.strides = ir::default_strides(type.sizes);
      const IValue none;
      const ValueId zero =
          emit(zeros,
               {Arg(dims(type.sizes)), Arg(IValue(static_cast<int64_t>(type.dtype))), Arg(none),
                Arg(IValue(type.device)), Arg(none)},
               fresh);
      return fresh.strides == type.strides ? zero : conformed(zero, type);
    }
    return b_.value(g).tensor().strides == type.strides ? g : conformed(g, type);
  }

  ValueId conformed(ValueId value, const TensorType& type) {
    return emit(prims::conform(),
                {Arg(value), Arg(IValue(static_cast<int64_t>(type.dtype))),
                 Arg(IValue(std::vector<int64_t>(type.strides.begin(), type.strides.end())))},
                type);
  }

  void backward(size_t index) {
    const Bind& bind = in_.binds[index];
    part_ = parts_.of_bind[index];
    if (part_ == kNoPart) return;
    const std::vector<ValueId> results = tensor_results(in_, bind);
    std::vector<const TensorType*> cotangents(results.size(), nullptr);
    std::vector<TensorType> types(results.size());
    bool any = false;
    for (size_t r = 0; r < results.size(); ++r) {
      if (results[r] == kNoValue || cotangent_[results[r]] == kNoValue || !active_[results[r]])
        continue;
      types[r] = b_.value(cotangent_[results[r]]).tensor();
      cotangents[r] = &types[r];
      any = true;
    }
    if (!any) return;
    if (ops::has_own_history(bind.op)) return backward_of_step(bind);
    const std::vector<ValueId> arguments = tensor_arguments(in_, bind);
    std::vector<bool> wanted(arguments.size(), false);
    for (size_t a = 0; a < arguments.size(); ++a)
      wanted[a] = arguments[a] != kNoValue && active_[arguments[a]];
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
    const auto rule = rules_[index] ? rules_[index] : derive(in_, bind, cotangents, wanted);
    location_ = bind.location;

    const OverwrittenNeeds::Use use{index, arguments, results};
    auto overwritten = overwritten_.of_rule(*rule, use);
    if (!overwritten && !rule->of_user) overwritten = overwritten_.of_node(wanted, use);
    if (overwritten) return raise_in_backward(use, *overwritten, *rule);

    const Trace& t = *rule->trace;
    std::vector<ValueId> ids(t.values.size(), kNoValue);
    for (size_t k = 0; k < rule->inputs.size(); ++k) {
      const auto [source, i] = rule->inputs[k];
      const ValueId outer =
          source == Rule::Source::Argument ? arguments.at(i)
          : source == Rule::Source::Result ? results.at(i)
          : source == Rule::Source::Saved
              ? saved_[index].at(i)
              : cotangent_for(*rule, results.at(i), t.value(t.inputs[k]).tensor());
      if (outer == kNoValue)
        throw InternalError("differentiate: the rule of " + bind.op.id() +
                            " needs a value that does not exist");
      ids[t.inputs[k]] = outer;
    }
    inline_trace(t, ids, bind.location);
    for (size_t k = 0; k < rule->gradients_of.size(); ++k)
      accumulate(arguments[rule->gradients_of[k]],
                 t.outputs[k] == kNoValue ? kNoValue : ids[t.outputs[k]]);
  }

  // In a program to read.
  void backward_of_step(const Bind& bind) {
    static const Op op = Op::get("fulgurite::function_backward");
    const bool has_hooks =
        bind.op == prims::boundary() && std::get<IValue>(bind.args[1]).toInt() >= 0;
    if (bind.op == prims::argument() || (bind.op == prims::boundary() && !has_hooks)) {
      const auto result = std::get<ValueId>(bind.results[0]);
      return accumulate(std::get<ValueId>(bind.args[0]), cotangent_[result]);
    }
    const bool is_function = bind.op == prims::function();
    const ValueList inputs = inputs_of_step(bind);
    ValueList cotangents, gradients;
    for_each_result(bind, [&](ValueId id) { cotangents.push_back(cotangent_[id]); });
    for (ValueId id : inputs) {
      Value g;
      TensorType type = in_.value(id).tensor();
      type.requires_grad = false;
      g.type = std::move(type);
      gradients.push_back(active_[id] ? b_.add_value(std::move(g)) : kNoValue);
    }
    if (gradients.empty()) return;
    b_.add_bind(Bind{op,
                     {is_function ? bind.args[0] : Arg(IValue("hooks")), bind.args[1],
                      Arg(std::move(cotangents))},
                     {Result(gradients)},
                     bind.location,
                     -1,
                     false});
    for (size_t k = 0; k < gradients.size(); ++k) accumulate(inputs[k], gradients[k]);
  }

  // The gradient of `bind` needs a value that was overwritten: eager raises when it is asked for.
  void raise_in_backward(const OverwrittenNeeds::Use& use, const OverwrittenNeeds::Need& needed,
                         const Rule& rule) {
    const Bind& bind = in_.binds[use.index];
    static const Op overwritten = Op::get("fulgurite::overwritten");
    std::string what = place(bind);
    if (!what.empty()) what += ": ";
    what += "the gradient of " + bind.op.id() + " needs " + in_.value(needed.value).name +
            ", which is overwritten in place afterwards";
    if (!needed.is_counted)
      throw Refusal("FG-180", what +
                                  " without a change of its version: eager's backward goes on with "
                                  "what was written, so the call stays with eager");
    if (outermost_checkpoint(in_, bind.region) >= 0)
      throw Refusal("FG-194", what + " in a checkpoint, where eager checks no versions");
    for (ValueId r : use.results) {
      if (r == kNoValue || !active_[r] || cotangent_[r] == kNoValue) continue;
      for (size_t a : rule.gradients_of)
        accumulate(use.arguments[a], emit(overwritten, {Arg(cotangent_[r]), Arg(IValue(what))},
                                          in_.value(use.arguments[a]).tensor()));
    }
  }

  bool to_read_, separate_;
  const Trace& in_;
  OverwrittenNeeds overwritten_;
  ir::TraceBuilder b_;
  GradientParts parts_;
  int part_ = kNoPart;              // that is being differentiated
  std::vector<ValueId> cotangent_;  // of values, in the part that gives them their history
  // By part: the gradients of values from elsewhere.
  std::vector<std::map<ValueId, ValueId>> gradients_;
  std::vector<bool> active_;
  std::vector<std::shared_ptr<const Rule>> rules_;  // users', by bind
  std::vector<std::vector<ValueId>> saved_;         // by bind: what a rule's forward saves
  int32_t location_ = -1;
};

}  // namespace

Joint differentiate(const Functionalized& functional, bool to_read, bool separate) {
  return Differentiator(functional, to_read, separate).run();
}

}  // namespace fulgurite::passes
