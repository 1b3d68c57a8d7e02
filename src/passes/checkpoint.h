// Activation checkpoints: regions whose values are computed again in backward (prims.checkpoint).
#pragma once

#include "ir/trace.h"

namespace fulgurite::passes {

// The outermost checkpoint around a region; -1: none.
int32_t outermost_checkpoint(const ir::Trace& trace, int32_t region);

}  // namespace fulgurite::passes
