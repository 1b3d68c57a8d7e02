#include "entry.h"

#include <ATen/core/Tensor.h>

#include "number_recorder.h"

namespace fulgurite::python {

namespace {

size_t given_arguments(size_t nargs, PyObject* kwnames) {
  return nargs + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
}

}  // namespace

bool Entry::gather(const std::vector<PyObject*>& args, const std::vector<PyRef>& slots,
                   std::vector<const at::Tensor*>& inputs, std::vector<at::Tensor>& scratch) const {
  for (PyObject* o : args) inputs.push_back(&tensor_of(o));
  scratch.reserve(externals.size());
  for (const External& e : externals) {
    const at::Tensor& t = e.tensor.get(inputs, slots);
    if (!e.is_grad && !e.is_base) {
      inputs.push_back(&t);
      continue;
    }
    if (e.is_grad ? !t.grad().defined() : !t.is_view()) return false;
    scratch.push_back(e.is_grad ? t.grad() : at::Tensor(t._base()));
    inputs.push_back(&scratch.back());
  }
  return true;
}

// The arguments' tensors, and the objects that differ from call to call.
bool Entry::find_objects(PyObject* const* args, size_t nargs, PyObject* kwnames,
                         std::vector<PyRef>& slots) {
  matched_.clear();
  followed_.clear();
  slots.clear();
  if (!arguments.match(args, nargs, kwnames, matched_, followed_)) return false;
  for (PyObject* o : followed_) slots.push_back(PyRef::borrow(o));
  return true;
}

PyObject* Entry::finish(const std::vector<at::Tensor>& outputs, PyObject* const* args,
                        const std::vector<PyRef>& slots, const StepsOfRun& steps) const {
  return effects.commit(outputs, args, slots, steps);
}

std::string Entry::place_to_follow(PyObject* const* args, size_t nargs, PyObject* kwnames) {
  std::string place = arguments.place_to_follow(args, nargs, kwnames);
  std::vector<PyRef> slots;
  if (!place.empty() || !find_objects(args, nargs, kwnames, slots)) return place;
  return python.changing_place(slots);
}

bool Entry::check(PyObject* const* args, size_t nargs, PyObject* kwnames, const Modes& now,
                  std::vector<const at::Tensor*>& inputs, std::vector<at::Tensor>& scratch,
                  std::vector<PyRef>& slots, const Entry* held) {
  refused_by_ = 0;
  if (!(now == modes) || program->stale()) return false;
  if (!find_objects(args, nargs, kwnames, slots)) return false;
  if (!python.resolve(slots)) return refuses_by_fact();
  for (const SlotGuard& s : slot_tensors)
    if (!s.guard.check(tensor_of(slots[static_cast<size_t>(s.slot)].get()))) return false;
  if (!gather(matched_, slots, inputs, scratch)) return false;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].check(*inputs[i])) return false;
  if (check_aliases && !aliases.check(inputs.data())) return false;
  for (const auto& [i, impl] : fixed_arguments)
    if (inputs[i]->unsafeGetTensorImpl() != impl) return false;
  for (const GradGuard& g : grads)
    if (g.leaf.get(inputs, slots).grad().defined() != g.defined) return false;
  if (held == nullptr) ++checks_;
  if (!(held != nullptr ? python.check_beside(held->python) : python.check()))
    return refuses_by_fact();
  if (has_effects && !effects.prepare(python, args, given_arguments(nargs, kwnames), slots))
    return false;
  drop_repeated(inputs);
  return true;
}

bool Entry::read_numbers(PyObject* const* args, const std::vector<PyRef>& slots,
                         std::vector<c10::IValue>& values) const {
  for (const NumberInput& n : numbers) {
    PyObject* found = n.argument >= 0 ? args[n.argument]
                      : n.slot >= 0   ? slots[static_cast<size_t>(n.slot)].get()
                                      : python.number(static_cast<uint32_t>(n.guard));
    c10::IValue value = number_value(found);
    if (value.isNone()) return false;
    values.push_back(std::move(value));
  }
  return true;
}

std::vector<std::string> Entry::varied(PyObject* const* args, size_t nargs,
                                       PyObject* kwnames) const {
  std::vector<std::string> places = arguments.varied(args, nargs, kwnames);
  for (std::string& place : python.varied()) places.push_back(std::move(place));
  return places;
}

void Entry::plant(const std::shared_ptr<Entry>& entry, const Entry* beside) {
  if (!entry->program->core().has_value_guards()) return;
  entry->python.number_facts(beside != nullptr ? &beside->python : nullptr);
  run::BranchTree::plant(entry, beside, entry->places());
}

