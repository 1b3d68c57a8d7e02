// Which values share a storage, as the printer marks it and the parser reads it.
//
// Only sharing is a fact, so storages are numbered anew, in the order of the values' definitions. A
// mark is "s0+4", "own" (a storage of its own, offset 0) or "?" (not known).
#pragma once

#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

// The values that a trace mentions: constants that are used, inputs, then results, in order.
std::vector<ValueId> live_values(const Trace& trace);

// One mark for every ValueId; "" for numbers and for values that are not live.
std::vector<std::string> storage_marks(const Trace& trace);

// Sets storage and offset from marks (one per value, "" is left alone).
// False if a mark cannot be read.
bool apply_storage_marks(std::vector<Value>& values, const std::vector<std::string>& marks);

}  // namespace fulgurite::ir
