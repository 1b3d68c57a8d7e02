// What passes may ask about an operator. Answers come from its schema, its tags, or its card
// (`ops/cards.cpp`): this header is the only place where operators' properties are asked for, and
// the cards the only place where an operator is named for having one.
#pragma once

#include <optional>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ops {

// Draws from a random generator, so it may be neither dropped, doubled nor moved.
bool is_random(const ir::Op& op);
// Writes into an argument (schema, or a hidden write of its card).
bool is_mutable(const ir::Op& op);
bool writes_argument(const ir::Op& op, size_t argument);
// The arguments that this bind writes: hidden writes may depend on a flag among the arguments.
std::vector<size_t> written_arguments(const ir::Bind& bind);
// What the bind makes: its results, and the values that it writes. (An operator without functional
// variant writes into a copy that was made for it.)
template <class F>
void for_each_made(const ir::Bind& bind, F&& f) {
  ir::for_each_result(bind, f);
  for (size_t a : written_arguments(bind)) ir::for_each_value(bind.args[a], f);
}
// Has an out= argument.
bool writes_out_argument(const ir::Op& op);
// Must not be removed although its results are unused.
bool has_effect(const ir::Op& op);
// Shape of the results depends on the data, not only on shapes (nonzero, masked_select, ...).
bool has_data_dependent_shape(const ir::Op& op);
// Of those: indices of bool or byte type make it so, integers do not.
bool shape_depends_on_masks_only(const ir::Op& op);
// Returns a number that depends on shapes, dtypes and modes only, which guards already fix.
bool reads_only_metadata(const ir::Op& op);
// Same results for same arguments, no effects: may be merged with an equal bind.
bool is_pure(const ir::Op& op);
// Its gradient formula looks at the data and raises for some.
bool gradient_checks_data(const ir::Op& op);
// Abandons the run unless a value is the one that was recorded.
bool is_value_guard(const ir::Op& op);
// A composite that reads an integer tensor in C++, without an operator that could be recorded,
// where none of its parts takes that tensor. What it writes without an operator comes of such
// integers, of numbers among its arguments, and of shapes.
bool reads_integers(const ir::Op& op);
// A composite that looks at none of its floats, but gives each to one of its parts, as the argument
// of the same name.
bool hands_on_numbers(const ir::Op& op);
// Its writes bump the version counters of what it writes, as they do for in-place operators.
bool bumps_versions(const ir::Op& op);
// Operators of the profiler: no part of any program.
bool is_bookkeeping(const ir::Op& op);
// copy_: what it writes is a copy of its second argument.
bool copies_argument(const ir::Op& op);
// lift_fresh: its argument is a literal of the program.
bool lifts_constant(const ir::Op& op);
// empty and its kin.
bool leaves_memory_uninitialised(const ir::Op& op);
// t_, squeeze_, resize_, set_, detach_: change what the tensor is, not what its memory holds.
bool changes_geometry_in_place(const ir::Op& op);
// For an operator that changes what a tensor is in place: the view that it turns the tensor into;
// none for resize_ and set_.
std::optional<ir::Op> view_variant(const ir::Op& op);
// Every result is a view of argument 0 by its schema, e.g. select, split.
bool is_view(const ir::Op& op);
// For a view that only permutes dimensions (t, transpose, permute): the bind that permutes
// `contents` back; its result is left to the caller.
std::optional<ir::Bind> inverse_permutation(const ir::Bind& view, ir::ValueId contents);
// For a view with several results (split, chunk, unbind): the views that give them one by one
// (slice, select), which take the same argument 0; none where that is not known.
std::vector<ir::Bind> taken_one_by_one(const ir::Trace& trace, const ir::Bind& view);
// For a view that shows other values than its base has (_conj, view_as_real): the operator that
// turns a new value of the view into one of the base; nullptr for all other views.
const char* inverse_of_value_view(const ir::Op& op);
// The same computation as an operator that has a gradient, of the arguments that it takes; `op`
// itself where it has one. _index_put_impl -> index_put.
ir::Op differentiable_variant(const ir::Op& op);
// detach, data, alias of a no-grad kind: a view that gradients do not pass.
bool cuts_gradient(const ir::Op& op);

// The operator that computes what `op` (in-place, out=) would write, as results: add_.Tensor ->
// add.Tensor. `written` are the arguments written, in the order of the results of the functional
// one.
struct Functional {
  ir::Op op;
  std::vector<int> argument_of;  // for each argument of the functional op: the argument of `op`
};
std::optional<Functional> functional_variant(const ir::Op& op);

// The in-place operator that writes what `op` returns into its first argument: add.Tensor ->
// add_.Tensor. Same arguments in the same order.
std::optional<ir::Op> in_place_variant(const ir::Op& op);
// The operator that writes what `op` returns into a tensor given as out=: add.Tensor -> add.out.
// Same arguments in the same order, then that one.
std::optional<ir::Op> out_variant(const ir::Op& op);
// Each element of the result is computed from the same elements of its arguments.
bool is_pointwise(const ir::Op& op);
// The view of its first argument that a scatter gives new contents: select for select_scatter. Same
// arguments in the same order, but for the scatter's second, the contents.
std::optional<ir::Op> written_view(const ir::Op& scatter);
// An operator of an executor: others may hold on to its arguments and results, so that their memory
// is not free for anything else.
bool keeps_tensors(const ir::Op& op);
// The result has the storage offset that argument 0 has.
bool keeps_offset(const ir::Op& op);
// Its results are on the memory of argument 0, with version counters of their own and no views to
// autograd.
bool shares_memory_secretly(const ir::Op& op);
// Its results get their history when the core has run, from a step of their own (run/history.h),
// not from a gradient rule.
bool has_own_history(const ir::Op& op);
// Raises for no contents of its tensors: once it has run, it runs on all tensors of these types.
// `integers`: some of them hold integers.
bool runs_on_any_contents(const ir::Op& op, bool integers);
// ... and with all numbers that the dtypes of its tensors, which are no integers, can hold.
bool runs_with_any_number(const ir::Op& op);
// No result shares memory with an argument, whatever the data.
bool returns_fresh_memory(const ir::Op& op);

}  // namespace fulgurite::ops
