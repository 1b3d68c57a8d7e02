// What was noted while recording becomes a trace.
#include <algorithm>

#include "record/recorder_impl.h"

namespace fulgurite::record {

Recording Recorder::finish(const std::vector<at::Tensor>& outputs, std::string output_template) {
  Impl& r = *impl_;
  Recording recording;
  recording.operators = r.operators;
  std::vector<ValueId> output_ids;
  for (const at::Tensor& t : outputs) output_ids.push_back(t.defined() ? r.use(t) : kNoValue);
  std::vector<std::pair<ValueId, ValueId>> grad_writes;
  for (const auto& leaf : r.leaves) {
    recording.leaves.push_back({leaf.tensor, leaf.grad.defined()});
    const at::Tensor now = leaf.tensor.grad();
    if (leaf.grad_set || now.defined() != leaf.grad.defined() ||
        (now.defined() && !now.is_same(leaf.grad)))
      grad_writes.emplace_back(leaf.value, now.defined() ? r.use(now) : kNoValue);
  }
  for (const at::Tensor& t : outputs) {
    // A leaf that the call made, with what backward() left there.
    if (!t.defined() || r.given.count(t.unsafeGetTensorImpl()) > 0) continue;
    const auto* meta = torch::autograd::impl::get_autograd_meta(t);
    if (meta == nullptr || !meta->grad_.defined()) continue;
    grad_writes.emplace_back(r.use(t), r.use(meta->grad_));
  }
  recording.shared = r.shared_inputs(output_ids);
  for (const External& e : r.externals) {
    // What is guarded is what it was when the program came upon it.
    const bool required = r.values[e.value].tensor().requires_grad;
    if (e.base_of >= 0) continue;
    if (e.tensor.requires_grad() != required ||
        (required && is_marked_leaf(e.tensor) != r.facts[e.value].is_marked_leaf))
      r.refuse("FG-203",
               "a tensor that is no argument requires grad before the call and not after it, "
               "or the other way round; the next call is recorded again");
  }
  r.leave_inference(outputs, output_ids);
  if (r.refusal) {
    recording.refusal = r.refusal;
    return recording;
  }
  r.place();
  recording.numbers = r.placed_numbers.inputs;

  ir::TraceBuilder b(r.name, "recorded");
  ir::Trace& t = b.trace();
  std::vector<ValueId> ids(r.values.size(), kNoValue);
  for (ValueId id : r.inputs) ids[id] = b.add_input(r.values[id]);
  for (External& e : r.externals) {
    ids[e.value] = b.add_input(r.values[e.value]);
    External x = e;
    x.value = ids[e.value];
    if (x.grad_of >= 0) x.grad_of = ids[x.grad_of];
    if (x.base_of >= 0) x.base_of = ids[x.base_of];
    recording.externals.push_back(std::move(x));
  }
  for (SharedInput& s : recording.shared) s.value = ids[s.value];
  for (const auto& g : r.given_tensors)
    if (!g.base.is_same(g.tensor)) recording.views.push_back(ids[g.value]);
  for (ValueId id : r.placed_numbers.ids) ids[id] = b.add_input(r.values[id]);
  for (size_t id = 0; id < r.values.size(); ++id) {
    if (r.values[id].kind == ir::ValueKind::Constant) {
      const ir::Value& v = r.values[id];
      ids[id] = b.add_constant(v.constant, "c");
      t.values[ids[id]].storage = v.storage;
    }
  }
  t.locations = r.locations;
  // Regions of composites that were kept whole disappear; so do regions that hold nothing.
  std::vector<bool> region_used(r.regions.size(), false);
  for (const PendingBind& p : r.binds) {
    if (p.dead) continue;
    for (int32_t g = p.bind.region; g >= 0 && !region_used[g]; g = r.regions[g].parent)
      region_used[g] = true;
  }
  auto map_value = [&](ValueId id) {
    if (id == kNoValue) return kNoValue;
    if (ids[id] == kNoValue) ids[id] = b.add_value(r.values[id]);
    return ids[id];
  };
  auto map = [&](const auto& a) {
    auto copy = a;
    if (auto* id = std::get_if<ValueId>(&copy)) *id = map_value(*id);
    if (auto* list = std::get_if<ValueList>(&copy))
      for (ValueId& id : *list) id = map_value(id);
    return copy;
  };
  // Values are numbered in the order in which binds define them. A value with hooks is another one
  // behind them.
  std::unordered_map<ValueId, ValueId> behind_hooks;
  for (const PendingBind& p : r.binds) {
    if (p.dead) continue;
    for_each_result(p.bind, [&](ValueId id) { map_value(id); });
    for_each_result(p.bind, [&](ValueId id) {
      if (r.boundaries.count(id) == 0) return;
      ir::Value v = r.values[id];
      v.name += "h";
      behind_hooks[id] = b.add_value(std::move(v));
    });
  }
  std::vector<int32_t> region_ids(r.regions.size(), -1);
  for (size_t g = 0; g < r.regions.size(); ++g) {
    if (!region_used[g] || r.region_dead[g]) {
      region_ids[g] = r.regions[g].parent >= 0 ? region_ids[r.regions[g].parent] : -1;
      continue;
    }
    ir::Region region{r.regions[g].op,
                      {},
                      {},
                      r.regions[g].location,
                      r.regions[g].parent >= 0 ? region_ids[r.regions[g].parent] : -1,
                      r.regions[g].module};
    for (const Arg& a : r.regions[g].args) region.args.push_back(map(a));
    for (const Result& x : r.regions[g].results) region.results.push_back(map(x));
    region_ids[g] = b.add_region(std::move(region));
  }
  for (const PendingBind& p : r.binds) {
    if (p.dead) continue;
    ir::Bind bind{p.bind.op,
                  {},
                  {},
                  p.bind.location,
                  p.bind.region >= 0 ? region_ids[p.bind.region] : -1,
                  p.bind.grad_mode};
    for (const Arg& a : p.bind.args) bind.args.push_back(map(a));
    for (const Result& x : p.bind.results) bind.results.push_back(map(x));
    b.add_bind(std::move(bind));
    for_each_result(p.bind, [&](ValueId id) {
      auto behind = behind_hooks.find(id);
      if (behind == behind_hooks.end()) return;
      const int32_t region = p.bind.region >= 0 ? region_ids[p.bind.region] : -1;
      b.add_bind(ir::Bind{prims::boundary(),
                          {Arg(ids[id]), Arg(IValue(int64_t{r.boundaries.at(id)})), Arg(IValue())},
                          {Result(behind->second)},
                          p.bind.location,
                          region,
                          true});
      ids[id] = behind->second;
    });
  }
  for (auto [leaf, grad] : grad_writes) {
    std::vector<Arg> args{Arg(map_value(leaf))};
    if (grad == kNoValue) {
      args.emplace_back(IValue());
    } else {
      args.emplace_back(map_value(grad));
    }
    b.add_bind(ir::Bind{prims::set_grad(), std::move(args), {}, -1, -1, true});
  }
  for (ValueId id : output_ids) t.outputs.push_back(map_value(id));
  t.output_template = std::move(output_template);
  t.epilogue = t.binds.size();
  recording.trace = b.finish();
  return recording;
}

}  // namespace fulgurite::record
