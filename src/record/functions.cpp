// Calls of custom autograd.Functions: what became of their outputs.
#include <algorithm>

#include "record/recorder_impl.h"

namespace fulgurite::record {
namespace {

// Output `id` on the memory of an input: which; -1 if there is none.
int64_t input_below(ValueId id, const ValueList& inputs, const std::vector<Facts>& facts) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (facts[inputs[i]].storage == facts[id].storage) return static_cast<int64_t>(i);
  return -1;
}

int64_t position_of(const at::Tensor& t, const std::vector<at::Tensor>& among) {
  for (size_t i = 0; i < among.size(); ++i)
    if (among[i].is_same(t)) return static_cast<int64_t>(i);
  return -1;
}

}  // namespace

int Recorder::note_function(const FunctionCall& call) {
  Impl& r = *impl_;
  if (r.refusal) return -1;
  r.update_position();
  // A tensor whose history has changed is still the value that the forward left in it.
  auto value_of = [&](const at::Tensor& t) {
    const ValueId id = r.find(t);
    return id != kNoValue ? id : r.use(t);
  };
  ValueList inputs, outputs, saved;
  for (const at::Tensor& t : call.inputs) inputs.push_back(value_of(t));
  for (const at::Tensor& t : call.outputs) outputs.push_back(value_of(t));
  for (const at::Tensor& t : call.saved) saved.push_back(value_of(t));
  if (r.refusal) return -1;

  auto shares_with_given = [&](ValueId id) {
    for (ValueId other : r.by_storage[r.facts[id].storage])
      if (r.values[other].kind == ir::ValueKind::Input) return true;
    return false;
  };
  std::vector<int64_t> view_of, written;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const at::Tensor& t = call.outputs[k];
    const bool dirty = position_of(t, call.dirty) >= 0;
    written.push_back(dirty ? position_of(t, call.inputs) : -1);
    view_of.push_back(dirty ? -1 : input_below(outputs[k], inputs, r.facts));
    if (dirty) {
      r.written_with_grad.insert(r.facts[outputs[k]].storage);
      continue;
    }
    if (view_of[k] >= 0 && !t.is_view())
      r.refuse("FG-190", call.name +
                             " returns a tensor on the memory of an input (x.data) that "
                             "is no view of it");
    if (view_of[k] < 0 && shares_with_given(outputs[k]))
      r.refuse("FG-190", call.name + " returns a view of a tensor that is none of its inputs");
    if (view_of[k] < 0 && t.is_view()) view_of[k] = -2;
    for (size_t other = 0; other < k && view_of[k] < 0; ++other)
      if (r.facts[outputs[other]].storage == r.facts[outputs[k]].storage)
        r.refuse("FG-190", call.name + " returns two tensors that share memory");
  }
  for (size_t k = 0; k < saved.size(); ++k) {
    if (position_of(call.saved[k], call.outputs) >= 0 ||
        position_of(call.saved[k], call.inputs) >= 0)
      continue;
    if (call.saved[k].requires_grad() && r.values[saved[k]].kind != ir::ValueKind::Input)
      r.refuse("FG-190", call.name + " saves a tensor with a history that is none of its inputs");
    for (size_t j = 0; j < outputs.size(); ++j)
      if (view_of[j] < 0 && r.facts[outputs[j]].storage == r.facts[saved[k]].storage)
        r.refuse("FG-190", call.name + " saves a tensor that shares memory with its result");
  }
  if (r.refusal) return -1;

  PendingBind p{ir::Bind{
      prims::function(),
      {Arg(IValue(call.name)), Arg(IValue(int64_t{r.functions})), Arg(std::move(inputs)),
       Arg(std::move(outputs)), Arg(std::move(saved)), Arg(IValue(view_of)), Arg(IValue(written))},
      {},
      r.location(),
      r.region,
      true}};
  ValueList results;
  for (const at::Tensor& t : call.outputs)
    results.push_back(r.new_result(t, static_cast<int32_t>(r.binds.size())));
  p.bind.results.emplace_back(std::move(results));
  r.binds.push_back(std::move(p));
  return r.functions++;
}

// The history of a value is not that of its tensor any more if its memory was written through
// another one.
bool Recorder::Impl::is_written_after(ValueId id) const {
  for (size_t i = static_cast<size_t>(facts[id].producer) + 1; i < binds.size(); ++i) {
    bool same = false;
    for (size_t a : ops::written_arguments(binds[i].bind))
      ir::for_each_value(binds[i].bind.args[a], [&](ValueId written) {
        same =
            same || (facts[id].storage != nullptr && facts[written].storage == facts[id].storage);
      });
    if (same && !binds[i].dead) return true;
  }
  return false;
}

int Recorder::note_boundary(const at::Tensor& t) {
  Impl& r = *impl_;
  if (r.refusal) return -1;
  r.update_position();
  const ValueId id = r.use(t);
  if (r.refusal || id == kNoValue) return -1;
  if (r.facts[id].producer < 0) {
    r.refuse("FG-193", "hooks are registered on another tensor on the memory of an argument");
    return -1;
  }
  // Eager calls the hook with None where only another result of the operator has a gradient.
  int with_history = 0;
  ir::for_each_result(r.binds[static_cast<size_t>(r.facts[id].producer)].bind, [&](ValueId result) {
    with_history += r.values[result].is_tensor() && r.values[result].tensor().requires_grad ? 1 : 0;
  });
  if (with_history > 1) {
    r.refuse("FG-193", "hooks are registered on one of several results of an operator");
    return -1;
  }
  if (r.is_written_after(id)) {
    r.refuse("FG-193",
             "hooks are registered on a tensor that another one, on its memory, has written");
    return -1;
  }
  const auto [it, is_new] = r.boundaries.emplace(id, r.next_boundary);
  if (is_new) ++r.next_boundary;
  return it->second;
}

void Recorder::drop_boundary(int number) {
  std::erase_if(impl_->boundaries, [&](const auto& b) { return b.second == number; });
}

bool Recorder::is_made_here(const at::Tensor& t) {
  Impl& r = *impl_;
  return r.given.count(t.unsafeGetTensorImpl()) == 0 && r.find(t) != kNoValue;
}

bool Recorder::is_written_with_grad(const at::Tensor& t) const {
  return impl_->written_with_grad.count(storage_of(t.unsafeGetTensorImpl())) > 0;
}

void Recorder::note_random_state(const at::Tensor& state) {
  Impl& r = *impl_;
  if (r.refusal) return;
  r.update_position();
  r.push(prims::random_state(), {});
  r.binds.back().bind.results.emplace_back(
      r.new_result(state, static_cast<int32_t>(r.binds.size()) - 1));
}

void Recorder::begin_checkpoint(bool preserves_random_state) {
  Impl& r = *impl_;
  r.update_position();
  r.outside_checkpoints.push_back(r.region);
  r.regions.push_back({prims::checkpoint(),
                       {Arg(IValue(preserves_random_state))},
                       {},
                       r.location(),
                       r.region,
                       r.position.module});
  r.region_dead.push_back(false);
  r.region = static_cast<int32_t>(r.regions.size()) - 1;
}

void Recorder::end_checkpoint() {
  Impl& r = *impl_;
  if (r.outside_checkpoints.empty()) return;
  r.region = r.outside_checkpoints.back();
  r.outside_checkpoints.pop_back();
}

void Recorder::note_version_bump(const at::Tensor& t) {
  Impl& r = *impl_;
  if (r.refusal) return;
  r.update_position();
  r.push(prims::bump_version_(), {Arg(r.use(t)), Arg(IValue(int64_t{1}))});
}

}  // namespace fulgurite::record
