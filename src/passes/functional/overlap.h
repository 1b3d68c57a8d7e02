// Which elements of a storage a tensor covers, as far as recorded geometry says.
#pragma once

#include <cstdint>
#include <utility>

#include "ir/trace.h"

namespace fulgurite::passes {

// Two elements may share memory (expand, some as_strided).
bool overlaps_itself(const ir::TensorType& t);
// The elements [first, last + 1) of the storage between which a tensor lies.
std::pair<int64_t, int64_t> extent(const ir::Value& v);
// May an element of one be an element of the other? Exact for small tensors, and for parts of one
// tensor that differ by narrow, select, slices of step 1 and permutations; true if it is not known.
bool may_overlap(const ir::Value& a, const ir::Value& b);

}  // namespace fulgurite::passes
