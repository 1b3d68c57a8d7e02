// What an operator would return, by running it on made-up tensors of the recorded geometry. Used
// rarely: recorded types are facts, and only where a pass puts another operator in place is there
// none.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <vector>

#include "ir/trace.h"
#include "record/recorder.h"

namespace fulgurite::passes {

// A tensor of this type, with contents that most operators accept: zeros for integers (valid
// indices), positive numbers for floats, a well conditioned symmetric matrix where the last two
// sizes agree.
at::Tensor sample(const ir::TensorType& type, bool on_meta = false);

// Puts the state of the default CPU generator back at the end: running operators on samples must
// not be seen.
class KeepRandomState {
 public:
  explicit KeepRandomState(bool needed = true);
  ~KeepRandomState();
  KeepRandomState(const KeepRandomState&) = delete;
  KeepRandomState& operator=(const KeepRandomState&) = delete;

 private:
  at::Tensor state_;
};

// The dispatch state in which operators run on samples: not recorded, no autocast.
class Aside {
 public:
  Aside();

 private:
  record::Pause pause_;
  c10::impl::ExcludeDispatchKeyGuard autocast_;
};

// Types of the tensor results, flat. Throws Refusal FG-160 if the operator does not run on samples.
// `on_meta`: without data at first; for operators that read none, on tensors that may be large.
std::vector<ir::TensorType> infer_types(const ir::Trace& trace, const ir::Bind& bind,
                                        bool on_meta = false);

}  // namespace fulgurite::passes
