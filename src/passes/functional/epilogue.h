// The epilogue of the functional trace: what the caller can see. Writes into inputs, .grad, and
// outputs that are views of inputs or of each other.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/functional/variables.h"

namespace fulgurite::passes {

// A variable that became another one in place (t_, squeeze_, detach_, ...).
struct GeometryChange {
  int before, after;
  const ir::Bind* recorded;
};

// What the program did to tensors that the caller can see, beside writing their memory.
struct SeenByCaller {
  std::vector<const ir::Bind*> grads;    // recorded binds that set a leaf's .grad
  std::vector<GeometryChange> geometry;  // in order
  std::map<int, bool> requires_grad;     // by variable: what it was set to last
  std::vector<ir::ValueId> new_leaves;   // recorded values that became leaves that require grad
};

class Epilogue {
 public:
  Epilogue(const ir::Trace& recorded, Emitter& e, Variables& vars, SeenByCaller seen)
      : in_(recorded), e_(e), vars_(vars), seen_(std::move(seen)) {}

  // Throws Refusal FG-122, FG-159, FG-162, FG-187.
  void write();

 private:
  struct WriteBack {
    int variable;
    ir::ValueId value;
  };
  std::vector<WriteBack> write_backs();
  void make_origins();
  void check_new_leaves() const;
  void bump_versions();
  void set_grads(const std::vector<ir::ValueId>& grads);
  void change_geometry();
  void set_requires_grad();
  ir::ValueId view_of(int v);
  int origin(int v) const;
  int root(int v) const;
  bool changed(int v);

  const ir::Trace& in_;
  Emitter& e_;
  Variables& vars_;
  SeenByCaller seen_;
  std::vector<int> outputs_;  // variables, -1 for None
  // Variables that exist as tensors of the caller: the value of the epilogue.
  std::unordered_map<int, ir::ValueId> made_;
};

}  // namespace fulgurite::passes
