#include "run/backward_program.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/builder.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/reinplace.h"

namespace fulgurite::run {
namespace {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

const Op& overwritten() {
  static const Op op = Op::get("fulgurite::overwritten");
  return op;
}

class Pruner {
 public:
  Pruner(const Trace& t, const Asked& asked, bool linear)
      : t_(t),
        asked_(asked),
        linear_(linear),
        on_(t.values.size()),
        unreached_(t.values.size()),
        zero_(t.values.size()),
        needed_(t.values.size()),
        same_as_(t.values.size()) {
    for (size_t id = 0; id < same_as_.size(); ++id) same_as_[id] = static_cast<ValueId>(id);
  }

  ir::TracePtr run() {
    find_zeros();
    std::vector<ValueId> outputs(t_.outputs.size(), kNoValue);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const ValueId id = t_.outputs[k];
      if (id == kNoValue || !asked_.gradients[k] || unreached_[id]) continue;
      outputs[k] = same_as_[id];
      needed_[outputs[k]] = true;
    }
    std::vector<bool> runs(t_.binds.size(), false);
    for (size_t i = t_.binds.size(); i-- > 0;) {
      ops::for_each_made(t_.binds[i], [&](ValueId id) { runs[i] = runs[i] || needed_[id]; });
      if (runs[i])
        for_each_arg(t_.binds[i], [&](ValueId id) {
          if (!is_made_of_zeros(id)) needed_[same_as_[id]] = true;
        });
    }
    ir::TraceBuilder b(t_, "part");
    for (size_t i = 0; i < t_.binds.size(); ++i)
      if (runs[i]) b.add_bind(with_zeros(b, t_.binds[i]));
    b.begin_epilogue();
    b.trace().outputs = std::move(outputs);
    return b.finish();
  }

 private:
  void find_zeros() {
    for (size_t k = t_.num_saved_inputs; k < t_.inputs.size(); ++k) {
      on_[t_.inputs[k]] = true;
      unreached_[t_.inputs[k]] = !asked_.cotangents[k - t_.num_saved_inputs];
      zero_[t_.inputs[k]] = unreached_[t_.inputs[k]];
    }
    for (const Bind& b : t_.binds) {
      // What an executor made of several operators may have results that depend on no cotangent.
      const bool opaque = ops::keeps_tensors(b.op);
      bool on = false, unreached = !opaque, zero = !opaque && (linear_ || b.op == overwritten());
      for_each_arg(b, [&](ValueId id) {
        if (!on_[id]) return;
        on = true;
        unreached = unreached && unreached_[id];
        zero = zero && zero_[id];
      });
      if (!on) continue;
      for_each_result(b, [&](ValueId id) {
        on_[id] = true;
        unreached_[id] = unreached;
        zero_[id] = zero;
      });
      if (const auto term = only_term(b)) same_as_[std::get<ValueId>(b.results[0])] = *term;
    }
  }

  // Of a sum with a zero: the other one.
  std::optional<ValueId> only_term(const Bind& b) const {
    static const Op add = Op::get("aten::add", "Tensor");
    if (!(b.op == add)) return std::nullopt;
    const auto* x = std::get_if<ValueId>(&b.args[0]);
    const auto* y = std::get_if<ValueId>(&b.args[1]);
    const auto* alpha = std::get_if<IValue>(&b.args[2]);
    if (x == nullptr || y == nullptr || zero_[*x] == zero_[*y]) return std::nullopt;
    if (alpha == nullptr || !alpha->isInt() || alpha->toInt() != 1) return std::nullopt;
    const ValueId other = zero_[*x] ? *y : *x;
    const auto& sum = t_.value(std::get<ValueId>(b.results[0]));
    if (!t_.value(other).is_tensor() || !(t_.value(other).tensor() == sum.tensor()))
      return std::nullopt;
    return same_as_[other];
  }

