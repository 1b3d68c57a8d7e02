// Where a later call finds the inputs of the program that a recorded call became.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "entry.h"
#include "record/recorder.h"
#include "watch/watcher.h"

namespace fulgurite::python {

bool is_among(const at::Tensor& t, const std::vector<const at::Tensor*>& tensors);

class InputSources {
 public:
  std::vector<PyObject*> arguments;                      // tensors among the arguments of the call
  std::vector<std::pair<int, size_t>> argument_numbers;  // node, argument

  // What the watcher saw: tensors that the program read from variables. True if it touched a .grad.
  // `seen` must stay.
  bool note_reads(const Observation& seen, Entry& entry);
  // Of the recorder's externals, as the program calls them.
  void name_externals(record::Recorder& recorder) const;
  // Throws Refusal FG-205.
  void check_reads(const record::Recorder& recorder) const;

  // Each into the entry. Tensors: true if one is a .grad; throws Refusal FG-205 for one that comes
  // from nowhere. `nodes` are the numbers that are inputs.
  void settle_numbers(record::Recorder& recorder, Entry& entry, const Observation& seen,
                      const std::vector<int>& nodes) const;
  bool settle_tensors(Entry& entry, const record::Recording& recording) const;
  // Which leaves must have a .grad when the call begins, and which must not.
  void guard_grads(Entry& entry, const record::Recording& recording) const;

 private:
  void settle_positions(Entry& entry, size_t distinct) const;
  TensorRef tensor_ref(const at::Tensor& t) const;
  TensorRef tensor_ref(const Entry& entry, const record::Recording& recording,
                       ir::ValueId id) const;

  std::unordered_map<const c10::TensorImpl*, const TensorRead*> reads_;
  std::unordered_map<const c10::TensorImpl*, int> slots_;  // tensors that differ from call to call
};

}  // namespace fulgurite::python
