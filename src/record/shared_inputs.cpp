// Inputs that share memory which the program writes, and what autograd knows of it.
#include <algorithm>
#include <map>

#include "record/recorder_impl.h"

namespace fulgurite::record {

std::vector<SharedInput> Recorder::Impl::shared_inputs() {
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
    if (group.size() < 2) continue;
    if (std::any_of(group.begin(), group.end(),
                    [](const Given& g) { return g.tensor.numel() == 0; }))
      refuse("FG-151",
             "inputs share memory that the function writes, and one of them has no elements");
    // The tensor of which those that require grad are views; undefined if there are several.
    at::Tensor base;
    bool several = false;
    ValueId of = kNoValue;
    for (const Given& g : group) {
      if (!values[g.value].tensor().requires_grad) continue;
      several = several || (base.defined() && !base.is_same(g.base));
      base = g.base;
      of = g.value;
    }
    const bool one_base = std::all_of(group.begin(), group.end(), [&](const Given& g) {
      return g.base.is_same(group.front().base);
    });
    if (!base.defined() && !one_base && written_with_grad.count(facts[group.front().value].storage))
      refuse("FG-151",
             "inputs share memory that gets a history, and they are not all views of one tensor");
    if (several || (base.defined() && !is_plain(base))) base = at::Tensor();
    if (base.defined() && std::none_of(group.begin(), group.end(),
                                       [&](const Given& g) { return g.tensor.is_same(base); })) {
      external(base);
      externals.back().base_of = of;
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