  // Undefined cotangents come as zeros (compiled_backward.cpp), what depends on them is made here.
  bool is_made_of_zeros(ValueId id) const {
    return zero_[id] && t_.value(id).kind == ir::ValueKind::Result;
  }

  Bind with_zeros(ir::TraceBuilder& b, const Bind& bind) {
    Bind copy = bind;
    auto one = [&](ValueId& id) {
      if (id == kNoValue) return;
      id = is_made_of_zeros(id) ? zeros(b, t_.value(id).tensor()) : same_as_[id];
    };
    for (Arg& a : copy.args) {
      if (auto* id = std::get_if<ValueId>(&a)) one(*id);
      if (auto* list = std::get_if<ValueList>(&a))
        for (ValueId& id : *list) one(id);
    }
    return copy;
  }

  static ValueId zeros(ir::TraceBuilder& b, const ir::TensorType& type) {
    static const Op op = Op::get("aten::zeros");
    const auto dims = [](const ir::Dims& d) {
      return IValue(std::vector<int64_t>(d.begin(), d.end()));
    };
    const IValue none, dtype(static_cast<int64_t>(type.dtype));
    auto emit = [&](const Op& o, std::vector<Arg> args, const ir::TensorType& as) {
      ir::Value v;
      v.type = as;
      const ValueId id = b.add_value(std::move(v));
      b.add_bind(Bind{o, std::move(args), {ir::Result(id)}, -1, -1, false});
      return id;
    };
    // Expanded dimensions have one element in memory.
    static const Op expand = Op::get("aten::expand");
    ir::TensorType dense = type;
    for (size_t d = 0; d < dense.sizes.size(); ++d)
      if (dense.strides[d] == 0 && dense.sizes[d] > 1) dense.sizes[d] = dense.strides[d] = 1;
    ir::TensorType fresh = dense;
    fresh.strides = ir::default_strides(dense.sizes);
    ValueId zero = emit(
        op, {Arg(dims(dense.sizes)), Arg(dtype), Arg(none), Arg(IValue(type.device)), Arg(none)},
        fresh);
    if (fresh.strides != dense.strides && dense.is_dense())
      zero = emit(prims::conform(), {Arg(zero), Arg(dtype), Arg(dims(dense.strides))}, dense);
    if (dense.sizes == type.sizes) return zero;
    return emit(expand, {Arg(zero), Arg(dims(type.sizes)), Arg(IValue(false))}, type);
  }

  const Trace& t_;
  const Asked& asked_;
  const bool linear_;
  std::vector<bool> on_;         // depends on a cotangent
  std::vector<bool> unreached_;  // and on undefined ones only
  std::vector<bool> zero_;       // and is therefore zero
  std::vector<bool> needed_;
  std::vector<ValueId> same_as_;
};

}  // namespace

ir::TracePtr part_of(const ir::TracePtr& whole, const Asked& asked, bool linear) {
  return Pruner(*whole, asked, linear).run();
}

BackwardProgram::BackwardProgram(ir::TracePtr whole, ir::TracePtr reinplaced,
                                 const ir::Trace& unclaimed, bool linear)
    : whole_(std::move(whole)), reinplace_(reinplaced != whole_), linear_(linear) {
  find_steps();
  find_dependencies(unclaimed);
  auto all = make(whole_, std::move(reinplaced));
  all->steps = steps_;
  std::fill(all->takes.begin(), all->takes.end(), true);
  whole_part_ = std::move(all);
}

