#include "input_sources.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/errors.h"
#include "number_recorder.h"

namespace fulgurite::python {

bool is_among(const at::Tensor& t, const std::vector<const at::Tensor*>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor* other) { return other->is_same(t); });
}

bool InputSources::note_reads(const Observation& seen, Entry& entry) {
  bool touches_grad = false;
  for (const TensorRead& r : seen.tensors) {
    if (!is_any_tensor(r.tensor)) continue;
    touches_grad = touches_grad || r.attribute_grad;
    if (r.attribute_grad) continue;
    const at::Tensor& t = tensor_of(r.tensor);
    if (r.slot >= 0) slots_[t.unsafeGetTensorImpl()] = r.slot;
    if (r.slot >= 0) entry.slot_tensors.push_back({r.slot, run::TensorGuard(t), r.path});
    auto& read = reads_[t.unsafeGetTensorImpl()];
    if (read == nullptr || read->path.empty()) read = &r;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::TensorImpl* impl = tensor_of(arguments[i]).unsafeGetTensorImpl();
    if (reads_.count(impl) > 0) entry.fixed_arguments.emplace_back(i, impl);
  }
  return touches_grad;
}

void InputSources::name_externals(record::Recorder& recorder) const {
  for (size_t i = 0; i < recorder.externals().size(); ++i) {
    const auto* impl = recorder.externals()[i].tensor.unsafeGetTensorImpl();
    if (auto it = reads_.find(impl); it != reads_.end())
      recorder.name_external(i, identifier(it->second->path));
  }
}

void InputSources::check_reads(const record::Recorder& recorder) const {
  for (const auto& [impl, read] : reads_)
    if (recorder.is_known_by_memory(tensor_of(read->tensor)))
      throw fulgurite::Refusal("FG-205", "the program uses " + read->path +
                                             ", which is on the memory of another tensor");
}

void InputSources::settle_numbers(record::Recorder& recorder, Entry& entry, const Observation& seen,
                                  const std::vector<int>& nodes) const {
  for (auto [node, argument] : argument_numbers)
    if (recorder.numbers().is_free(node)) entry.arguments.let_number_vary(argument);
  for (int node : nodes) {
    NumberInput input;
    for (auto [n, argument] : argument_numbers)
      if (n == node) input.argument = static_cast<int32_t>(argument);
    for (const NumberRead& read : seen.numbers) {
      if (read.node != node) continue;
      input.guard = read.guard;
      input.slot = read.slot;
    }
    if (input.argument < 0 && input.guard < 0 && input.slot < 0)
      throw InternalError("a number of the program comes from nowhere");
    entry.numbers.push_back(input);
  }
}

bool InputSources::settle_tensors(Entry& entry, const record::Recording& recording) const {
  const ir::Trace& trace = *recording.trace;
  settle_positions(entry,
                   trace.inputs.size() - recording.externals.size() - recording.numbers.size());
  bool touches_grad = false;
  for (const record::External& e : recording.externals) {
    External x;
    if (e.grad_of >= 0) {
      x.is_grad = touches_grad = true;
      x.path = trace.value(e.grad_of).name + ".grad";
      x.tensor = tensor_ref(entry, recording, e.grad_of);
    } else if (auto it = reads_.find(e.tensor.unsafeGetTensorImpl()); it != reads_.end()) {
      x.path = it->second->path;
      x.tensor.slot = it->second->slot;
      if (x.tensor.slot < 0) x.tensor.fixed = e.tensor;
    } else if (e.base_of >= 0) {
      x.is_base = true;
      x.path = trace.value(e.base_of).name + "._base";
      x.tensor = tensor_ref(entry, recording, e.base_of);
    } else {
      throw fulgurite::Refusal("FG-205", "the program uses a tensor " + trace.value(e.value).name +
                                             " that is neither an argument, nor was read from a "
                                             "variable, nor made in the call");
    }
    entry.tensors.emplace_back(e.tensor);
    if (e.base_of >= 0 && !trace.value(e.value).tensor().requires_grad)
      entry.tensors.back().expect_no_history();
    entry.tensor_paths.push_back(x.path);
    entry.externals.push_back(std::move(x));
  }
  return touches_grad;
}

// The trace has each tensor once; a tensor given twice is one input. The entry must know which.
void InputSources::settle_positions(Entry& entry, size_t distinct) const {
  entry.argument_positions.clear();
  std::vector<const at::Tensor*> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const at::Tensor& t = tensor_of(arguments[i]);
    if (is_among(t, seen)) continue;
    seen.push_back(&t);
    entry.argument_positions.push_back(i);
  }
  if (seen.size() != distinct) throw InternalError("recorded inputs do not match the arguments");
}

void InputSources::guard_grads(Entry& entry, const record::Recording& recording) const {
  for (const record::LeafGrad& l : recording.leaves)
    entry.grads.push_back({tensor_ref(l.leaf), l.defined_before});
}

TensorRef InputSources::tensor_ref(const at::Tensor& t) const {
  TensorRef r;
  for (size_t i = 0; i < arguments.size() && r.argument < 0; ++i)
    if (tensor_of(arguments[i]).is_same(t)) r.argument = static_cast<int32_t>(i);
  if (r.argument >= 0) return r;
  if (auto it = slots_.find(t.unsafeGetTensorImpl()); it != slots_.end()) {
    r.slot = it->second;
  } else {
    r.fixed = t;
  }
  return r;
}

// The tensor that was input `id` of the trace.
TensorRef InputSources::tensor_ref(const Entry& entry, const record::Recording& recording,
                                   ir::ValueId id) const {
  for (size_t i = 0; i < entry.argument_positions.size(); ++i)
    if (recording.trace->inputs[i] == id)
      return tensor_ref(tensor_of(arguments[entry.argument_positions[i]]));
  for (const record::External& e : recording.externals)
    if (e.value == id) return tensor_ref(e.tensor);
  throw InternalError("an input of the trace has no tensor");
}

}  // namespace fulgurite::python
