// C++ code (at::tensor({...}), data_ptr(), parts of some composites) can write memory without an
// operator that a recorder sees. Whatever is read of such memory would be stale when the trace runs
// again.
#pragma once

#include "ir/trace.h"

namespace fulgurite::passes {

// Throws Refusal FG-211 if the program reads memory of empty() and its kin that no recorded
// operator wrote.
void check_memory_is_written(const ir::Trace& trace);

}  // namespace fulgurite::passes
