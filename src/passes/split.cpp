#include "passes/split.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/shared_memory.h"
#include "ops/traits.h"
#include "passes/checkpoint.h"

namespace fulgurite::passes {

using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::Value;
using ir::ValueId;
using ir::ValueList;

namespace {

class Splitter {
 public:
  explicit Splitter(const Joint& joint)
      : j_(joint),
        t_(*joint.trace),
        bases_(*joint.trace),
        overwritten_(ops::overwritten_inputs(*joint.trace)) {
    for (const NodeValues& n : j_.parts)
      attached_.insert(attached_.end(), n.attached.begin(), n.attached.end());
  }

  SplitTraces run() {
    partition();
    SplitTraces result;
    find_first_write();
    find_checkpoints();
    choose_saved();
    result.backward = make_backward();
    result.forward = make_forward();
    // Forward keeps the ids of the joint trace.
    return result;
  }

 private:
  bool is_forward_input(ValueId id) const {
    const auto end = t_.inputs.begin() + static_cast<std::ptrdiff_t>(j_.forward_inputs);
    return std::find(t_.inputs.begin(), end, id) != end;
  }
  bool is_cotangent(ValueId id) const {
    return t_.value(id).kind == ir::ValueKind::Input && !is_forward_input(id);
  }

  void partition() {
    producer_.assign(t_.values.size(), SIZE_MAX);
    for (size_t i = 0; i < t_.binds.size(); ++i)
      for_each_result(t_.binds[i], [&](ValueId id) { producer_[id] = i; });
    std::vector<bool> on_cotangent(t_.values.size(), false);
    for (size_t k = j_.forward_inputs; k < t_.inputs.size(); ++k) on_cotangent[t_.inputs[k]] = true;
    forward_.assign(t_.binds.size(), false);
    std::vector<bool> needed(t_.values.size(), false);
    for (size_t k = 0; k < j_.forward_outputs; ++k)
      if (t_.outputs[k] != kNoValue) needed[t_.outputs[k]] = true;
    for (ValueId id : attached_) needed[id] = true;
    for (size_t i = 0; i < t_.epilogue; ++i) {
      bool depends = false;
      for_each_arg(t_.binds[i], [&](ValueId id) { depends = depends || on_cotangent[id]; });
      if (depends) for_each_result(t_.binds[i], [&](ValueId id) { on_cotangent[id] = true; });
      if (!depends && ops::has_effect(t_.binds[i].op)) forward_[i] = true;
    }
    for (size_t i = t_.epilogue; i < t_.binds.size(); ++i) {
      forward_[i] = true;
      for_each_arg(t_.binds[i], [&](ValueId id) { needed[id] = true; });
    }
    for (size_t i = t_.epilogue; i-- > 0;) {
      ops::for_each_made(t_.binds[i], [&](ValueId id) { forward_[i] = forward_[i] || needed[id]; });
      if (forward_[i]) for_each_arg(t_.binds[i], [&](ValueId id) { needed[id] = true; });
    }
  }

  bool computed_in_forward(ValueId id) const {
    return t_.value(id).kind == ir::ValueKind::Result && producer_[id] != SIZE_MAX &&
           forward_[producer_[id]];
  }

  void find_first_write() {
    first_write_ = 0;
    while (first_write_ < t_.epilogue && !(t_.binds[first_write_].op == prims::copy_()))
      ++first_write_;
  }

  // Does `id` show memory of an input that the call overwrites?
  bool is_overwritten(ValueId id) const {
    if (!computed_in_forward(id) && !is_forward_input(id)) return false;
    return overwritten_[bases_.base(id)];
  }

  // Which values backward computes again: those that only their checkpoint uses.
  void find_checkpoints() {
    checkpoint_.assign(t_.binds.size(), -1);
    kept_.assign(t_.values.size(), false);
    for (size_t i = 0; i < t_.binds.size(); ++i)
      checkpoint_[i] = outermost_checkpoint(t_, t_.binds[i].region);
    for (size_t i = 0; i < t_.binds.size(); ++i) {
      if (!forward_[i]) continue;
      for (size_t a : ops::written_arguments(t_.binds[i]))
        ir::for_each_value(t_.binds[i].args[a], [&](ValueId id) { kept_[id] = true; });
      for_each_arg(t_.binds[i], [&](ValueId id) {
        const size_t p = producer_[id];
        if (p != SIZE_MAX && checkpoint_[p] != checkpoint_[i]) kept_[id] = true;
      });
    }
  }

  bool is_made_again(ValueId id) const {
    if (!computed_in_forward(id)) return false;
    const Bind& b = t_.binds[producer_[id]];
    // Of .data, the version counter is its own: what writes its base does not count.
    if (ops::is_view(b.op)) return !(b.op == prims::data());
    if (checkpoint_[producer_[id]] < 0 || kept_[id] || ops::is_mutable(b.op)) return false;
    return !ops::has_effect(b.op) || is_drawn_again(b);
  }

