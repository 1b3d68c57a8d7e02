// Which leaves that the call makes, and which places for hooks, matter when it is over: those that
// something with a history depends on which the caller, or an autograd.Function, keeps.
//
// By memory, not by value, so that writes through views need no care: it may say too much, and a
// program that has a step too many is only slower.
#pragma once

#include <unordered_set>

#include "ir/trace.h"

namespace fulgurite::passes {

class KeptHistory {
 public:
  explicit KeptHistory(const ir::Trace& recorded);

  // Whether something that is kept was computed from this value, with a history.
  bool is_used(ir::ValueId recorded) const { return used_.count(memory(recorded)) > 0; }
  // ... or it is kept itself.
  bool is_kept(ir::ValueId recorded) const { return kept_.count(memory(recorded)) > 0; }
  // Whether an output is on its memory.
  bool is_output(ir::ValueId recorded) const { return outputs_.count(memory(recorded)) > 0; }

 private:
  void keep(ir::ValueId recorded);
  void go_back(const ir::Bind& bind);
  // Values without a storage stand for themselves.
  int64_t memory(ir::ValueId id) const {
    const int32_t storage = in_.value(id).storage;
    return storage >= 0 ? storage : -1 - int64_t{id};
  }
  bool has_history(ir::ValueId id) const {
    return in_.value(id).is_tensor() && in_.value(id).tensor().requires_grad;
  }

  const ir::Trace& in_;
  std::unordered_set<int64_t> given_;  // memory of the caller
  std::unordered_set<int64_t> outputs_, kept_, used_;
};

}  // namespace fulgurite::passes
