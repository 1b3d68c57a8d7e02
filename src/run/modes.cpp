#include "run/modes.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include "record/recorder.h"

namespace fulgurite::run {
namespace {

struct Field {
  const char* name;
  int shift;
  int width;
};
constexpr Field kFields[] = {
    {"grad mode", 0, 1},           {"inference mode", 1, 1},
    {"autocast on cpu", 2, 1},     {"autocast dtype", 3, 6},
    {"default dtype", 9, 6},       {"deterministic algorithms", 15, 1},
    {"autocast cache", 16, 1},     {"float32 matmul precision", 17, 2},
    {"no flash attention", 19, 1}, {"no math attention", 20, 1},
};

}  // namespace

Modes Modes::now() {
  Modes m;
  uint64_t bits = c10::GradMode::is_enabled() ? 1 : 0;
  bits |= uint64_t{c10::InferenceMode::is_enabled()} << 1;
  const bool autocast = at::autocast::is_autocast_enabled(at::kCPU);
  bits |= uint64_t{autocast} << 2;
  if (autocast) {
    bits |= static_cast<uint64_t>(at::autocast::get_autocast_dtype(at::kCPU)) << 3;
    bits |= uint64_t{at::autocast::is_autocast_cache_enabled()} << 16;
  }
  bits |= static_cast<uint64_t>(c10::typeMetaToScalarType(c10::get_default_dtype())) << 9;
  const at::Context& context = at::globalContext();
  bits |= uint64_t{context.deterministicAlgorithms()} << 15;
  // Which operator attention is made of is decided when it is recorded.
  bits |= uint64_t{!context.userEnabledFlashSDP()} << 19;
  bits |= uint64_t{!context.userEnabledMathSDP()} << 20;
  m.bits = bits;
  return m;
}

std::string Modes::difference(const Modes& recorded) const {
  std::string s;
  for (const Field& f : kFields) {
    const uint64_t mask = ((uint64_t{1} << f.width) - 1) << f.shift;
    const uint64_t a = (bits & mask) >> f.shift;
    const uint64_t b = (recorded.bits & mask) >> f.shift;
    if (a == b) continue;
    if (!s.empty()) s += "; ";
    auto text = [&](uint64_t v) {
      if (f.width == 1) return std::string(v ? "on" : "off");
      return f.width == 6 ? std::string(c10::toString(static_cast<c10::ScalarType>(v)))
                          : std::to_string(v);
    };
    s += std::string(f.name) + " is " + text(a) + ", was " + text(b) + " when recorded";
  }
  return s;
}

std::string Modes::describe() const {
  std::string s;
  for (const Field& f : kFields) {
    const uint64_t v = (bits >> f.shift) & ((uint64_t{1} << f.width) - 1);
    if (f.width == 1 && v == 0) continue;
    if (f.shift == 3 && (bits & 4) == 0) continue;
    if (f.shift == 17) continue;
    if (!s.empty()) s += ", ";
    s += f.name;
    s += f.width == 6 ? " " : " on";
    if (f.width == 6) s += c10::toString(static_cast<c10::ScalarType>(v));
  }
  return s.empty() ? "none on" : s;
}

const char* unsupported_mode() {
  using c10::DispatchKey;
  if (c10::impl::tls_is_dispatch_key_included(DispatchKey::FuncTorchDynamicLayerFrontMode))
    return "called inside a torch.func transform";
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) return "a TorchDispatchMode is active";
  if (at::impl::PythonTorchFunctionTLS::stack_len() > 0)
    return "a TorchFunctionMode is active (torch.set_default_device is one)";
  if (c10::impl::tls_is_dispatch_key_included(DispatchKey::Tracer))
    return "called inside torch.jit.trace";
  if (c10::impl::tls_is_dispatch_key_included(DispatchKey::Functionalize))
    return "called under functionalization";
  return "";
}

}  // namespace fulgurite::run