  // With the numbers that it drew in forward.
  bool is_drawn_again(const Bind& b) const {
    if (!ops::is_random(b.op) || b.results.size() != 1) return false;
    const auto* result = std::get_if<ValueId>(&b.results[0]);
    const auto* first = b.args.empty() ? nullptr : std::get_if<ValueId>(&b.args[0]);
    return result != nullptr && first != nullptr && *first != kNoValue &&
           t_.value(*first).is_tensor() && t_.value(*result).tensor().device.is_cpu();
  }

  // Values that backward takes from forward. A view is taken again in backward instead, and so is
  // what a checkpoint computes.
  void choose_saved() {
    again_.assign(t_.binds.size(), false);
    std::vector<bool> seen(t_.values.size(), false);
    std::vector<ValueId> work;
    auto want = [&](ValueId id) {
      if (id == kNoValue || seen[id] || is_cotangent(id) ||
          t_.value(id).kind == ir::ValueKind::Constant)
        return;
      if (computed_in_forward(id) || is_forward_input(id)) {
        seen[id] = true;
        work.push_back(id);
      }
    };
    for (size_t i = 0; i < t_.epilogue; ++i)
      if (!forward_[i]) for_each_arg(t_.binds[i], want);
    for (size_t k = j_.forward_outputs; k < t_.outputs.size(); ++k) want(t_.outputs[k]);
    while (!work.empty()) {
      const ValueId id = work.back();
      work.pop_back();
      const bool must = std::find(attached_.begin(), attached_.end(), id) != attached_.end();
      if (is_overwritten(id)) {
        const ir::TensorType& type = t_.value(id).tensor();
        if (!type.is_dense())
          throw Refusal("FG-166",
                        "backward needs " + t_.value(id).name +
                            ", a strided or expanded part of an input that the call overwrites");
        copied_.push_back(id);
        continue;
      }
      if (!must && is_made_again(id)) {
        const size_t p = producer_[id];
        if (!again_[p] && ops::is_random(t_.binds[p].op)) drawn_.push_back(p);
        again_[p] = true;
        for_each_arg(t_.binds[producer_[id]], want);
        continue;
      }
      saved_.push_back(id);
    }
    std::sort(saved_.begin(), saved_.end());
    std::sort(copied_.begin(), copied_.end());
    std::sort(drawn_.begin(), drawn_.end());
  }

  static Value random_state_value() {
    static const int64_t size = at::detail::getDefaultCPUGenerator().get_state().numel();
    Value v;
    ir::TensorType type;
    type.dtype = at::kByte;
    type.sizes = {size};
    type.strides = {1};
    v.type = std::move(type);
    return v;
  }

  ir::TracePtr make_forward() {
    ir::TraceBuilder b(t_, "forward");
    ir::Trace& f = b.trace();
    f.kind = ir::TraceKind::AugmentedForward;
    // Cotangents are no inputs of forward; they stay as unused values until compacted.
    f.inputs.resize(j_.forward_inputs);
    f.outputs.resize(j_.forward_outputs);
    f.saved = saved_;
    ValueList states;
    auto carry_over = [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        if (!forward_[i]) continue;
        if (std::binary_search(drawn_.begin(), drawn_.end(), i)) {
          states.push_back(b.add_value(random_state_value()));
          b.add_bind(Bind{prims::random_state(),
                          {},
                          {ir::Result(states.back())},
                          -1,
                          t_.binds[i].region,
                          false});
        }
        b.add_bind(t_.binds[i]);
      }
    };
    carry_over(0, first_write_);
    static const ir::Op clone = ir::Op::get("aten::clone");
    for (ValueId id : copied_) {
      Value v;
      v.type = t_.value(id).type;
      std::get<ir::TensorType>(v.type).requires_grad = false;
      const ValueId copy = b.add_value(std::move(v));
      b.add_bind(Bind{clone, {Arg(id), Arg(c10::IValue())}, {ir::Result(copy)}, -1, -1, false});
      f.saved.push_back(copy);
    }
    carry_over(first_write_, t_.epilogue);
    f.saved.insert(f.saved.end(), states.begin(), states.end());
    b.begin_epilogue();
    for (size_t i = t_.epilogue; i < t_.binds.size(); ++i) b.add_bind(t_.binds[i]);
    return b.finish();
  }

