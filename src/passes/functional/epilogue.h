// The epilogue of the functional trace: what the caller can see. Writes into inputs, .grad, and
// outputs that are views of inputs or of each other.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/functional/variables.h"

namespace fulgurite::passes {

// What a tensor is was changed in place, not what its memory holds: by t_, squeeze_, detach_, ...,
// which make another variable of it, or by requires_grad_.
struct IdentityChange {
  int before, after;  // the same variable if only requires_grad was set
  int made_before;    // variables below this number were there already
  const ir::Bind* recorded;
};

// What the program did to tensors that the caller can see, beside writing their memory.
struct SeenByCaller {
  std::vector<const ir::Bind*> grads;   // recorded binds that set a leaf's .grad
  std::vector<IdentityChange> changes;  // in order
};

class Epilogue {
 public:
  Epilogue(const ir::Trace& recorded, Emitter& e, Variables& vars, SeenByCaller seen)
      : in_(recorded), e_(e), vars_(vars), seen_(std::move(seen)) {}

  // Throws Refusal FG-122, FG-154, FG-159, FG-162, FG-187, FG-193.
  void write();

 private:
  struct WriteBack {
    int variable;
    ir::ValueId value;
  };
  ir::ValueId resize(const Variable& v);
  std::vector<WriteBack> write_backs();
  void make_origins();
  void switch_off_before_writes();
  void check_steps(int v, int origin);
  void bump_versions();
  void set_grads(const std::vector<ir::ValueId>& grads);
  void leave_out_unseen_changes();
  void count_for(int v);
  void change_identities();
  void check_written_beside(const IdentityChange& change);
  bool is_seen(int v);
  bool is_done_by_leaf(size_t change) const;
  void make_views_taken_before(const IdentityChange& change);
  ir::ValueId view_of(int v);
  ir::ValueId again_in_place(const ir::Bind& recorded, int after, ir::ValueId before);
  bool is_view_to_autograd(int v) const;
  ir::ValueId made_with_others(int v, ir::ValueId base);
  void find_shared_memory();
  int origin(int v) const;

  const ir::Trace& in_;
  Emitter& e_;
  Variables& vars_;
  SeenByCaller seen_;
  std::vector<WriteBack> leaf_writes_;  // leaves that the call made, used, and wrote
  std::vector<int> outputs_;            // variables, -1 for None
  std::unordered_set<int32_t>
      shared_;  // storages of several outputs that are no views of each other
  // Variables that exist as tensors of the caller: the value of the epilogue.
  std::unordered_map<int, ir::ValueId> made_;
};

}  // namespace fulgurite::passes
