#include "passes/functional/checkpoints.h"

#include <ATen/core/Tensor.h>

#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/checkpoint.h"

namespace fulgurite::passes {

using ir::Bind;
using ir::Trace;
using ir::ValueId;

void Checkpoints::check(const Bind& b) {
  const int32_t outermost = b.region < 0 ? -1 : outermost_checkpoint(in_, b.region);
  if (outermost < 0) return;
  const int first = first_variable_.emplace(outermost, vars_.size()).first->second;
  bool preserves = true;
  for (int32_t g = b.region; g >= 0; g = in_.regions[static_cast<size_t>(g)].parent) {
    const ir::Region& r = in_.regions[static_cast<size_t>(g)];
    if (r.op == prims::checkpoint())
      preserves = preserves && std::get<c10::IValue>(r.args[0]).toBool();
  }
  if (ops::is_random(b.op) && !preserves)
    throw Refusal("FG-194", b.op.id() +
                                " draws other random numbers when a checkpoint computes it again "
                                "(preserve_rng_state=False)");
  if (ops::has_own_history(b.op) || b.op == prims::set_requires_grad())
    throw Refusal("FG-194", "an autograd.Function, a hook or requires_grad_() in a checkpoint");
  for (size_t a : ops::written_arguments(b))
    ir::for_each_value(b.args[a], [&](ValueId id) {
      const Storage& s = vars_.storage(vars_[vars_.of(id)]);
      if (s.visible || s.variables.front() < first)
        throw Refusal("FG-194", b.op.id() +
                                    " in a checkpoint writes a tensor from outside it: eager "
                                    "writes it again in backward");
    });
}

void check_checkpoints(const Functionalized& f) {
  const Trace& t = *f.trace;
  if (t.regions.empty()) return;
  std::vector<int32_t> made_in(t.values.size(), -1);
  for (size_t i = 0; i < t.epilogue; ++i) {
    const int32_t checkpoint = outermost_checkpoint(t, t.binds[i].region);
    for_each_result(t.binds[i], [&](ValueId id) { made_in[id] = checkpoint; });
    if (checkpoint < 0) continue;
    for_each_arg(t.binds[i], [&](ValueId id) {
      if (made_in[id] == checkpoint || f.overwritten[id].last <= 2 * static_cast<int64_t>(i))
        return;
      throw Refusal("FG-194", "a checkpoint reads " + t.value(id).name +
                                  ", which is overwritten after it: eager computes again with what "
                                  "was written");
    });
  }
}

}  // namespace fulgurite::passes
