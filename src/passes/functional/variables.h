// The tensor variables of a recorded program, and what they hold at the present point of the
// functional one.
//
// A variable is a tensor as the program sees it; several recorded values (before and after a write)
// are the same variable. Variables on one storage form a forest of views. A write gives new
// contents to a variable and to those it is a view of; all others are derived again when they are
// next read.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "passes/functional/emitter.h"
#include "passes/functionalize.h"
#include "record/recorder.h"

namespace fulgurite::passes {

struct Variable {
  int parent = -1;                 // the variable it is a view of, -1: a root
  const ir::Bind* view = nullptr;  // how; nullptr with a parent: by recorded geometry alone
  const ir::Bind* made_by =
      nullptr;                      // the recorded bind that gave a view, whatever its schema says
  bool is_hung = false;             // on its base, by geometry: see hang_on()
  bool single = true;               // `made_by` has this variable as its only result
  bool cut = false;                 // gradients do not pass from the parent
  bool rename = false;              // on the parent's memory, and no view of it to autograd
  bool own_history = false;         // from a step (ops::has_own_history): not its parent's
  bool leaf_to_be = false;          // requires_grad_() was called; a leaf once that matters
  ir::ValueId leaf = ir::kNoValue;  // what it was when it became a leaf
  bool hooked_as_view = false;      // `hooked` is a view to autograd, as in eager
  ir::ValueId hooked = ir::kNoValue;  // what it was when hooks were registered on it
  bool separate_version = false;      // .data: writes through it bump no version that others see
  ir::Value facts;                    // type, storage and offset as last recorded
  ir::ValueId input = ir::kNoValue;   // of the functional trace, if it is an input or constant
  bool is_constant = false;
  bool is_base = false;        // an input of which other inputs are views
  bool is_eager_view = false;  // an input that is a view to autograd, of whatever
  bool is_given() const { return input != ir::kNoValue && !is_constant; }

  ir::ValueId current = ir::kNoValue;  // functional value
  int version = 0;                     // of the storage, at which `current` is right
  bool written = false;
  bool written_directly = false;  // an input: through no other input that is a view of it
  bool history_changed = false;   // a write with gradient: the caller's tensor gets a new history
  bool version_bumped = false;
  int32_t write_location = -1;       // of the last write
  const ir::Bind* change = nullptr;  // it is the parent, after t_, squeeze_, ...
  bool is_changed = false;           // into another variable
  bool requires_grad_set = false;    // by requires_grad_()
  bool resized = false;              // an empty input that out= gave another shape
  bool open = false;                 // a leaf that the program writes under autograd
  bool written_back = false;         // by the core: nothing is left for the epilogue
};

struct Storage {
  int version = 0;
  bool visible = false;   // an input lives there
  int version_bumps = 0;  // of the counter that inputs share with their views
  std::vector<int> variables;
};

class Variables {
 public:
  Variables(const ir::Trace& recorded, Emitter& e);

  Variable& operator[](int index) { return vars_[static_cast<size_t>(index)]; }
  const Variable& operator[](int index) const { return vars_[static_cast<size_t>(index)]; }
  int size() const { return static_cast<int>(vars_.size()); }

  int new_variable(ir::ValueId recorded);
  // New variables (and numbers) for the results of a recorded bind that is carried over as it is.
  ir::Result define(const ir::Result& recorded);
  // How a variable of a view with several results is taken alone; nullptr if that is not known.
  const ir::Bind* taken_alone(const ir::Bind& view, ir::ValueId recorded);
  // Inputs and constants of the recorded trace become inputs and constants of the functional one.
  void add_roots(const std::vector<record::SharedInput>& shared);
  // `recorded` is the same variable as `index`, seen after a change.
  void alias_of(ir::ValueId recorded, int index);
  int of(ir::ValueId recorded) const { return variable_of_[static_cast<size_t>(recorded)]; }
  Storage& storage(const Variable& v) { return storages_[v.facts.storage]; }
  // Are the two on one memory without autograd knowing (_unsafe_view, unsafe_split)?
  bool share_memory_secretly(int a, int b) const;
  // Does any bind of the program write this storage?
  bool is_written(int32_t storage_id) const;
  bool is_within(int i, int other) const;  // the same, or a view of it
  // The tensor that `v` is, or is a view of: an input, the result of a step, or the topmost
  // variable that is the root itself under another shape.
  int origin(int v) const;
  // From now on `i` is a view of `base`, of which it is one through others, by recorded geometry:
  // as autograd has it when the memory was written. False if it can be none.
  bool hang_on(int i, int base);
  bool has_own_version(int i) const;  // there is a .data between it and its root

