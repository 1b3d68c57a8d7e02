#include "ops/memory.h"

#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::ops {

bool overwrites_argument(const ir::Op& op, std::size_t argument) {
  if (!writes_argument(op, argument)) return false;
  if (op.schema().arguments()[argument].kwarg_only()) return true;  // out=
  const std::string name = op.base_name();
  return is_random(op) || copies_argument(op) || name == "fill_" || name == "zero_";
}

bool ignores_contents(const ir::Op& op) {
  return is_view(op) || leaves_memory_uninitialised(op) || op == prims::set_requires_grad();
}

}  // namespace fulgurite::ops
