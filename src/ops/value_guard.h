// What the value guard that failed last on this thread found: a hash of it. Only a hint of which
// other program goes on from there.
#pragma once

#include <cstdint>

namespace fulgurite::prims {

uint64_t last_found();

}  // namespace fulgurite::prims
