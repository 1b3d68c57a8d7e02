// What the value guard that failed last on this thread found: a hash of it. Only a hint of which
// other program goes on from there.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>

namespace fulgurite::prims {

uint64_t last_found();
// The hash of what a value guard would have to find so as not to fail: of its constant argument.
uint64_t hash_of_found(const c10::IValue& value);

}  // namespace fulgurite::prims
