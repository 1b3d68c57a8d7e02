// Tensors that the caller gets and from which the program goes on computing. Gradients for them are
// asked of the graph: `h, loss = f(x); torch.autograd.grad(loss, h)`. So what is computed from such
// a tensor has to hang on the very node that the caller's tensor has.
//
// An output that is no view is a value of its part's node, and the parts (passes/gradient_parts.h)
// are connected there. A view is taken again by eager's operator, and an argument that was written
// gets its history from eager's copy_: these are boundaries (prims.boundary), made when they are
// first used after the last write of their memory. (What used them earlier hangs on a node that
// they no longer have, in eager as well.)
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/functional/kept_history.h"
#include "passes/functional/steps.h"
#include "passes/functional/variables.h"

namespace fulgurite::passes {

class Shown {
 public:
  Shown(const ir::Trace& recorded, Emitter& e, Variables& vars, const KeptHistory& kept,
        Steps& steps);

  // Before the bind is carried over, which may make something with a history of its arguments.
  // Throws Refusal FG-195.
  void used_by(const ir::Bind& bind);
  // Before the epilogue, which takes outputs that are views through the ones they were taken
  // through. Throws the same.
  void returned();

 private:
  struct Write {
    const ir::Bind* bind;
    ir::ValueId target;
    ir::ValueId given;  // the input through which it is written
    bool is_silent;     // it gives what it writes no history: without grad mode, through detach()
    bool is_counted;    // not through .data
  };
  bool gives_kept_history(const ir::Bind& bind) const;
  bool is_shown(int v) const;
  bool is_output(int v) const;
  bool is_argument(int v) const;
  bool is_same_tensor(const ir::Bind& b, ir::ValueId given, ir::ValueId result) const;
  bool takes_history(const ir::Bind& b, size_t position) const;
  bool is_secret_part(int v) const;
  void check_secret_part(int v, const ir::Bind* by) const;
  bool is_older(int v, const ir::Bind* by) const;
  bool is_written_since(int v, const ir::Bind* by,
                        const std::function<bool(const Write&)>& counts) const;
  bool is_written_with_others(int v, const ir::Bind* by) const;
  void hang_older_on_base(int v, const ir::Bind* by);
  void use(int v, const ir::Bind& by);
  bool is_written_later(int v, const ir::Bind& by) const;
  bool will_be_another(int v, const ir::Bind& by) const;
  void check_changed_base(int v, const ir::Bind& by) const;
  bool is_apart(int v, const Write& w) const;
  bool moves(int v, const Write& w) const;
  bool is_moved(int v) const;
  void show(int v, const ir::Bind& by);
  void show_argument(int v, const ir::Bind& by);
  bool has_other_origin(int origin) const;
  [[noreturn]] void refuse(int v, const ir::Bind* by) const;

  const ir::Trace& in_;
  Emitter& e_;
  Variables& vars_;
  const KeptHistory& kept_;
  Steps& steps_;
  std::unordered_map<int32_t, std::vector<Write>> writes_;  // by storage, in order
  std::vector<ir::ValueId> outputs_;                        // the first value of each
  std::unordered_set<int32_t> reshaped_;                    // storages of t_, squeeze_, ...
  // A variable -> the value of a shown one that it was last derived from.
  std::unordered_map<int, ir::ValueId> derived_from_;
};

}  // namespace fulgurite::passes