  // It has not been written since, through whatever tensor.
  bool is_up_to_date(int index) {
    return vars_[static_cast<size_t>(index)].version ==
           storage(vars_[static_cast<size_t>(index)]).version;
  }
  // The functional value that a variable, recorded value, argument or result has now.
  ir::ValueId read(int index);
  // ... for a use that no history comes of.
  ir::ValueId read_contents(int index);
  ir::ValueId read_recorded(ir::ValueId recorded);
  template <class ArgOrResult>
  ArgOrResult mapped(const ArgOrResult& a) {
    ArgOrResult copy = a;
    if (auto* id = std::get_if<ir::ValueId>(&copy)) *id = read_recorded(*id);
    if (auto* list = std::get_if<ir::ValueList>(&copy))
      for (ir::ValueId& id : *list) id = read_recorded(id);
    return copy;
  }
  // The view `v` of a new value of its parent.
  ir::ValueId derive(const Variable& v, ir::ValueId base);

  // The same in memory of its own, with the same strides (of expanded tensors: dense ones).
  ir::ValueId copy_of(ir::ValueId id, bool requires_grad);
  // The value of a root that was written, with the strides and the storage offset that it has in
  // eager: scatters keep the offset of their base.
  ir::ValueId in_recorded_layout(ir::ValueId id, const Variable& v);
  // The contents of a root as something that the caller may keep: made by the trace, and given to
  // nobody else.
  ir::ValueId fresh(int root);

  // `contents` becomes the value of the variable, of its bases, and (when next read) of its other
  // aliases. `by`: the functional bind that computed it.
  void write(int index, ir::ValueId contents, bool bumps_version, size_t by);
  // The memory of a functional value is overwritten; see Overwriting.
  void mark_overwritten(ir::ValueId id, int64_t now, bool counted);
  void mark_changed(int index, int64_t now);
  // `conformed` holds what an operator computed as `result`, and is what the program sees as such.
  void is_result(ir::ValueId conformed, ir::ValueId result) { result_of_[conformed] = result; }
  std::vector<Overwriting> take_overwritten();

  // Numbers: recorded value -> functional value.
  std::unordered_map<ir::ValueId, ir::ValueId> numbers;

 private:
  void become_leaf(int index);
  void find_written_storages();
  void share_memory_of_inputs(const std::vector<record::SharedInput>& shared);
  void share_flat_memory(int32_t storage_id, const std::vector<int>& roots);
  void share_memory_of_base(const std::vector<int>& roots,
                            const std::vector<record::SharedInput>& shared);
  void require_same_dtype(const Variable& v, const Variable& p) const;
  bool is_apart(int i, int written) const;
  ir::ValueId scatter(const Variable& v, ir::ValueId base, ir::ValueId contents);
  // What an operator that keeps dense strides gives, with those of `like`.
  ir::ValueId conformed(const ir::Op& op, std::vector<ir::Arg> args, ir::Value like,
                        bool requires_grad);
  ir::ValueId scatter_strided(const Variable& v, const Variable& p, ir::ValueId base,
                              ir::ValueId contents);

  const ir::Trace& in_;
  Emitter& e_;
  std::vector<Variable> vars_;
  std::vector<int> variable_of_;  // by recorded ValueId
  std::unordered_map<int32_t, Storage> storages_;
  std::vector<int32_t> written_storages_;
  std::vector<Overwriting> overwritten_;  // by functional value
  std::unordered_map<ir::ValueId, ir::ValueId> result_of_;
  // Contents that an operator wrote without a change of version (running statistics) -> those
  // before: a node that saved the tensor notices the next write that counts.
  std::unordered_map<ir::ValueId, ir::ValueId> before_uncounted_;
  std::unordered_map<const ir::Bind*, std::vector<ir::Bind>> taken_one_by_one_;
  // Value -> the root variable whose contents it is to the caller.
  std::unordered_map<ir::ValueId, int> given_out_;
};

}  // namespace fulgurite::passes
