// Composite operators: recorded as their parts, in a region, unless that would lose something.
#include <unordered_set>
#include <utility>

#include "record/recorder_impl.h"

namespace fulgurite::record {
namespace {

constexpr int64_t kMostNumbers = 4096;  // of an integer tensor whose contents are guarded

}  // namespace

// Some composites allocate with empty* and fill the memory without dispatching anything. Is `t`, a
// result, such memory?
bool Recorder::Impl::filled_behind_our_back(const at::Tensor& t, size_t first_bind) {
  if (!t.defined() || t.numel() == 0) return false;
  const ValueId id = find(t);
  if (id == kNoValue) return true;
  const int32_t producer = facts[id].producer;
  if (producer < static_cast<int32_t>(first_bind)) return false;
  if (!ops::leaves_memory_uninitialised(binds[producer].bind.op)) return false;
  for (size_t q = producer + 1; q < binds.size(); ++q)
    if (binds[q].bind.op.schema().is_mutable() && takes(binds[q].bind, facts[id].storage))
      return false;
  return true;
}

// Does the bind have an argument in this memory?
bool Recorder::Impl::takes(const ir::Bind& bind, const c10::StorageImpl* storage) const {
  bool found = false;
  ir::for_each_arg(bind, [&](ValueId a) { found = found || facts[a].storage == storage; });
  return found;
}

// The composite must be one operator of the trace: its parts do not make all of its results.
bool Recorder::Impl::keeps_whole(const Op& op, const Stack& stack, size_t first_bind) {
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i)
    if (stack[i].isTensor() && filled_behind_our_back(stack[i].toTensor(), first_bind)) return true;
  return false;
}

// The numbers in integer tensors decide what the parts of `op` will be.
void Recorder::Impl::expect_contents(const Op& op, const Stack& arguments) {
  for (const IValue& v : arguments) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor& t = v.toTensor();
    if (!at::isIntegralType(t.scalar_type(), /*includeBool=*/false)) continue;
    if (!t.is_cpu() || t.numel() > kMostNumbers)
      refuse("FG-133", op.id() + " reads the numbers in an integer tensor of " +
                           std::to_string(t.numel()) +
                           " elements, which are too many for a guard on each");
    if (refusal) return;
    ExcludeKey off(kKey);
    const at::Tensor contents = t.to(at::kLong).contiguous();
    const auto* first = contents.const_data_ptr<int64_t>();
    push(prims::expect_values(),
         {Arg(use(t)), Arg(IValue(std::vector<int64_t>(first, first + contents.numel())))});
  }
}

// A tensor that a part computes with was not read by the composite itself. A part that only makes
// other integers of it, as a conversion does, is no sign of that: the composite may read those.
void Recorder::Impl::drop_needless_guards(size_t first_guard, size_t first_part) {
  for (size_t g = first_guard; g < first_part; ++g) {
    std::unordered_set<ValueId> integers{std::get<ValueId>(binds[g].bind.args[0])};
    for (size_t i = first_part; i < binds.size() && !binds[g].dead; ++i) {
      bool taken = false, computes = false;
      ir::for_each_arg(binds[i].bind, [&](ValueId id) { taken = taken || integers.count(id) > 0; });
      if (!taken) continue;
      ir::for_each_result(binds[i].bind, [&](ValueId id) {
        if (!values[id].is_tensor()) return;
        const bool integral = at::isIntegralType(values[id].tensor().dtype, /*includeBool=*/true);
        if (integral) integers.insert(id);
        computes = computes || !integral;
      });
      binds[g].dead = computes;
    }
  }
}

// What such a composite puts into memory without an operator comes of numbers that are guarded: it
// is a literal.
void Recorder::Impl::fill_with_constants(const Op& op, const Stack& stack, size_t first_part) {
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    if (!stack[i].isTensor()) continue;
    const at::Tensor& t = stack[i].toTensor();
    if (!filled_behind_our_back(t, first_part) || find(t) == kNoValue) continue;
    fresh.take(t);
    fill_with_constant(t);
  }
}

void Recorder::Impl::fill_with_constant(const at::Tensor& t) {
  static const Op copy = Op::get("aten::copy_");
  push(copy, {Arg(use(t)), Arg(constant(t)), Arg(IValue(false))});
  binds.back().bind.results.emplace_back(result_tensor(t, static_cast<int32_t>(binds.size() - 1)));
}

ValueId Recorder::Impl::constant(const at::Tensor& t) {
  ExcludeKey off(kKey);
  const at::Tensor copy = t.detach().clone();
  const ValueId id =
      new_value(copy, -1, "c" + std::to_string(values.size()), ir::ValueKind::Constant);
  values[id].constant = copy;
  return id;
}

void Recorder::Impl::composite(const c10::OperatorHandle& handle, DispatchKeySet below,
                               Stack* stack) {
  const Op op(handle);
  update_position();
  const size_t arg_count = op.schema().arguments().size();
  Stack saved(stack->end() - static_cast<std::ptrdiff_t>(arg_count), stack->end());
  ir::Region r{op, arguments(*stack, arg_count), {}, location(), region, position.module};
  const auto region_id = static_cast<int32_t>(regions.size());
  regions.push_back(std::move(r));
  region_dead.push_back(false);
  const int32_t outer = region;
  const size_t first_guard = binds.size();
  const bool reads_integers = ops::reads_integers(op);
  if (reads_integers) expect_contents(op, saved);
  const size_t first_bind = binds.size();
  region = region_id;
  const bool outer_expected = std::exchange(contents_expected, contents_expected || reads_integers);
  try {
    handle.redispatchBoxed(below, stack);
  } catch (...) {
    region = outer;
    contents_expected = outer_expected;
    throw;
  }
  contents_expected = outer_expected;
  if (reads_integers) {
    drop_needless_guards(first_guard, first_bind);
    fill_with_constants(op, *stack, first_bind);
  }
  region = outer;
  if (keeps_whole(op, *stack, first_bind)) {
    for (size_t i = first_guard; i < binds.size(); ++i) binds[i].dead = true;
    for (size_t i = region_id; i < regions.size(); ++i) region_dead[i] = true;
    PendingBind p{ir::Bind{op,
                           regions[region_id].args,
                           {},
                           regions[region_id].location,
                           region,
                           c10::GradMode::is_enabled()}};
    const auto index = static_cast<int32_t>(binds.size());
    results(p, index, *stack);
    binds.push_back(std::move(p));
    return;
  }
  const size_t count = op.schema().returns().size();
  for (size_t i = stack->size() - count; i < stack->size(); ++i) {
    const IValue& v = (*stack)[i];
    if (v.isTensor() && v.toTensor().defined()) {
      regions[region_id].results.emplace_back(find(v.toTensor()));
    } else if (v.isTensorList()) {
      ValueList list;
      for (const IValue& e : v.toListRef())
        list.push_back(e.toTensor().defined() ? find(e.toTensor()) : kNoValue);
      regions[region_id].results.emplace_back(std::move(list));
    } else {
      regions[region_id].results.emplace_back(kNoValue);
    }
  }
}

}  // namespace fulgurite::record
