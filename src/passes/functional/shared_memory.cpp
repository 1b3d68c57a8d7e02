// Inputs that share memory, of which some is written.
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/errors.h"
#include "ops/prims.h"
#include "passes/functional/overlap.h"
#include "passes/functional/variables.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Value;

void Variables::share_memory_of_inputs(const std::vector<record::SharedInput>& shared) {
  std::vector<int32_t> ids;
  for (auto& [id, s] : storages_)
    if (s.visible && s.variables.size() > 1 && is_written(id)) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (int32_t id : ids) {
    const std::vector<int> roots = storages_[id].variables;
    bool requires_grad = false;  // or gets a history
    for (const record::SharedInput& s : shared)
      requires_grad = requires_grad || (s.is_view && vars_[of(s.value)].facts.storage == id);
    for (int r : roots) {
      requires_grad = requires_grad || vars_[r].facts.tensor().requires_grad;
      if (vars_[r].facts.tensor().dtype != vars_[roots[0]].facts.tensor().dtype)
        throw Refusal("FG-152",
                      "inputs of different dtypes share memory and one of them is written");
    }
    for (const record::SharedInput& s : shared) vars_[of(s.value)].is_base = s.is_base;
    for (const record::SharedInput& s : shared)
      if (s.is_transformed && vars_[of(s.value)].facts.storage == id)
        throw Refusal("FG-152",
                      "an input that is conjugate or negative shares memory with others, "
                      "and one of them is written");
    if (requires_grad) {
      share_memory_of_base(roots, shared);
    } else {
      share_flat_memory(id, roots);
    }
  }
}

// All become views of one flat base.
void Variables::share_flat_memory(int32_t storage_id, const std::vector<int>& roots) {
  int64_t end = 0;
  for (int r : roots) end = std::max(end, extent(vars_[r].facts).second);
  const int base = static_cast<int>(vars_.size());
  Variable flat;
  ir::TensorType type = vars_[roots[0]].facts.tensor();
  type.sizes = {end};
  type.strides = {1};
  flat.facts.type = type;
  flat.facts.storage = storage_id;
  const Value& first = vars_[roots[0]].facts;
  flat.current = e_.emit(
      prims::strided_view(),
      {Arg(vars_[roots[0]].current), Arg(ints({end})), Arg(ints({1})), Arg(IValue(-first.offset))},
      flat.facts, false);
  vars_.push_back(std::move(flat));
  storages_[storage_id].variables.push_back(base);
  for (int r : roots) vars_[r].parent = base;
}

// All become views of the one of which they are views to autograd; those that are none (x.detach(),
// x.data) without a gradient.
void Variables::share_memory_of_base(const std::vector<int>& roots,
                                     const std::vector<record::SharedInput>& shared) {
  int base = -1;
  for (const record::SharedInput& s : shared)
    if (s.is_base && vars_[of(s.value)].facts.storage == vars_[roots[0]].facts.storage)
      base = of(s.value);
  if (base < 0 || !vars_[base].facts.tensor().is_dense())
    throw Refusal("FG-151",
                  "inputs share memory, one of them is written and requires grad, and they "
                  "are not all views of one dense tensor");
  for (const record::SharedInput& s : shared) {
    const int r = of(s.value);
    if (r == base || vars_[r].facts.storage != vars_[base].facts.storage) continue;
    if (s.is_restricted)
      throw Refusal("FG-151", "the inputs " + vars_[r].facts.name + " and " +
                                  vars_[base].facts.name + " share memory, which is written, and " +
                                  vars_[r].facts.name +
                                  " is a view made without grad mode, or one of several");
    vars_[r].parent = base;
    vars_[r].cut = !s.is_view;
    vars_[r].separate_version = s.own_version;
  }
}

}  // namespace fulgurite::passes
