// Which values of a trace may share memory when it runs.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "ir/trace.h"
#include "ops/traits.h"

namespace fulgurite::passes {

// Views with their bases, identities with what they return, written arguments with results.
class MemoryGroups {
 public:
  explicit MemoryGroups(const ir::Trace& t) : parent_(t.values.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const ir::Bind& b : t.binds) {
      const bool may_alias =
          ops::is_view(b.op) || ops::is_mutable(b.op) || !ops::returns_fresh_memory(b.op);
      if (!may_alias) continue;
      ir::ValueId first = ir::kNoValue;
      for_each_arg(b, [&](ir::ValueId id) { first = merge(first, id); });
      for_each_result(b, [&](ir::ValueId id) { first = merge(first, id); });
    }
  }
  ir::ValueId find(ir::ValueId id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }

 private:
  ir::ValueId merge(ir::ValueId a, ir::ValueId b) {
    if (a == ir::kNoValue) return find(b);
    return parent_[find(b)] = find(a);
  }
  std::vector<ir::ValueId> parent_;
};

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

// The part of a trace that may use memory again: its core, and what the epilogue begins with if
// that writes the caller's memory directly (passes/direct_writes.h).
struct Body {
  ir::TracePtr trace;
  size_t end;                        // of the binds
  std::vector<ir::ValueId> later;    // values that others know by number, beside outputs and saved
  std::vector<ir::ValueId> given{};  // tensors of the caller that the epilogue may overwrite
  // Values that may be computed into one of them, and which.
  std::vector<std::pair<ir::ValueId, ir::ValueId>> into{};
};

// What may be written: for each group, the bind after the last one that reads it, and whether
// anyone reads it when the body has run.
struct MemoryUse {
  explicit MemoryUse(const Body& body);
  // Whether bind `i` is the last to look at the memory of its argument `id`, by that argument only,
  // and may write it.
  bool dies_in(size_t i, ir::ValueId id);
  // Whether bind `i` of the epilogue may write `id`, which it reads as a whole or not at all, while
  // it computes: nobody looks at that memory afterwards.
  bool is_free_from(size_t i, ir::ValueId id);
  bool is_given(ir::ValueId id) { return given[groups.find(id)]; }

  const ir::Trace& trace;
  MemoryGroups groups;
  std::vector<size_t> last_read;  // by group
  std::vector<bool> untouchable;  // by group
  std::vector<bool> given;        // by group: the caller's, for the epilogue only
  std::vector<bool> awaits;       // ... for a value that is computed into it
};

}  // namespace fulgurite::passes
