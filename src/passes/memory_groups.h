// Which memory of a trace may be written, because nobody else looks at it any more.
#pragma once

#include <vector>

#include "ir/trace.h"
#include "ops/shared_memory.h"

namespace fulgurite::passes {

using ops::MemoryGroups;

inline bool same_layout(const ir::Value& a, const ir::Value& b) {
  if (!a.is_tensor() || !b.is_tensor()) return false;
  const auto& x = a.tensor();
  const auto& y = b.tensor();
  return x.dtype == y.dtype && x.device == y.device && x.sizes == y.sizes && x.strides == y.strides;
}

// Every element has memory of its own.
inline bool has_own_elements(const ir::TensorType& t) {
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.strides[d] == 0 && t.sizes[d] > 1) return false;
  return true;
}

// What may be written: for each group, the bind after the last one that reads it, and whether
// anyone reads it when the core has run.
struct MemoryUse {
  explicit MemoryUse(const ir::Trace& t);
  // Whether bind `i` is the last to look at the memory of its argument `id`, by that argument only.
  bool dies_in(const ir::Trace& t, size_t i, ir::ValueId id);

  MemoryGroups groups;
  std::vector<size_t> last_read;  // by group
  std::vector<bool> untouchable;  // by group
};

}  // namespace fulgurite::passes