std::vector<std::string> Entry::places() const {
  std::vector<std::string> places;
  auto slot = [](int32_t i) { return "slot " + std::to_string(i); };
  for (size_t i : argument_positions) places.push_back("argument tensor " + std::to_string(i));
  for (const External& e : externals) {
    const std::string part = e.is_grad ? "grad of " : e.is_base ? "base of " : "";
    const TensorRef& t = e.tensor;
    if (t.argument >= 0) {
      places.push_back(part + "argument tensor " + std::to_string(t.argument));
    } else if (t.slot >= 0) {
      places.push_back(part + slot(t.slot));
    } else {
      const auto address = reinterpret_cast<uintptr_t>(t.fixed.unsafeGetTensorImpl());
      places.push_back(part + "tensor at " + std::to_string(address));
    }
  }
  for (const NumberInput& n : numbers) {
    places.push_back("number " + (n.argument >= 0 ? "argument " + std::to_string(n.argument)
                                  : n.slot >= 0   ? slot(n.slot)
                                                  : "fact " + std::to_string(python.number_of(
                                                                static_cast<size_t>(n.guard)))));
  }
  return places;
}

void Entry::drop_repeated(std::vector<const at::Tensor*>& all) const {
  const size_t given = all.size() - externals.size();
  if (argument_positions.size() == given) return;
  std::vector<const at::Tensor*> distinct;
  for (size_t i : argument_positions) distinct.push_back(all[i]);
  distinct.insert(distinct.end(), all.begin() + static_cast<std::ptrdiff_t>(given), all.end());
  all = std::move(distinct);
}

std::string Entry::explain_failure(PyObject* const* args, size_t nargs, PyObject* kwnames,
                                   const Modes& now) {
  if (program->stale()) return "a gradient rule of the program has been changed";
  if (!(now == modes)) return now.difference(modes);
  std::string why = arguments.difference(args, nargs, kwnames);
  if (!why.empty()) return why;
  std::vector<PyRef> slots;
  find_objects(args, nargs, kwnames, slots);
  const std::vector<PyRef> given = slots;
  if (!python.resolve(slots)) return python.explain_failure(given);
  for (const SlotGuard& s : slot_tensors) {
    const at::Tensor& t = tensor_of(slots[static_cast<size_t>(s.slot)].get());
    if (!s.guard.check(t)) return s.path + ": " + s.guard.difference(t);
  }
  std::vector<const at::Tensor*> inputs;
  std::vector<at::Tensor> scratch;
  if (!gather(matched_, slots, inputs, scratch))
    return "the .grad of a tensor is None, or it is no view, unlike when recorded";
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].check(*inputs[i]))
      return tensor_paths[i] + ": " + tensors[i].difference(*inputs[i]);
  if (check_aliases && !aliases.check(inputs.data()))
    return "the inputs share memory in another way: when recorded, " + aliases.describe();
  for (const auto& [i, impl] : fixed_arguments)
    if (inputs[i]->unsafeGetTensorImpl() != impl)
      return tensor_paths[i] +
             " was a tensor that the program also reads from a variable, and is another one";
  for (const GradGuard& g : grads)
    if (g.leaf.get(inputs, slots).grad().defined() != g.defined)
      return g.defined ? "the .grad of a parameter is None, was a tensor when recorded"
                       : "the .grad of a parameter is a tensor, was None when recorded";
  if (!python.check()) return python.explain_failure(given);
  return has_effects && !effects.prepare(python, args, given_arguments(nargs, kwnames), slots)
             ? "an object that the call writes is found in two places"
             : "";
}

std::vector<GuardLine> Entry::guard_lines() const {
  std::vector<GuardLine> lines;
  lines.push_back({"modes", modes.describe(), "modes change what operators mean"});
  for (const std::string& s : arguments.describe())
    lines.push_back({"argument", s, "an argument of the call"});
  for (size_t i = 0; i < tensors.size(); ++i)
    lines.push_back(
        {"tensor", tensor_paths[i] + ": " + tensors[i].describe(), "an input of the program"});
  if (check_aliases)
    lines.push_back(
        {"alias", aliases.describe(), "the program writes its inputs, or returns parts of them"});
  for (const GradGuard& g : grads)
    lines.push_back({"grad", g.defined ? ".grad is a tensor" : ".grad is None",
                     "the program reads or writes .grad"});
  for (const GuardInfo& g : python.describe()) lines.push_back({g.kind, g.expression, g.reason});
  for (const SlotGuard& s : slot_tensors)
    lines.push_back({"tensor", s.path + ": " + s.guard.describe(), "differs from call to call"});
  return lines;
}

}  // namespace fulgurite::python