void BackwardProgram::find_steps() {
  const Trace& t = *whole_;
  std::vector<bool> on(t.values.size(), false);  // a cotangent
  // What a value that depends on no cotangent was made of.
  std::vector<std::vector<size_t>> slots(t.values.size());
  for (size_t k = 0; k < t.inputs.size(); ++k) {
    if (k < t.num_saved_inputs) slots[t.inputs[k]] = {k};
    on[t.inputs[k]] = k >= t.num_saved_inputs;
  }
  steps_of_slot_.resize(t.num_saved_inputs);
  for (size_t i = 0; i < t.binds.size(); ++i) {
    bool depends = false;
    std::vector<size_t> used;
    for_each_arg(t.binds[i], [&](ValueId id) {
      depends = depends || on[id];
      if (!on[id]) used.insert(used.end(), slots[id].begin(), slots[id].end());
    });
    for_each_result(t.binds[i], [&](ValueId id) {
      on[id] = depends;
      if (!depends) slots[id] = used;
    });
    if (!depends || used.empty()) continue;
    steps_.push_back(i);
    for (size_t k : used) steps_of_slot_[k].push_back(i);
  }
}

void BackwardProgram::find_dependencies(const Trace& t) {
  const size_t cotangents = t.inputs.size() - t.num_saved_inputs;
  std::vector<std::vector<bool>> on(t.values.size(), std::vector<bool>(cotangents, false));
  for (size_t k = 0; k < cotangents; ++k) on[t.inputs[t.num_saved_inputs + k]][k] = true;
  for (const Bind& b : t.binds) {
    std::vector<bool> used(cotangents, false);
    for_each_arg(b, [&](ValueId id) {
      for (size_t k = 0; k < cotangents; ++k) used[k] = used[k] || on[id][k];
    });
    for_each_result(b, [&](ValueId id) { on[id] = used; });
  }
  for (ValueId id : t.outputs)
    depends_on_.push_back(id == kNoValue ? std::vector<bool>(cotangents, false) : on[id]);
}

bool BackwardProgram::is_spent(size_t slot, const std::vector<bool>& done) const {
  return std::all_of(steps_of_slot_[slot].begin(), steps_of_slot_[slot].end(),
                     [&](size_t i) { return done[i]; });
}

std::shared_ptr<BackwardPart> BackwardProgram::make(ir::TracePtr trace, ir::TracePtr runs) const {
  auto part = std::make_shared<BackwardPart>();
  part->plan = std::make_unique<Plan>(*runs, 0, runs->binds.size(), runs->outputs);
  part->takes.assign(trace->inputs.size(), false);
  std::vector<bool> used(trace->values.size(), false);
  for (const Bind& b : trace->binds) {
    part->raises = part->raises || b.op == overwritten();
    for_each_arg(b, [&](ValueId id) { used[id] = true; });
  }
  for (ValueId id : trace->outputs)
    if (id != kNoValue) used[id] = true;
  for (size_t k = 0; k < trace->inputs.size(); ++k) part->takes[k] = used[trace->inputs[k]];
  part->trace = std::move(runs);
  return part;
}

std::shared_ptr<const BackwardPart> BackwardProgram::part(Asked asked) const {
  constexpr size_t kMostParts = 64;
  for (size_t g = 0; g < depends_on_.size(); ++g) {
    bool any = false, defined = false;
    for (size_t k = 0; k < depends_on_[g].size(); ++k) {
      any = any || depends_on_[g][k];
      defined = defined || (depends_on_[g][k] && asked.cotangents[k]);
    }
    if (any && !defined) asked.gradients[g] = false;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (auto it = parts_.find(asked); it != parts_.end()) return it->second;
  const ir::TracePtr trace = part_of(whole_, asked, linear_);
  auto made = make(trace, reinplace_ ? passes::reinplace(trace) : trace);
  std::vector<bool> defined(whole_->values.size(), false);
  for (const Bind& b : trace->binds) for_each_result(b, [&](ValueId id) { defined[id] = true; });
  for (size_t i : steps_) {
    bool runs = false;
    for_each_result(whole_->binds[i], [&](ValueId id) { runs = runs || defined[id]; });
    if (runs) made->steps.push_back(i);
  }
  if (parts_.size() >= kMostParts) parts_.clear();
  parts_.emplace(asked, made);
  return made;
}

}  // namespace fulgurite::run
