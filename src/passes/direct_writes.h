// direct_writes: what the caller can see is written where it is, not computed elsewhere and copied.
//
//   t0 = torch.mul(x, 2)
//   t1 = torch.add(t0, y)                      # epilogue: what the caller can see
//   # epilogue: what the caller can see   =>   t0 = x.mul_(2)
//   t2 = fulgurite.prims.copy_(t1, x)          t1 = t0.add_(y)
//   fulgurite.prims.bump_version_(x, 1)
//
// A run may be abandoned, or raise and be run again by eager, until its epilogue begins. So the
// operators between the old and the new value of x move into the epilogue, with all that needs
// their results: if none of them can raise, whatever the data (ops::runs_on_any_contents), and
// neither an autograd node nor a value guard nor an operator that may raise needs one. There x is
// memory like any other that dies: operators overwrite it in place, or compute a result into it
// (out=x) that does not come of its old value. Where it does not become the new value, the
// write-back stays.
//
// The writes count as they do in eager: what in-place operators do not count, bump_version_ does;
// where they would count more, they go through prims.data.
#pragma once

#include <vector>

#include "ir/trace.h"
#include "passes/memory_groups.h"

namespace fulgurite::passes {

// Part of reinplace.
class DirectWrites {
 public:
  DirectWrites(ir::TracePtr trace, std::vector<ir::ValueId> later);

  // The trace with the binds moved for those write-backs that may still become direct.
  Body body() const;
  // `trace`: what reinplace has made of the body, `end`: where that ends now. Null if body() is to
  // be tried once more, with fewer write-backs.
  ir::TracePtr settle(const ir::TracePtr& trace, size_t end);

 private:
  struct Target {
    size_t copy;                // the write-back
    ir::ValueId source;         // what it writes, set_data left off
    ir::ValueId memory;         // the caller's tensor
    ir::ValueId alias;          // its `.data`, through which it is written; kNoValue: itself
    std::vector<size_t> way{};  // the binds that lead to the source, from the last one back
    // Where it does not begin with the old value: how many binds of the way are left if one of them
    // computes its result into `memory`, most at last.
    std::vector<size_t> starts{};
    bool into = false;       // the last of the way is such a bind
    int counted = 0;         // writes, by its version counter
    bool uncounted = false;  // its in-place operators must not count
  };
  void find_uses();
  bool is_written_before_epilogue() const;
  void find_targets();
  bool find_way(Target& target) const;
  static bool begins_with_result(Target& target);
  bool is_shared(ir::ValueId input) const;
  bool is_movable(const ir::Bind& bind) const;
  std::vector<bool> moved() const;
  bool keeps_less(const ir::Bind& bind, const std::vector<bool>& moves) const;
  ir::TracePtr finished(const ir::Trace& t, size_t end, const std::vector<int>& made) const;

  ir::TracePtr trace_;
  const ir::Trace& t_;
  const std::vector<ir::ValueId> later_;
  std::vector<size_t> made_by_;               // by value; npos: by no bind
  std::vector<std::vector<size_t>> read_by_;  // by value: binds
  std::vector<bool> kept_;                    // by value: saved, or later
  std::vector<bool> given_out_;               // by value: kept, or an output
  std::vector<bool> stays_;                   // by bind of the core: it cannot move
  std::vector<Target> targets_;
};

}  // namespace fulgurite::passes
