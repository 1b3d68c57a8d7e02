#include "passes/functional/kept_history.h"

#include <ATen/core/Tensor.h>

#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::passes {

using ir::Bind;
using ir::kNoValue;
using ir::ValueId;

KeptHistory::KeptHistory(const ir::Trace& recorded) : in_(recorded) {
  for (ValueId id : in_.inputs) given_.insert(memory(id));
  for (ValueId id : in_.outputs) {
    if (id == kNoValue) continue;
    keep(id);
    outputs_.insert(memory(id));
  }
  for (size_t i = in_.binds.size(); i-- > 0;) go_back(in_.binds[i]);
}

void KeptHistory::keep(ValueId id) {
  if (has_history(id)) kept_.insert(memory(id));
}

void KeptHistory::go_back(const Bind& b) {
  const bool is_function = b.op == prims::function();
  if (is_function || b.op == prims::set_grad()) for_each_arg(b, [&](ValueId id) { keep(id); });
  if (b.op == prims::set_requires_grad() || !(b.grad_mode || is_function)) return;
  bool kept = is_function;
  for_each_result(b, [&](ValueId id) { kept = kept || (has_history(id) && is_kept(id)); });
  for (size_t a : ops::written_arguments(b))
    ir::for_each_value(
        b.args[a], [&](ValueId id) { kept = kept || is_kept(id) || given_.count(memory(id)) > 0; });
  if (!kept) return;
  for_each_arg(b, [&](ValueId id) {
    if (!has_history(id)) return;
    kept_.insert(memory(id));
    used_.insert(memory(id));
  });
}

}  // namespace fulgurite::passes
