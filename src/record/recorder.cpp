// Operators as they come: what is noted of each.
#include "record/recorder.h"

#include "record/recorder_impl.h"

namespace fulgurite::record {

// A leaf operator: what autograd sees.
void Recorder::Impl::leaf(const c10::OperatorHandle& handle, DispatchKeySet below, Stack* stack) {
  const Op op(handle);
  const auto& schema = op.schema();
  ++operators;
  update_position();
  if (c10::InferenceMode::is_enabled() != ambient_inference)
    refuse("FG-132", "inference mode is switched inside the function, which is not compiled yet");
  if (open_written_leaves(op, *stack)) {
    use_opened_leaves(stack, schema.arguments().size());
    if (ops::writes_out_argument(op)) return write_out_arguments(op, stack);
  }
  zero_unwritten(op, *stack);
  PendingBind p{ir::Bind{op, {}, {}, location(), region, c10::GradMode::is_enabled()}};
  if (ops::lifts_constant(op) && stack->back().isTensor() &&
      find(stack->back().toTensor()) == kNoValue) {
    // torch.tensor(...): the contents are a literal of the program.
    const at::Tensor& t = stack->back().toTensor();
    ExcludeKey off(kKey);
    const ValueId id =
        new_value(t, -1, "c" + std::to_string(values.size()), ir::ValueKind::Constant);
    values[id].constant = t.detach().clone();
    p.bind.args.emplace_back(id);
  } else {
    p.bind.args = arguments(*stack, schema.arguments().size());
  }
  if (changes_given_tensor(op, *stack))
    refuse("FG-140",
           op.id() +
               " changes the shape of a tensor that the caller can see, which is not compiled yet");
  // The autograd kernel of a mutable operator may clone what it must save before it writes. That
  // clone is part of the program: the key stays on, and the operator itself is pushed after it.
  // A user's rule saves what it needs out of sight.
  const bool ruled = by_rule(op, stack);
  const bool key_stays_on = !ruled && schema.is_mutable() && c10::GradMode::is_enabled();
  size_t index = binds.size();
  if (!key_stays_on) binds.push_back(p);
  if (!ruled) {
    std::optional<ExcludeKey> off;
    if (!key_stays_on) off.emplace(kKey);
    ++nesting;
    try {
      handle.redispatchBoxed(below, stack);
    } catch (...) {
      --nesting;
      if (!key_stays_on) binds[index].dead = true;
      throw;
    }
    --nesting;
  }
  if (key_stays_on) {
    index = binds.size();
    binds.push_back(std::move(p));
  }
  if (key_stays_on || ruled)
    for (size_t a : ops::written_arguments(binds[index].bind))
      ir::for_each_value(binds[index].bind.args[a],
                         [&](ValueId id) { written_with_grad.insert(facts[id].storage); });
  PendingBind done = std::move(binds[index]);
  results(done, static_cast<int32_t>(index), *stack);
  binds[index] = std::move(done);
  if (ops::leaves_memory_uninitialised(op))
    for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
      if ((*stack)[i].isTensor()) fresh.allocated((*stack)[i].toTensor());
  expect_results(index, *stack);
}

// Some composites allocate with empty* and fill the memory without dispatching anything.
bool Recorder::Impl::filled_behind_our_back(const Op& op, const Stack& stack, size_t first_bind) {
  const size_t count = op.schema().returns().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (!stack[i].isTensor()) continue;
    const at::Tensor& t = stack[i].toTensor();
    if (!t.defined() || t.numel() == 0) continue;
    const ValueId id = find(t);
    if (id == kNoValue) return true;
    const int32_t producer = facts[id].producer;
    if (producer < static_cast<int32_t>(first_bind)) continue;
    if (!ops::leaves_memory_uninitialised(binds[producer].bind.op)) continue;
    bool written = false;
    for (size_t q = producer + 1; q < binds.size() && !written; ++q) {
      if (!binds[q].bind.op.schema().is_mutable()) continue;
      ir::for_each_arg(binds[q].bind, [&](ValueId a) {
        written = written || facts[a].storage == facts[id].storage;
      });
    }
    if (!written) return true;
  }
  return false;
}

