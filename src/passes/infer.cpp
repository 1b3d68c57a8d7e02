#include "passes/infer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

#include "ir/errors.h"
#include "ir/stack.h"
#include "ops/traits.h"
#include "record/recorder.h"

namespace fulgurite::passes {

at::Tensor sample(const ir::TensorType& type, bool on_meta) {
  auto options =
      at::TensorOptions().dtype(type.dtype).device(on_meta ? c10::Device(c10::kMeta) : type.device);
  at::Tensor t = at::empty_strided(type.sizes, type.strides, options);
  if (t.numel() == 0 || on_meta) return t;
  if (!at::isFloatingType(type.dtype) && !at::isComplexType(type.dtype)) return t.zero_();
  t.fill_(0.5);
  const int64_t rank = t.dim();
  bool writable = true;
  for (int64_t d = 0; d < rank; ++d) writable = writable && (t.stride(d) != 0 || t.size(d) == 1);
  if (rank >= 2 && t.size(-1) == t.size(-2) && t.size(-1) <= 64 && writable && t.size(-1) > 1) {
    // Diagonally dominant with distinct eigenvalues: decompositions and inverses exist.
    t.fill_(0.01);
    t.diagonal(0, -2, -1).add_(at::linspace(1.0, 2.0, t.size(-1), options));
  }
  return t;
}

Aside::Aside() : autocast_(c10::autocast_dispatch_keyset) {}

KeepRandomState::KeepRandomState(bool needed) {
  if (needed) state_ = at::detail::getDefaultCPUGenerator().get_state();
}

KeepRandomState::~KeepRandomState() {
  if (!state_.defined()) return;
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state_);
}

namespace {

bool run_on_samples(const ir::Trace& trace, const ir::Bind& bind, bool on_meta,
                    torch::jit::Stack& stack) {
  std::vector<c10::IValue> env(trace.values.size());
  ir::for_each_arg(bind, [&](ir::ValueId id) {
    if (!env[id].isNone()) return;
    if (trace.value(id).is_tensor()) {
      env[id] = sample(trace.value(id).tensor(), on_meta);
    } else if (std::get<ir::ScalarKind>(trace.value(id).type) == ir::ScalarKind::Float) {
      env[id] = 0.5;
    } else {
      env[id] = int64_t{2};
    }
  });
  stack.clear();
  ir::push_arguments(bind, env, stack);
  try {
    bind.op.handle().callBoxed(&stack);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

}  // namespace

std::vector<ir::TensorType> infer_types(const ir::Trace& trace, const ir::Bind& bind,
                                        bool on_meta) {
  Aside aside;
  KeepRandomState keep(ops::is_random(bind.op));
  at::NoGradGuard no_grad;
  torch::jit::Stack stack;
  // Samples with data may be refused for their contents; those on the meta device have none.
  if (!run_on_samples(trace, bind, on_meta, stack) && !run_on_samples(trace, bind, !on_meta, stack))
    throw Refusal(
        "FG-160",
        bind.op.id() + ": its result type is not known, and it does not run on sample tensors");
  c10::Device device(c10::kCPU);
  ir::for_each_arg(bind, [&](ir::ValueId id) {
    if (trace.value(id).is_tensor()) device = trace.value(id).tensor().device;
  });
  std::vector<ir::TensorType> types;
  auto add = [&](const at::Tensor& t) {
    ir::TensorType type = ir::type_of(t);
    if (t.is_meta()) type.device = device;
    type.requires_grad = false;
    types.push_back(std::move(type));
  };
  for (const c10::IValue& v : stack) {
    if (v.isTensor() && v.toTensor().defined()) add(v.toTensor());
    if (v.isTensorList())
      for (const c10::IValue& e : v.toListRef()) add(e.toTensor());
  }
  return types;
}

}  // namespace fulgurite::passes
