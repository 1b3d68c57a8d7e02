// How operators come to the recorder: a boxed fallback on one dispatch key above autograd.
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include "record/recorder_impl.h"

namespace fulgurite::record {

Recorder*& active() {
  static thread_local Recorder* recorder = nullptr;
  return recorder;
}

namespace {

RuleHook hook_of_rules = nullptr;

}  // namespace

RuleHook rule_hook() { return hook_of_rules; }

namespace {

bool is_functorch_key(DispatchKey k) {
  return k == DispatchKey::FuncTorchDynamicLayerFrontMode || k == DispatchKey::FuncTorchBatched ||
         k == DispatchKey::FuncTorchGradWrapper || k == DispatchKey::FuncTorchVmapMode ||
         k == DispatchKey::Batched || k == DispatchKey::VmapMode;
}

bool is_autocast_key(DispatchKey k) {
  return k == DispatchKey::AutocastCPU || k == DispatchKey::AutocastCUDA;
}

void fallback(const c10::OperatorHandle& op, DispatchKeySet ks, Stack* stack) {
  const DispatchKeySet below = ks & DispatchKeySet(DispatchKeySet::FULL_AFTER, kKey);
  Recorder* recorder = active();
  const bool silent =
      recorder != nullptr && (recorder->impl().refusal || recorder->impl().rules_only);
  if (recorder == nullptr || ops::is_bookkeeping(Op(op)) || (silent && !rules::any())) {
    ExcludeKey off(kKey);
    op.redispatchBoxed(below, stack);
    return;
  }
  // Inside a torch.func transform: what the operator does one level further out comes back here.
  if (c10::impl::tls_is_dispatch_key_included(DispatchKey::FuncTorchDynamicLayerBackMode)) {
    op.redispatchBoxed(below, stack);
    return;
  }
  Recorder::Impl& r = recorder->impl();
  if (!r.opened.empty()) r.use_opened_leaves(stack, op.schema().arguments().size());
  if (r.nesting > 0) {
    // Inside a leaf that kept the key on: only what its autograd kernel itself calls belongs to the
    // program.
    const bool autograd_kernel =
        r.nesting == 1 &&
        !c10::impl::tls_is_dispatch_key_excluded(DispatchKey::AutogradFunctionality) &&
        !c10::impl::tls_is_dispatch_key_excluded(DispatchKey::ADInplaceOrView);
    if (!autograd_kernel) {
      ExcludeKey off(kKey);
      op.redispatchBoxed(below, stack);
      return;
    }
  }
  // functorch wrappers and autocast casts are transparent: what they call comes back here.
  const DispatchKey highest = below.highestPriorityTypeId();
  const bool autocasts = is_autocast_key(highest) && op.hasKernelForDispatchKey(highest);
  if (is_functorch_key(highest) || autocasts) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const DispatchKeySet kernel_keys = is_autocast_key(highest) ? below.remove(highest) : below;
  bool composite = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
                   !op.hasKernelForDispatchKey(kernel_keys.highestPriorityTypeId());
  if (composite) {
    // Some operators have both a composite and a backend kernel: on that backend they are leaves.
    auto backend = below.highestBackendKey();
    if (backend == c10::BackendComponent::InvalidBit) backend = c10::BackendComponent::CPUBit;
    composite = !op.hasKernelForDispatchKey(
        c10::toRuntimePerBackendFunctionalityKey(DispatchKey::Dense, backend));
  }
  // A composite that has a user's rule is one operator.
  if (composite && rules::find(Op(op))) composite = false;
  if (silent) {
    // Nothing is recorded any more, but users' rules go on to hold for the parts of composites.
    if (composite) {
      op.redispatchBoxed(below, stack);
    } else if (!r.by_rule(Op(op), stack)) {
      ExcludeKey off(kKey);
      op.redispatchBoxed(below, stack);
    }
  } else if (composite) {
    r.composite(op, below, stack);
  } else {
    r.leaf(op, below, stack);
  }
}

}  // namespace

Recorder::Scope::Scope(Recorder& recorder)
    : outer_(active()), outer_included_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  active() = &recorder;
  recorder.impl().outer_excluded = c10::impl::tls_is_dispatch_key_excluded(kKey);
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  c10::impl::tls_set_dispatch_key_excluded(kKey, false);
}

Recorder::Scope::~Scope() {
  c10::impl::tls_set_dispatch_key_excluded(kKey, active()->impl().outer_excluded);
  active() = outer_;
  c10::impl::tls_set_dispatch_key_included(kKey, outer_included_);
}

void set_rule_hook(RuleHook hook) { hook_of_rules = hook; }

UnderRules::UnderRules(PositionProvider where) {
  if (!rules::any() || active() != nullptr) return;
  recorder_ = std::make_unique<Recorder>("eager", where);
  recorder_->impl().rules_only = true;
  scope_ = std::make_unique<Recorder::Scope>(*recorder_);
}
UnderRules::~UnderRules() = default;

bool recording() { return active() != nullptr && !active()->impl().rules_only; }

Pause::Pause() : excluded_before_(c10::impl::tls_is_dispatch_key_excluded(kKey)) {
  c10::impl::tls_set_dispatch_key_excluded(kKey, true);
}
Pause::~Pause() { c10::impl::tls_set_dispatch_key_excluded(kKey, excluded_before_); }

void install() {
  static std::unique_ptr<torch::Library> library;
  if (library) return;
  try {
    auto lib = std::make_unique<torch::Library>(torch::Library::IMPL, "_", std::make_optional(kKey),
                                                __FILE__, __LINE__);
    lib->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    library = std::move(lib);
  } catch (const c10::Error& e) {
    throw UserError(
        "FG-002", std::string("the dispatch key ") + key_name() +
                      " is taken by another library in this process, so fulgurite cannot record: " +
                      e.what_without_backtrace());
  }
}

const char* key_name() { return c10::toString(kKey); }

std::string self_test() {
  at::Tensor x = at::ones({2, 2});
  Recorder recorder("self_test");
  recorder.add_input(x, "x");
  at::Tensor y;
  {
    Recorder::Scope scope(recorder);
    y = x.add(1).mul_(2);
  }
  const Recording r = recorder.finish({y}, "");
  if (r.refusal) return r.refusal->what();
  if (r.trace->binds.size() != 2 || r.trace->binds[0].op.name() != "aten::add" ||
      r.trace->binds[1].op.name() != "aten::mul_")
    return "expected the operators aten::add, aten::mul_ in the recording of a two-operator "
           "program, found " +
           std::to_string(r.trace->binds.size()) + " operators";
  return "";
}

}  // namespace fulgurite::record
