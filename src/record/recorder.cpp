// Operators as they come: what is noted of each.
#include "record/recorder.h"

#include <ATen/ops/full.h>

#include <cmath>

#include "ir/schema_args.h"
#include "ops/number_prims.h"
#include "record/recorder_impl.h"

namespace fulgurite::record {

namespace {

bool any_requires_grad(const Stack& stack, const c10::FunctionSchema& schema) {
  auto requires_grad = [](const IValue& v) { return v.isTensor() && v.toTensor().requires_grad(); };
  for (size_t i = stack.size() - schema.arguments().size(); i < stack.size(); ++i) {
    const IValue& v = stack[i];
    if (requires_grad(v)) return true;
    if (!v.isTensorList() && !v.isOptionalTensorList()) continue;
    for (const IValue& e : v.toListRef())
      if (requires_grad(e)) return true;
  }
  return false;
}

}  // namespace

namespace {

// The first argument, a tensor from outside of inference mode.
at::Tensor ordinary_tensor_in_inference(const Stack& stack, size_t count) {
  if (!c10::InferenceMode::is_enabled() || count == 0) return {};
  const IValue& of = stack[stack.size() - count];
  return of.isTensor() && of.toTensor().defined() && !of.toTensor().is_inference() ? of.toTensor()
                                                                                   : at::Tensor();
}

}  // namespace

// A tensor of inference mode has no version counter, and what is taken of it outside has its own.
void Recorder::Impl::check_shared_with_inference(const Op& op, const at::Tensor& of,
                                                 const IValue& result) {
  const at::Tensor t = result.isTensor() ? result.toTensor()
                       : result.isTensorList() && result.toListRef().size() > 0
                           ? result.toTensorVector()[0]
                           : at::Tensor();
  if (ops::shares_memory_secretly(op) ||
      (t.defined() && t.is_inference() && t.has_storage() && of.has_storage() && t.is_alias_of(of)))
    refuse("FG-132", op.id() +
                         " in inference mode of a tensor from outside of it, which shares its "
                         "memory, and not its version counter");
}

// Memory of the caller is about to be written: whether its tensors require grad may have been set
// since they were used.
void Recorder::Impl::note_requires_grad_of_given(const IValue& written) {
  auto look = [&](const at::Tensor& t) {
    if (!t.defined() || !t.has_storage()) return;
    for (size_t i = 0; i < given_tensors.size(); ++i) {
      const at::Tensor g = given_tensors[i].tensor;
      if (g.is_leaf() && g.has_storage() && g.is_alias_of(t)) use(g);
    }
  };
  if (written.isTensor()) look(written.toTensor());
  if (written.isTensorList())
    for (const at::Tensor& t : written.toTensorVector()) look(t);
}

// A leaf operator: what autograd sees.
void Recorder::Impl::leaf(const c10::OperatorHandle& handle, DispatchKeySet below, Stack* stack) {
  const Op op(handle);
  const auto& schema = op.schema();
  ++operators;
  update_position();
  const bool switched = c10::InferenceMode::is_enabled() != ambient_inference;
  if (ambient_inference && (switched || c10::GradMode::is_enabled()))
    refuse("FG-132", "inference mode is left inside the function, which is not compiled yet");
  const size_t count = schema.arguments().size();
  const at::Tensor before = ordinary_tensor_in_inference(*stack, count);
  if (open_written_leaves(op, *stack)) {
    use_opened_leaves(stack, count);
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
    for (size_t i = 0; i < count; ++i)
      if (ops::writes_argument(op, i))
        note_requires_grad_of_given((*stack)[stack->size() - count + i]);
    p.bind.args = arguments(*stack, count);
  }
  std::vector<std::pair<size_t, at::Tensor>> numbers_as_tensors;
  for (size_t i = 0; i < p.bind.args.size(); ++i) {
    const IValue& v = (*stack)[stack->size() - count + i];
    if (v.isTensor() && v.toTensor().defined() && std::holds_alternative<IValue>(p.bind.args[i]))
      numbers_as_tensors.emplace_back(i, v.toTensor());
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
  const bool gives_history =
      ruled || (key_stays_on && !ops::cuts_gradient(op) && any_requires_grad(*stack, schema));
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
  for (const auto& [argument, number] : numbers_as_tensors)
    backward_numbers.add_tensor(number, index, argument);
  backward_numbers.add_bind(index);
  if (switched) in_inference.insert(static_cast<int32_t>(index));
  if (gives_history)
    for (size_t a : ops::written_arguments(binds[index].bind))
      ir::for_each_value(binds[index].bind.args[a],
                         [&](ValueId id) { written_with_grad.insert(facts[id].storage); });
  PendingBind done = std::move(binds[index]);
  results(done, static_cast<int32_t>(index), *stack);
  binds[index] = std::move(done);
  if (before.defined()) check_shared_with_inference(op, before, stack->back());
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

// Inference mode is run as without gradients; what it made becomes a tensor of inference mode where
// it leaves the function.
void Recorder::Impl::leave_inference(const std::vector<at::Tensor>& outputs,
                                     std::vector<ValueId>& ids) {
  std::unordered_map<ValueId, ValueId> outside;
  for (size_t i = 0; i < outputs.size() && !in_inference.empty(); ++i) {
    const at::Tensor& t = outputs[i];
    if (ids[i] == kNoValue || given.count(t.unsafeGetTensorImpl()) > 0) continue;
    // .data of one has a version counter.
    const bool counts = t.unsafeGetTensorImpl()->version_counter().enabled();
    if (!t.is_inference() || counts) {
      if (t.is_inference() || in_inference.count(facts[ids[i]].producer) > 0)
        refuse("FG-132",
               "a view made, or a tensor written, in inference mode leaves the function and is no "
               "tensor of it");
      continue;
    }
    if (t.requires_grad())
      refuse("FG-132", "a tensor of inference mode that requires grad leaves the function");
    auto [it, is_new] = outside.emplace(ids[i], kNoValue);
    if (is_new) {
      const auto index = static_cast<int32_t>(binds.size());
      it->second = new_value(t, index, values[ids[i]].name + "i", ir::ValueKind::Result);
      binds.push_back(
          {ir::Bind{prims::inference(), {Arg(ids[i])}, {Result(it->second)}, -1, -1, false}});
    }
    ids[i] = it->second;
  }
}

// torch.tensor(n): the tensor that was taken for a literal is filled with the number.
bool Recorder::Impl::fill_literal(size_t first, size_t& index, const IValue& number) {
  // (torch.tensor detaches it after it has been lifted.)
  while (first < binds.size() && !ops::lifts_constant(binds[first].bind.op)) ++first;
  if (first == binds.size() || first + 2 < binds.size()) return false;
  ir::Bind& bind = binds[index = first].bind;
  if (!std::holds_alternative<ValueId>(bind.args[0])) return false;
  ir::Value& literal = values[std::get<ValueId>(bind.args[0])];
  if (literal.kind != ir::ValueKind::Constant) return false;
  const at::Tensor t = literal.constant;
  const bool fits = number.isDouble() ? t.is_floating_point()
                                      : at::isIntegralType(t.scalar_type(), /*includeBool=*/false);
  if (t.dim() != 0 || !t.device().is_cpu() || !fits) return false;
  const Pause pause;
  const bool is_nan = number.isDouble() && std::isnan(number.toDouble());
  if (!is_nan && !at::full({}, number.toScalar(), t.options()).equal(t)) return false;
  static const Op full = Op::get("aten::full");
  bind.op = full;
  bind.args = {Arg(IValue(std::vector<int64_t>{})),
               Arg(number),
               Arg(IValue(t.scalar_type())),
               Arg(IValue()),
               Arg(IValue()),
               Arg(IValue())};
  literal.kind = ir::ValueKind::Result;  // of nobody
  return true;
}

// Gradient formulas look at numbers that are no tensors for them.
bool Recorder::Impl::may_vary_in_gradient(size_t index, size_t argument, int node) {
  const ir::Bind& bind = binds[index].bind;
  const c10::TypePtr& type = ir::full_type(bind.op.schema().arguments()[argument]);
  if (ir::is_tensor_type(type) || !has_gradient(bind, values)) return true;
  for (const Numbers::Use& u : numbers.uses())
    if (u.bind == index) return false;  // one at a time
  auto varying = number_hook() != nullptr && !numbers.is_fixed(node)
                     ? number_hook()(bind, values, argument)
                     : std::nullopt;
  if (!varying) return false;
  for (const IValue& v : varying->excluded) {
    const auto equal = prims::calculation(v.isInt() ? "int_eq" : "float_eq");
    numbers.check(numbers.calculate(*equal, node, numbers.constant(v), IValue(false)), index,
                  binds[index].bind.region, binds[index].bind.location);
  }
  backward_numbers.add_saved(node, results_of(binds[index].bind), std::move(*varying));
  return true;
}

// Those that are still there: Python has been given them just now.
std::vector<at::Tensor> Recorder::Impl::results_of(const ir::Bind& bind) const {
  std::unordered_set<ValueId> ids;
  ir::for_each_result(bind, [&](ValueId id) {
    if (values[id].is_tensor()) ids.insert(id);
  });
  std::vector<at::Tensor> found;
  for (auto weak = weak_tensors.rbegin(); weak != weak_tensors.rend() && !ids.empty(); ++weak) {
    const auto impl = weak->lock();
    if (!impl.defined()) continue;
    const auto known = by_impl.find(impl.get());
    if (known != by_impl.end() && ids.erase(known->second) > 0) found.emplace_back(impl);
  }
  return ids.empty() ? found : std::vector<at::Tensor>();
}

// For a composite that gives its numbers to its parts. False: it is not known to.
bool Recorder::Impl::hand_on_numbers(Mark since, const std::vector<NumberPlace>& places) {
  if (since.regions >= regions.size() || !ops::hands_on_numbers(regions[since.regions].op))
    return false;
  struct Found {
    size_t bind, argument;
  };
  std::vector<Found> found;
  for (const NumberPlace& place : places) {
    const std::string keyword = name_of(regions[since.regions].op, place);
    size_t takers = 0;
    for (size_t i = since.binds; i < binds.size(); ++i) {
      if (binds[i].dead) continue;
      if (binds[i].bind.region < static_cast<int32_t>(since.regions)) return false;
      const NumberPlace named{place.node, -1, keyword, place.element};
      const auto argument = argument_of(binds[i].bind, values, named, numbers.value(place.node));
      if (!argument) continue;
      ++takers;
      found.push_back({i, *argument});
    }
    if (takers != 1) return false;
  }
  for (size_t k = 0; k < places.size(); ++k)
    if (!may_vary_in_gradient(found[k].bind, found[k].argument, places[k].node)) return false;
  for (size_t k = 0; k < places.size(); ++k)
    numbers.use(found[k].bind, found[k].argument, places[k].element, places[k].node);
  // Its own arguments would show the recorded numbers.
  for (size_t g = since.regions; g < regions.size(); ++g) region_dead[g] = true;
  return true;
}

void Recorder::use_numbers(Mark since, const std::vector<NumberPlace>& places) {
  Impl& r = *impl_;
  // The operator is the last one; before it an autograd kernel may have cloned what it saves.
  size_t index = r.binds.size();
  bool plain = true;
  for (size_t i = r.binds.size(); i-- > since.binds;) {
    if (r.binds[i].dead) continue;
    if (ops::is_value_guard(r.binds[i].bind.op)) continue;
    if (index == r.binds.size()) {
      index = i;
      // Not a part of a composite. (What read numbers for it may have been one.)
      plain = r.binds[i].bind.region < static_cast<int32_t>(since.regions);
    } else {
      plain = plain && !has_constant_number(r.binds[i].bind);
    }
  }
  if (r.hand_on_numbers(since, places)) return;
  for (const NumberPlace& place : places) {
    std::optional<size_t> argument;
    const bool literal = place.element < 0 && (place.position == 0 || place.keyword == "data") &&
                         r.fill_literal(since.binds, index, r.numbers.value(place.node));
    if (literal) {
      argument = 1;
    } else if (plain && index < r.binds.size())
      argument = argument_of(r.binds[index].bind, r.values, place, r.numbers.value(place.node));
    if (argument && (literal || r.may_vary_in_gradient(index, *argument, place.node))) {
      r.numbers.use(index, *argument, place.element, place.node);
    } else {
      r.numbers.fix(place.node);
    }
  }
}

int Recorder::read_number_of(Mark since, const at::Tensor& tensor) {
  Impl& r = *impl_;
  const ValueId of = r.find(tensor);
  ValueId found = kNoValue;
  for (size_t i = since.binds; of != kNoValue && i < r.binds.size(); ++i) {
    const ir::Bind& bind = r.binds[i].bind;
    if (bind.args.empty() || bind.args[0] != Arg(of)) continue;
    for_each_result(bind, [&](ValueId id) {
      if (r.expectations.count(id) != 0) found = found == kNoValue ? id : -2;
    });
  }
  if (found < 0) return -1;
  const size_t expectation = r.expectations.at(found);
  const auto* value = std::get_if<IValue>(&r.binds[expectation].bind.args[1]);
  return value != nullptr && (value->isInt() || value->isDouble())
             ? r.numbers.read(*value, found, expectation)
             : -1;
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

void Recorder::note_requires_grad(const at::Tensor& t) {
  // Of a torch.func transform: it does not outlive the transform, and the program has what is
  // inside.
  if (t.unsafeGetTensorImpl()->key_set().has(DispatchKey::FuncTorchGradWrapper)) return;
  impl_->use(t);
}

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
