// The dispatch state in which compiled code runs: no autograd, no in-place-or-view bookkeeping, no
// autocast (casts were recorded), and not seen by a recorder.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "record/recorder.h"

namespace fulgurite::run {

class BelowAutograd {
 public:
  BelowAutograd()
      : guard_(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset) {
  }

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
  record::Pause pause_;
};

// The same for what runs under autograd (epilogues).
class UnderAutograd {
 public:
  UnderAutograd() : guard_(c10::autocast_dispatch_keyset) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
  record::Pause pause_;
};

}  // namespace fulgurite::run
