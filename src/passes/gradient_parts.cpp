#include "passes/gradient_parts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <set>

#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::passes {

using ir::Bind;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

const ValueList& function_inputs(const Bind& function) {
  return std::get<ValueList>(function.args[2]);
}
const ValueList& function_results(const Bind& function) {
  return std::get<ValueList>(function.results[0]);
}

ValueList inputs_of_step(const Bind& step) {
  if (step.op == prims::function()) return function_inputs(step);
  if (step.op == prims::boundary() || step.op == prims::argument()) {
    const auto* other =
        std::get_if<ValueId>(&step.args[2]);  // the base, or what is written instead
    const bool has_other = other != nullptr && *other != ir::kNoValue;
    return {has_other ? *other : std::get<ValueId>(step.args[0])};
  }
  return {};
}

bool depend_on_each_other(const Trace& t, const std::vector<ValueId>& attached) {
  std::vector<bool> is_attached(t.values.size(), false), depends(t.values.size(), false);
  for (ValueId id : attached) is_attached[id] = true;
  bool found = false;
  for (size_t i = 0; i < t.epilogue && !found; ++i) {
    const Bind& b = t.binds[i];
    if (!b.grad_mode && !(b.op == prims::set_data())) continue;
    bool any = false;
    for_each_arg(b, [&](ValueId id) { any = any || depends[id] || is_attached[id]; });
    if (!any) continue;
    for_each_result(b, [&](ValueId id) {
      depends[id] = t.value(id).is_tensor() && t.value(id).tensor().requires_grad;
      found = found || (depends[id] && is_attached[id]);
    });
  }
  return found;
}

namespace {

class Partition {
 public:
  Partition(const Trace& t, const std::vector<bool>& active, const std::vector<ValueId>& attached)
      : t_(t), active_(active), attached_(attached) {
    parts_.of_bind.assign(t.binds.size(), kNoPart);
    parts_.of_value.assign(t.values.size(), kNoPart);
  }

  GradientParts run(bool one, bool separate) {
    bool any = separate;
    one_ = one;
    for (const Bind& b : t_.binds) any = any || (!one && ops::has_own_history(b.op));
    if (any) {
      do {
        find_dependents();
      } while (split_before_outputs());
    } else {
      together();
    }
    for (size_t i = 0; i < t_.epilogue; ++i)
      if (parts_.of_bind[i] != kNoPart)
        for_each_result(t_.binds[i], [&](ValueId id) {
          if (active_[id]) parts_.of_value[id] = parts_.of_bind[i];
        });
    place_inactive(any);
    parts_.attached.resize(parts_.count);
    for (ValueId id : attached_) attach(id);
    if (any) attach_between();
    return std::move(parts_);
  }

 private:
  bool is_differentiated(const Bind& b) const {
    if ((ops::has_own_history(b.op) && !one_) || (!b.grad_mode && !(b.op == prims::set_data())))
      return false;
    bool any = false;
    for_each_result(b, [&](ValueId id) { any = any || active_[id]; });
    return any;
  }

  void together() {
    parts_.count = attached_.empty() ? 0 : 1;
    for (size_t i = 0; i < t_.epilogue && parts_.count > 0; ++i)
      if (is_differentiated(t_.binds[i])) parts_.of_bind[i] = 0;
  }

  // A result may require grad without depending on what does (a view of a leaf, taken without grad
  // mode): it has a history that leads nowhere.
  void place_inactive(bool steps) {
    std::vector<bool> of_step(t_.values.size(), false);
    for (const Bind& b : t_.binds)
      if (ops::has_own_history(b.op)) for_each_result(b, [&](ValueId id) { of_step[id] = true; });
    for (ValueId id : attached_) {
      if (parts_.of_value[id] != kNoPart || of_step[id]) continue;
      if (steps) ++parts_.count;
      parts_.of_value[id] = static_cast<int>(parts_.count) - 1;
    }
  }