  ir::TracePtr make_backward() {
    ir::TraceBuilder b(t_.name, "backward");
    ir::Trace& w = b.trace();
    w.kind = ir::TraceKind::Backward;
    w.functional = true;
    w.locations = t_.locations;
    std::vector<ValueId> ids(t_.values.size(), kNoValue);
    auto copy = [&](ValueId id) {
      Value v;
      v.name = t_.value(id).name;
      v.type = t_.value(id).type;
      if (v.is_tensor()) std::get<ir::TensorType>(v.type).requires_grad = false;
      return v;
    };
    for (ValueId id : saved_) ids[id] = b.add_input(copy(id));
    for (ValueId id : copied_) ids[id] = b.add_input(copy(id));
    std::map<size_t, ValueId> states;
    for (size_t i : drawn_) states[i] = b.add_input(random_state_value());
    w.num_saved_inputs = saved_.size() + copied_.size() + drawn_.size();
    for (size_t k = j_.forward_inputs; k < t_.inputs.size(); ++k)
      ids[t_.inputs[k]] = b.add_input(copy(t_.inputs[k]));
    auto map_id = [&](ValueId id) {
      if (id == kNoValue) return kNoValue;
      if (ids[id] == kNoValue) {
        const Value& v = t_.value(id);
        ids[id] =
            v.kind == ir::ValueKind::Constant ? b.add_constant(v.constant) : b.add_value(copy(id));
      }
      return ids[id];
    };
    auto map = [&](const auto& a) {
      auto m = a;
      if (auto* id = std::get_if<ValueId>(&m)) *id = map_id(*id);
      if (auto* list = std::get_if<ValueList>(&m))
        for (ValueId& id : *list) id = map_id(id);
      return m;
    };
    std::vector<std::pair<ValueId, ValueId>> beside;
    auto add = [&](const Bind& x) {
      Bind m{x.op, {}, {}, x.location, -1, false};
      for (const Arg& a : x.args) m.args.push_back(map(a));
      // What is computed again beside a value that was saved is another one.
      for_each_result(x, [&](ValueId id) {
        if (ids[id] == kNoValue || w.value(ids[id]).kind != ir::ValueKind::Input) return;
        beside.emplace_back(id, ids[id]);
        ids[id] = b.add_value(copy(id));
      });
      for (const ir::Result& r : x.results) m.results.push_back(map(r));
      for (const auto& [id, saved] : beside) ids[id] = saved;
      beside.clear();
      b.add_bind(std::move(m));
    };
    // The same numbers are drawn, and nobody else's are others for it.
    auto draw_again = [&](size_t i) {
      const Bind& x = t_.binds[i];
      const auto self = std::get<ValueId>(x.args[0]);
      const auto result = std::get<ValueId>(x.results[0]);
      const ValueId before = b.add_value(random_state_value());
      const ValueId same = b.add_value(copy(self)), drawn = b.add_value(copy(result));
      b.add_bind(Bind{prims::draw_again(),
                      {Arg(states.at(i)), Arg(map_id(self))},
                      {ir::Result(before), ir::Result(same)},
                      x.location,
                      -1,
                      false});
      Bind m{x.op, {}, {ir::Result(drawn)}, x.location, -1, false};
      for (const Arg& a : x.args) m.args.push_back(map(a));
      m.args[0] = Arg(same);
      b.add_bind(std::move(m));
      b.add_bind(Bind{prims::end_draw(),
                      {Arg(before), Arg(drawn)},
                      {ir::Result(map_id(result))},
                      x.location,
                      -1,
                      false});
    };
    // Views are taken again right before their first use, so that nothing lives longer than it
    // must; so is what a checkpoint computes.
    std::vector<bool> added(t_.binds.size(), false);
    auto add_views = [&](auto&& self, const Bind& x) -> void {
      for_each_arg(x, [&](ValueId id) {
        const size_t p = producer_[id];
        if (p == SIZE_MAX || !again_[p] || added[p] || ids[id] != kNoValue) return;
        added[p] = true;
        self(self, t_.binds[p]);
        if (states.count(p) > 0) return draw_again(p);
        add(t_.binds[p]);
      });
    };
    for (size_t i = 0; i < t_.epilogue; ++i) {
      if (forward_[i]) continue;
      add_views(add_views, t_.binds[i]);
      add(t_.binds[i]);
    }
    for (size_t k = j_.forward_outputs; k < t_.outputs.size(); ++k) {
      const ValueId id = t_.outputs[k];
      if (id != kNoValue && producer_[id] != SIZE_MAX && again_[producer_[id]] &&
          !added[producer_[id]]) {
        added[producer_[id]] = true;
        add_views(add_views, t_.binds[producer_[id]]);
        add(t_.binds[producer_[id]]);
      }
      w.outputs.push_back(map_id(id));
    }
    return b.finish();
  }

  const Joint& j_;
  const Trace& t_;
  std::vector<ValueId> attached_;
  std::vector<size_t> producer_;
  std::vector<bool> forward_;
  std::vector<bool> again_;
  std::vector<ValueId> saved_;
  std::vector<ValueId> copied_;      // saved as copies: the call overwrites them
  std::vector<int32_t> checkpoint_;  // by bind: the outermost one around it, -1: none
  std::vector<bool> kept_;           // by value: not computed again
  std::vector<size_t> drawn_;        // binds that draw again in backward what they drew
  ops::MemoryBases bases_;
  std::vector<bool> overwritten_;  // by value: an input that the call writes; what backward needs
                                   // of it must be copied before
  size_t first_write_ = 0;         // the first bind that writes them
};

}  // namespace

SplitTraces split(const Joint& joint) { return Splitter(joint).run(); }

}  // namespace fulgurite::passes