void Recorder::Impl::composite(const c10::OperatorHandle& handle, DispatchKeySet below,
                               Stack* stack) {
  const Op op(handle);
  update_position();
  const size_t arg_count = op.schema().arguments().size();
  const size_t first_bind = binds.size();
  Stack saved(stack->end() - static_cast<std::ptrdiff_t>(arg_count), stack->end());
  ir::Region r{op, arguments(*stack, arg_count), {}, location(), region, position.module};
  const auto region_id = static_cast<int32_t>(regions.size());
  regions.push_back(std::move(r));
  region_dead.push_back(false);
  const int32_t outer = region;
  region = region_id;
  try {
    handle.redispatchBoxed(below, stack);
  } catch (...) {
    region = outer;
    throw;
  }
  region = outer;
  if (ops::reads_integers(op))
    refuse(
        "FG-133",
        op.id() +
            " reads the numbers in an integer tensor without an operator that could be recorded");
  if (filled_behind_our_back(op, *stack, first_bind)) {
    for (size_t i = first_bind; i < binds.size(); ++i) binds[i].dead = true;
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

// -------------------------------------------------------------------------------------------
Recorder::Recorder(std::string name, PositionProvider where) : impl_(std::make_unique<Impl>()) {
  impl_->name = std::move(name);
  impl_->where = where;
}

Recorder::~Recorder() = default;

ValueId Recorder::add_input(const at::Tensor& tensor, const std::string& name) {
  Impl& r = *impl_;
  const ValueId known = r.find(tensor);
  if (known != kNoValue) return known;
  if (!is_plain(tensor)) {
    r.refuse("FG-110", "argument " + name + " is a tensor of a kind that is not compiled yet (" +
                           tensor.toString() + "); supported are strided, dense tensors");
    return kNoValue;
  }
  const ValueId id = r.new_value(tensor, -1, name, ir::ValueKind::Input);
  r.inputs.push_back(id);
  r.note_given(tensor, id);
  return id;
}

Numbers& Recorder::numbers() { return impl_->numbers; }

Mark Recorder::mark() const { return {impl_->binds.size(), impl_->regions.size()}; }

int Recorder::read_number(Mark since, const IValue& value) {
  Impl& r = *impl_;
  ValueId found = kNoValue;
  for (size_t i = since.binds; i < r.binds.size(); ++i)
    for_each_result(r.binds[i].bind, [&](ValueId id) {
      if (r.expectations.count(id) == 0) return;
      found = found == kNoValue ? id : -2;  // of several it is not known which
    });
  if (found < 0) return -1;
  const size_t expectation = r.expectations.at(found);
  const auto* expected = std::get_if<IValue>(&r.binds[expectation].bind.args[1]);
  if (expected == nullptr || !same_number(*expected, value)) return -1;
  return r.numbers.read(value, found, expectation);
}

void Recorder::use_numbers(Mark since, const std::vector<NumberPlace>& places) {
  Impl& r = *impl_;
  // The operator is the last one; before it an autograd kernel may have cloned what it saves.
  size_t index = r.binds.size();
  bool plain = r.regions.size() == since.regions;
  for (size_t i = r.binds.size(); i-- > since.binds;) {
    if (r.binds[i].dead) continue;
    const auto& op = r.binds[i].bind.op;
    if (op == prims::expect_int() || op == prims::expect_float() || op == prims::expect_bool() ||
        op == prims::expect_sizes())
      continue;
    if (index == r.binds.size()) {
      index = i;
    } else {
      plain = plain && !has_constant_number(r.binds[i].bind);
    }
  }
  for (const NumberPlace& place : places) {
    std::optional<size_t> argument;
    if (plain && index < r.binds.size())
      argument = argument_of(r.binds[index].bind, r.values, place, r.numbers.value(place.node));
    if (argument) {
      r.numbers.use(index, *argument, place.element, place.node);
    } else {
      r.numbers.fix(place.node);
    }
  }
}

void Recorder::check_number(int comparison) {
  impl_->update_position();
  impl_->numbers.check(comparison, impl_->binds.size(), impl_->region, impl_->location());
}

void Recorder::refuse(const std::string& code, const std::string& message) {
  impl_->refuse(code, message);
}

void Recorder::note_grad_access(const at::Tensor& leaf) {
  for (const Impl::OpenedLeaf& o : impl_->opened)
    if (o.leaf.is_same(leaf))
      impl_->refuse("FG-183",
                    "the .grad of a leaf is used after the function wrote the leaf in place");
  if (leaf.requires_grad() && leaf.is_leaf()) impl_->use(leaf);
}

void Recorder::note_requires_grad(const at::Tensor& t) { impl_->use(t); }

void Recorder::note_grad_write(const at::Tensor& leaf) {
  impl_->use(leaf);
  for (auto& l : impl_->leaves)
    if (l.tensor.is_same(leaf)) l.grad_set = true;
}

const std::vector<External>& Recorder::externals() const { return impl_->externals; }

bool Recorder::is_known_by_memory(const at::Tensor& tensor) const {
  return impl_->known_by_memory.count(tensor.unsafeGetTensorImpl()) > 0;
}

void Recorder::name_external(size_t index, std::string name) {
  impl_->values[impl_->externals.at(index).value].name = std::move(name);
}

}  // namespace fulgurite::record
