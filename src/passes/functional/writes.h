// Operators that write their arguments, as values: what the written tensors hold afterwards.
#pragma once

#include <functional>
#include <vector>

#include "ops/traits.h"
#include "passes/functional/variables.h"

namespace fulgurite::passes {

class Writes {
 public:
  Writes(const ir::Trace& recorded, Emitter& e, Variables& vars)
      : in_(recorded), e_(e), vars_(vars) {}

  // The functional binds for a recorded bind that writes the arguments `written`; the variables get
  // their new contents. Throws Refusal FG-15x, FG-16x.
  void carry_over(const ir::Bind& bind, const std::vector<size_t>& written);
  // Throws Refusal FG-163 where eager will not have `target` changed in place, or views of its
  // memory used afterwards.
  void check_restricted_views(const ir::Bind& bind, int target) const;
  // In grad mode, or by the caller.
  bool is_used_with_views_after(const ir::Bind& bind, int variable) const;
  // Throws Refusal FG-187 where views of a tensor that becomes a leaf are used in grad mode
  // afterwards.
  void check_views_of_leaf(const ir::Bind& bind, int target) const;
  // Throws Refusal FG-154 where detach_() changes what views of the tensor are to autograd: they
  // take their history from their base when its memory was written.
  void check_views_of_detached(const ir::Bind& bind, int target) const;

 private:
  // Random numbers are drawn in the order of the memory that they fill: another layout, other
  // numbers.
  bool draws_in_memory_order(const ir::Bind& bind, const std::vector<int>& targets) const;
  bool gives_history(const ir::Bind& bind) const;
  bool gives_history(const ir::Bind& functional, size_t position) const;
  bool is_used_after(const ir::Bind& bind, int variable) const;
  bool is_any_used_after(const ir::Bind& bind, bool for_history,
                         const std::function<bool(int)>& is_one) const;
  void resize_empty_outs(const ir::Bind& bind, const std::vector<int>& targets);
  void check_overlaps(const ir::Bind& bind, const std::vector<size_t>& written) const;
  ir::ValueId copied(const ir::Bind& bind, const ir::Value& target);
  std::vector<ir::ValueId> apply_functional(const ir::Bind& bind, const ops::Functional& f,
                                            const std::vector<size_t>& written, size_t old_results);
  bool has_same_dtype(const ir::Bind& out, const std::vector<ir::ValueId>& contents) const;
  void conform(ir::Bind& out, std::vector<ir::ValueId>& contents, bool into_out);
  std::vector<ir::ValueId> apply_to_clones(const ir::Bind& bind,
                                           const std::vector<size_t>& written);

  const ir::Trace& in_;
  Emitter& e_;
  Variables& vars_;
  size_t computed_by_ = 0;  // the functional bind that computed what is being written
};

}  // namespace fulgurite::passes