  // A gradient that is asked for an output is asked of all that enters its part. Where that is not
  // the output alone, what the output is computed from is a part of its own.
  bool split_before_outputs() {
    std::vector<int> part(t_.values.size(), kNoPart);
    for (size_t i = 0; i < t_.epilogue; ++i)
      if (parts_.of_bind[i] != kNoPart)
        for_each_result(t_.binds[i], [&](ValueId id) { part[id] = parts_.of_bind[i]; });
    std::vector<std::set<ValueId>> entered(parts_.count);  // from other parts
    auto enter = [&](ValueId id, int from) {
      if (active_[id] && part[id] != kNoPart && part[id] != from)
        entered[static_cast<size_t>(part[id])].insert(id);
    };
    for (size_t i = 0; i < t_.epilogue; ++i) {
      if (parts_.of_bind[i] != kNoPart)
        for_each_arg(t_.binds[i], [&](ValueId id) { enter(id, parts_.of_bind[i]); });
      for (ValueId id : inputs_of_step(t_.binds[i])) enter(id, kNoPart);
    }
    bool any = false;
    for (ValueId id : attached_) {
      if (part[id] == kNoPart || split_.count(id) > 0) continue;
      const auto& others = entered[static_cast<size_t>(part[id])];
      if (others.count(id) > 0 && others.size() > 1) any = split_.insert(id).second;
    }
    return any;
  }

  // Numbers of what depends on a value: outputs first, then steps by bind, then what is split.
  void find_dependents() {
    std::fill(parts_.of_bind.begin(), parts_.of_bind.end(), kNoPart);
    std::vector<std::set<size_t>> of_value(t_.values.size());
    std::map<std::set<size_t>, int> known;
    for (size_t k = 0; k < attached_.size(); ++k) of_value[attached_[k]].insert(k);
    for (size_t i = t_.epilogue; i-- > 0;) {
      const Bind& b = t_.binds[i];
      if (ops::has_own_history(b.op)) {
        for (ValueId id : inputs_of_step(b))
          if (active_[id]) of_value[id].insert(attached_.size() + i);
        continue;
      }
      if (!is_differentiated(b)) continue;
      std::set<size_t> dependents;
      for_each_result(b, [&](ValueId id) {
        if (active_[id]) dependents.insert(of_value[id].begin(), of_value[id].end());
      });
      if (dependents.empty()) continue;
      const auto part = known.emplace(dependents, static_cast<int>(known.size())).first->second;
      parts_.of_bind[i] = part;
      for_each_result(b, [&](ValueId id) {
        if (split_.count(id) > 0) dependents.insert(attached_.size() + t_.binds.size() + id);
      });
      for_each_arg(b, [&](ValueId id) {
        if (active_[id]) of_value[id].insert(dependents.begin(), dependents.end());
      });
    }
    parts_.count = known.size();
  }

  void attach(ValueId id) {
    const int part = parts_.of_value[id];
    if (part == kNoPart) return;
    auto& list = parts_.attached[static_cast<size_t>(part)];
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  }

  // What goes from one part to another, or into a step.
  void attach_between() {
    for (size_t i = 0; i < t_.epilogue; ++i) {
      const Bind& b = t_.binds[i];
      if (ops::has_own_history(b.op)) {
        for (ValueId id : inputs_of_step(b)) attach(id);
      } else if (parts_.of_bind[i] != kNoPart) {
        for_each_arg(b, [&](ValueId id) {
          if (parts_.of_value[id] != parts_.of_bind[i]) attach(id);
        });
      }
    }
  }

  const Trace& t_;
  const std::vector<bool>& active_;
  const std::vector<ValueId>& attached_;
  std::set<ValueId> split_;
  bool one_ = false;
  GradientParts parts_;
};

}  // namespace

GradientParts gradient_parts(const Trace& functional, const std::vector<bool>& active,
                             const std::vector<ValueId>& attached, bool one, bool separate) {
  return Partition(functional, active, attached).run(one, separate);
}

}  // namespace fulgurite::passes
