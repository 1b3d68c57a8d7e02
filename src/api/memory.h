// A check that only C++ programs need: they can write memory that no operator shows.
#pragma once

#include "ir/trace.h"

namespace fulgurite::api {

// Throws Refusal FG-211 if the program reads memory of empty() and its kin that no recorded
// operator wrote: at::tensor({...}) and data_ptr() fill memory behind the recorder's back.
void check_memory_is_written(const ir::Trace& trace);

}  // namespace fulgurite::api
