#include "run/write_back.h"

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>

#include "ir/builder.h"
#include "ops/prims.h"
#include "record/tensors.h"
#include "run/below_autograd.h"
#include "run/plan.h"

namespace fulgurite::run {
namespace {

// write_back(value, leaf): copy_(value, leaf), in the epilogue.
ir::TracePtr copy_trace(const at::Tensor& value, const at::Tensor& leaf) {
  ir::TraceBuilder b("write_back", "functionalize");
  b.trace().functional = true;
  auto input = [&](const at::Tensor& t, const char* name) {
    ir::Value v = record::describe(t);
    v.name = name;
    v.storage = -1;
    std::get<ir::TensorType>(v.type).requires_grad = false;
    return b.add_input(std::move(v));
  };
  const ir::ValueId source = input(value, "value");
  const ir::ValueId destination = input(leaf, "leaf");
  ir::Value result;
  result.type = b.value(destination).type;
  b.begin_epilogue();
  const ir::ValueId after = b.add_value(std::move(result));
  b.add_bind(ir::Bind{
      prims::copy_(), {ir::Arg(source), ir::Arg(destination)}, {ir::Result(after)}, -1, -1, false});
  b.trace().outputs.push_back(after);
  return b.finish();
}

}  // namespace

at::Tensor write_back_by_executor(const passes::Claimer& claim, const at::Tensor& value,
                                  const at::Tensor& leaf) {
  if (!claim) return {};
  const passes::Claimed claimed = claim(copy_trace(value, leaf), {});
  const ir::Trace& t = *claimed.trace;
  if (t.binds.size() == 1 && t.binds[0].op == prims::copy_()) return {};
  c10::AutoGradMode no_grad(false);
  const Plan plan(t, 0, t.binds.size(), t.outputs, /*check_results=*/false);
  Frame frame(plan.registers());
  const BelowAutograd below;
  const at::Tensor copy = value.clone();
  frame[t.inputs.at(0)] = copy;
  frame[t.inputs.at(1)] = leaf.detach();
  plan.run(frame);
  const at::Tensor result = frame[t.outputs.at(0)].toTensor();
  return result.is_alias_of(leaf) ? copy : result;
}

}  // namespace fulgurite::run
