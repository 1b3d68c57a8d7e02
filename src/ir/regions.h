// Where the binds of each region stand. Shared by the verifier, the printer and the builder.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

// The binds [first, last) of a region, those of its inner regions included.
struct RegionSpan {
  size_t first = 0;
  size_t last = 0;
  size_t count = 0;  // binds inside; less than last - first if they are not contiguous
  bool empty() const { return count == 0; }
  bool contiguous() const { return count == last - first; }
};

// One span for every region of the trace. Needs parents smaller than their regions.
std::vector<RegionSpan> region_spans(const Trace& trace);

// For every value the index of the bind that defines it: 0 based binds are shifted by one, so that
// inputs and constants have 0 and a value without definition has kNeverDefined.
inline constexpr size_t kNeverDefined = static_cast<size_t>(-1);
std::vector<size_t> definition_points(const Trace& trace);

}  // namespace fulgurite::ir
