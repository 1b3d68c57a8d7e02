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
  r.given.insert(tensor.unsafeGetTensorImpl());
  r.note_leaf(tensor, id);
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
    if (ops::is_value_guard(r.binds[i].bind.op)) continue;
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

void Recorder::name_external(size_t index, std::string name) {
  impl_->values[impl_->externals.at(index).value].name = std::move(name);
}

}  // namespace fulgurite::record
