#include "passes/checkpoint.h"

#include <ATen/core/Tensor.h>

#include "ops/prims.h"

namespace fulgurite::passes {

int32_t outermost_checkpoint(const ir::Trace& t, int32_t region) {
  int32_t found = -1;
  for (int32_t g = region; g >= 0; g = t.regions[static_cast<size_t>(g)].parent)
    if (t.regions[static_cast<size_t>(g)].op == prims::checkpoint()) found = g;
  return found;
}

}  // namespace fulgurite::passes
