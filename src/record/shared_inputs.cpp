// Inputs that share memory which the program writes, and what autograd knows of it.
#include <algorithm>
#include <map>

#include "record/recorder_impl.h"

namespace fulgurite::record {

// Does the program use views of a given view that are older than the last write of their memory? To
// autograd they are views of its base by then.
bool Recorder::Impl::uses_older_views(const Given& g, const std::vector<ValueId>& outputs) const {
  const c10::StorageImpl* storage = facts[g.value].storage;
  auto is_on_it = [&](ValueId id) { return facts[id].storage == storage; };
  auto writes = [&](const PendingBind& p) {
    bool any = false;
    for (size_t a : ops::written_arguments(p.bind))
      ir::for_each_value(p.bind.args[a], [&](ValueId id) { any = any || is_on_it(id); });
    return any && !p.dead;
  };
  const auto last = std::find_if(binds.rbegin(), binds.rend(), writes).base();
  std::unordered_set<ValueId> older;
  for (auto p = binds.begin(); p != last; ++p) {
    bool of_older = ops::is_view(p->bind.op);
    for_each_arg(p->bind, [&](ValueId id) { of_older = of_older || older.count(id) > 0; });
    if (of_older)
      for_each_result(p->bind, [&](ValueId id) {
        if (values[id].is_tensor() && is_on_it(id)) older.insert(id);
      });
  }
  bool used = false;
  for (auto p = last; p != binds.end(); ++p)
    if (!p->dead && p->bind.grad_mode)
      for_each_arg(p->bind, [&](ValueId id) { used = used || older.count(id) > 0; });
  for (ValueId id : outputs) used = used || older.count(id) > 0;
  return used;
}

std::vector<SharedInput> Recorder::Impl::shared_inputs(const std::vector<ValueId>& outputs) {
  std::unordered_set<const c10::StorageImpl*> written;
  for (const PendingBind& p : binds)
    if (!p.dead)
      for (size_t a : ops::written_arguments(p.bind))
        ir::for_each_value(p.bind.args[a], [&](ValueId id) { written.insert(facts[id].storage); });
  std::map<int32_t, std::vector<Given>> groups;  // by storage
  for (const Given& g : given_tensors)
    if (written.count(facts[g.value].storage) > 0) groups[values[g.value].storage].push_back(g);
  std::vector<SharedInput> shared;
  for (auto& [storage, group] : groups) {
    const Given& first = group.front();
    if (group.size() < 2 && (first.base.is_same(first.tensor) || first.is_restricted ||
                             !is_plain(first.base) || !uses_older_views(first, outputs)))
      continue;
    if (std::any_of(group.begin(), group.end(),
                    [](const Given& g) { return g.tensor.numel() == 0; }))
      refuse("FG-151",
             "inputs share memory that the function writes, and one of them has no elements");
    // The tensor of which those that require grad are views; undefined if there are several.
    at::Tensor base;
    bool several = false;
    ValueId of = kNoValue;
    const bool one_base = std::all_of(group.begin(), group.end(),
                                      [&](const Given& g) { return g.base.is_same(first.base); });
    const bool gets_history = written_with_grad.count(facts[first.value].storage) > 0;
    for (const Given& g : group) {
      if (!values[g.value].tensor().requires_grad && !(gets_history && one_base)) continue;
      several = several || (base.defined() && !base.is_same(g.base));
      base = g.base;
      of = g.value;
    }
    if (several || (base.defined() && !is_plain(base))) base = at::Tensor();
    if (!base.defined() && !several && gets_history)
      refuse("FG-151",
             "inputs share memory that gets a history, and they are not all views of one tensor");
    if (base.defined() && std::none_of(group.begin(), group.end(),
                                       [&](const Given& g) { return g.tensor.is_same(base); })) {
      external(base);
      externals.back().base_of = of;
      // As it was before the call: a view without a history is one of a base without.
      if (!values[of].tensor().requires_grad)
        std::get<ir::TensorType>(values[externals.back().value].type).requires_grad = false;
      group.push_back(given_tensors.back());
    }
    const at::Tensor counted = base.defined() ? base : group.front().tensor;
    for (const Given& g : group) {
      SharedInput s{g.value};
      s.is_base = g.tensor.is_same(base.defined() || !one_base ? base : g.base);
      s.is_view = base.defined() && !s.is_base && g.base.is_same(base);
      s.own_version =
          facts[g.value].version_counter != version_counter_of(counted.unsafeGetTensorImpl());
      s.is_restricted = g.is_restricted;
      s.is_transformed = g.tensor.is_conj() || g.tensor.is_neg();
      shared.push_back(s);
    }
  }
  return shared;
}

}  // namespace fulgurite::record
