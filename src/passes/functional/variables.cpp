#include "passes/functional/variables.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/functional/overlap.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Result;
using ir::Value;
using ir::ValueId;
using ir::ValueList;

Variables::Variables(const ir::Trace& recorded, Emitter& e)
    : in_(recorded), e_(e), variable_of_(recorded.values.size(), -1) {
  find_written_storages();
}

std::vector<Overwriting> Variables::take_overwritten() {
  overwritten_.resize(e_.b.trace().values.size());
  return std::move(overwritten_);
}

int Variables::new_variable(ValueId recorded) {
  const int index = static_cast<int>(vars_.size());
  Variable v;
  v.facts = in_.value(recorded);
  vars_.push_back(std::move(v));
  variable_of_[recorded] = index;
  Storage& s = storages_[vars_[index].facts.storage];
  s.variables.push_back(index);
  vars_[index].version = s.version;
  return index;
}

void Variables::find_written_storages() {
  for (const Bind& bind : in_.binds)
    for (size_t i : ops::written_arguments(bind))
      ir::for_each_value(bind.args[i],
                         [&](ValueId id) { written_storages_.push_back(in_.value(id).storage); });
  std::sort(written_storages_.begin(), written_storages_.end());
}

bool Variables::is_written(int32_t storage_id) const {
  return std::binary_search(written_storages_.begin(), written_storages_.end(), storage_id);
}

ValueId Variables::read(int index) {
  read_contents(index);
  if (vars_[index].leaf_to_be && e_.grad_mode) become_leaf(index);
  return vars_[index].current;
}

// Where gradients end. What was written before, without grad mode, is what the leaf begins with.
void Variables::become_leaf(int index) {
  vars_[index].leaf_to_be = false;
  int root = index;
  while (vars_[root].parent >= 0) root = vars_[root].parent;
  const Storage& s = storage(vars_[index]);
  if (vars_[index].leaf != kNoValue)
    throw Refusal("FG-187", "requires_grad_() was called again on a leaf that the call makes");
  if (s.visible && s.version > 0)
    throw Refusal("FG-187",
                  "requires_grad_() was called on memory that the caller can see, after the call "
                  "wrote it");
  const bool given = vars_[index].is_given();
  if (!s.visible) {
    // The leaf shows the very memory that the caller may get.
    const ValueId before = vars_[root].current;
    fresh(root);
    if (root != index && vars_[root].current != before) vars_[index].version = -1;
  }
  const ValueId contents = given ? vars_[index].input : read_contents(index);
  Variable& v = vars_[index];
  v.current = v.leaf =
      e_.emit(prims::leaf(), {Arg(contents), Arg(IValue(given))}, v.facts, /*requires_grad=*/true);
  v.own_history = true;
  v.written = false;
}

ValueId Variables::read_contents(int index) {
  {
    Variable& v = vars_[index];
    if (v.version == storage(v).version) return v.current;
    if (v.parent < 0)
      throw InternalError("functionalize: the root " + v.facts.name + " is out of date");
  }
  const ValueId base = read(vars_[index].parent);
  Variable& v = vars_[index];
  // The view has the history that it got where it was made, wherever it is derived again.
  const bool grad_mode = e_.grad_mode;
  e_.grad_mode = v.made_by == nullptr || v.made_by->grad_mode;
  const ValueId before = v.current;
  // What was written uncounted (through .data) leaves a view of the caller's the node that it has.
  const bool keeps_node = v.is_given() && !v.cut && v.version >= 0 && !has_own_version(index) &&
                          v.counted == storage(v).version_bumps && e_.requires_grad(before);
  v.current = derive(v, base);
  const bool cuts = v.view != nullptr && ops::cuts_gradient(v.view->op);
  if (v.cut && !cuts && e_.requires_grad(base)) {
    static const Op detach = Op::get("aten::detach");
    v.current = e_.emit(detach, {Arg(v.current)}, v.facts, false);
  }
  // What a write gave a history of its own, apart from its base's (detach, .data), keeps it.
  if (keeps_node || (v.cut && before != kNoValue && e_.requires_grad(before)))
    v.current = e_.emit(prims::set_data(), {Arg(before), Arg(v.current)}, v.facts, true);
  e_.grad_mode = grad_mode;
  v.version = storage(v).version;
  v.counted = storage(v).version_bumps;
  return v.current;
}

// ---- writing
// -------------------------------------------------------------------------------------
// `contents` becomes the value of the variable, of its bases, and (when next read) of its other
// aliases.
void Variables::write(int index, ValueId contents, bool bumps_version, size_t by) {
  std::vector<int> chain;
  for (int i = index; i >= 0; i = vars_[i].parent) chain.push_back(i);
  std::vector<ValueId> before;
  for (int i : chain) before.push_back(read_contents(i));
  Storage& s = storage(vars_[index]);
  for (int i : s.variables)
    if (vars_[i].own_history && std::find(chain.begin(), chain.end(), i) == chain.end())
      throw Refusal("FG-191", "memory that " + vars_[i].facts.name +
                                  ", the result of an autograd.Function or a leaf that the call "
                                  "makes, shows is written");
  bool bumps = bumps_version;
  for (int i : chain) bumps = bumps && !vars_[i].separate_version;
  if (bumps) ++s.version_bumps;
  const auto given = std::find_if(chain.begin(), chain.end(), [&](int i) {
    return vars_[i].input != kNoValue && !vars_[i].is_constant;
  });
  if (given != chain.end()) vars_[*given].written_directly = true;
  for (int i : s.variables) {
    const Variable& v = vars_[i];
    if (v.version != s.version || v.current == kNoValue || is_apart(i, index)) continue;
    const auto now = 2 * static_cast<int64_t>(by) - (bumps_version ? 0 : 1);
    mark_overwritten(v.current, now, bumps && !has_own_version(i));
  }
  bool seen = e_.grad_mode;     // by autograd
  bool counts = bumps_version;  // by the version counter of the variable
  std::vector<int> current;
  for (size_t k = 0; k < chain.size();) {
    Variable& v = vars_[chain[k]];
    current.push_back(chain[k]);
    if (!seen && e_.requires_grad(before[k])) {
      // A write that autograd does not see: new data under the old history.
      contents = e_.emit(prims::set_data(), {Arg(before[k]), Arg(contents)}, v.facts, true);
    }
    v.current = contents;
    v.written = true;
    v.write_location = e_.location;
    v.history_changed = v.history_changed || (seen && e_.requires_grad(contents));
    v.version_bumped = v.version_bumped || counts;
    counts = counts && !v.separate_version;
    // Where elements share memory (expand) there is no value to put back; the base beyond it has
    // one.
    size_t next = k + 1;
    bool cut = v.cut;
    for (; next < chain.size() && overlaps_itself(vars_[chain[next]].facts.tensor()); ++next) {
      const Variable& skipped = vars_[chain[next]];
      cut = cut || skipped.cut;
      counts = counts && !skipped.separate_version;
      if (skipped.view != nullptr && ops::inverse_of_value_view(skipped.view->op) != nullptr)
        throw Refusal("FG-164", "a conjugate or negative view of an expanded tensor is written");
    }
    if (next < chain.size()) {
      static const Op detach = Op::get("aten::detach");
      if (v.change != nullptr && v.cut && s.visible && e_.requires_grad(contents))
        throw Refusal("FG-154", "detach_() of a tensor that gets another history afterwards");
      if (cut && e_.requires_grad(contents))
        contents = e_.emit(detach, {Arg(contents)}, v.facts, false);
      contents = next == k + 1 ? scatter(v, before[next], contents)
                               : scatter_strided(v, vars_[chain[next]], before[next], contents);
      seen = seen && !cut;
    }
    k = next;
  }
  ++s.version;
  for (int i : current) {
    vars_[i].version = s.version;
    vars_[i].counted = s.version_bumps;
  }
  if (!bumps_version) before_uncounted_[vars_[index].current] = before[0];
}

// Results of unsafe_split and the like share no memory and no version counter: is `i` on the side
// of another such result than `written`?
bool Variables::is_apart(int i, int written) const {
  for (int w = written; w >= 0; w = vars_[w].parent) {
    const Bind* made_by = vars_[w].made_by;
    if (made_by == nullptr || vars_[w].single || ops::is_view(made_by->op)) continue;
    for (int k = i; k >= 0; k = vars_[k].parent)
      if (k != w && vars_[k].made_by == made_by && vars_[k].parent == vars_[w].parent) return true;
  }
  return false;
}

bool Variables::is_within(int i, int other) const {
  for (; i >= 0; i = vars_[i].parent)
    if (i == other) return true;
  return false;
}

int Variables::origin(int v) const {
  std::vector<int> path;
  for (int i = v; i >= 0; i = vars_[i].parent) {
    path.push_back(i);
    if (vars_[i].input != kNoValue || vars_[i].own_history) return i;
  }
  // A written part (of unsafe_split, ...) stays a part of its memory.
  auto is_part = [&](const Variable& u) {
    return u.written && u.facts.tensor().numel() != vars_[u.parent].facts.tensor().numel();
  };
  size_t k = path.size() - 1;
  while (k > 0 && vars_[path[k - 1]].rename && !is_part(vars_[path[k - 1]])) --k;
  return path[k];
}

bool Variables::hang_on(int i, int base) {
  const auto dtype = vars_[i].facts.tensor().dtype;
  for (int k = i; k != base; k = vars_[k].parent) {
    const Variable& v = vars_[k];
    const bool transforms = v.view != nullptr && ops::inverse_of_value_view(v.view->op) != nullptr;
    if (!v.single || v.cut || v.rename || v.separate_version || v.change != nullptr ||
        v.own_history || transforms || vars_[v.parent].facts.tensor().dtype != dtype)
      return false;
  }
  vars_[i].parent = base;
  vars_[i].view = nullptr;
  vars_[i].is_hung = true;
  for (int k : storage(vars_[i]).variables)
    if (is_within(k, i) && (vars_[k].hooked == kNoValue || vars_[k].hooked != vars_[k].current))
      vars_[k].version = -1;
  return true;
}

bool Variables::share_memory_secretly(int a, int b) const {
  for (int top : {a, b})
    for (int i = top; i >= 0; i = vars_[i].parent)
      if (vars_[i].rename && vars_[i].change == nullptr && is_within(a, i) != is_within(b, i))
        return true;
  return false;
}

bool Variables::has_own_version(int i) const {
  for (; i >= 0; i = vars_[i].parent)
    if (vars_[i].separate_version) return true;
  return false;
}

void Variables::mark_overwritten(ValueId id, int64_t now, bool counted) {
  if (overwritten_.size() <= static_cast<size_t>(id))
    overwritten_.resize(static_cast<size_t>(id) + 1);
  overwritten_[id].last = now;
  if (counted) overwritten_[id].last_counted = now;
  for (const auto* same_tensor : {&result_of_, &before_uncounted_})
    if (auto it = same_tensor->find(id); it != same_tensor->end())
      mark_overwritten(it->second, now, counted);
}

// t_, detach_, ...: the version counter of the tensor moves, its memory stays.
void Variables::mark_changed(int index, int64_t now) {
  for (int i : storage(vars_[index]).variables)
    if (vars_[i].current != kNoValue && has_own_version(i) == has_own_version(index))
      mark_overwritten(vars_[i].current, now, /*counted=*/!has_own_version(i));
}

ValueId Variables::read_recorded(ValueId recorded) {
  if (recorded == kNoValue) return kNoValue;
  if (!in_.value(recorded).is_tensor()) return numbers.at(recorded);
  return read(variable_of_[recorded]);
}

void Variables::alias_of(ValueId recorded, int index) {
  variable_of_[recorded] = index;
  vars_[index].facts = in_.value(recorded);
}

Result Variables::define(const Result& r) {
  auto one = [&](ValueId recorded) {
    if (recorded == kNoValue) return kNoValue;
    if (!in_.value(recorded).is_tensor()) {
      Value number;
      number.type = in_.value(recorded).type;
      return numbers[recorded] = e_.b.add_value(std::move(number));
    }
    const int v = new_variable(recorded);
    return vars_[v].current = e_.b.add_value(
               Emitter::typed(vars_[v].facts.tensor(), vars_[v].facts.tensor().requires_grad));
  };
  if (const auto* id = std::get_if<ValueId>(&r)) return Result(one(*id));
  ValueList list;
  for (ValueId id : std::get<ValueList>(r)) list.push_back(one(id));
  return Result(std::move(list));
}

void Variables::add_roots(const std::vector<record::SharedInput>& shared) {
  for (ValueId id : in_.inputs) {
    if (!in_.value(id).is_tensor()) {
      numbers[id] = e_.b.add_input(in_.value(id));
      continue;
    }
    const int v = new_variable(id);
    Value copy = in_.value(id);
    copy.storage = in_.value(id).storage;
    vars_[v].current = vars_[v].input = e_.b.add_input(std::move(copy));
    storage(vars_[v]).visible = true;
  }
  for (size_t id = 0; id < in_.values.size(); ++id) {
    if (in_.values[id].kind != ir::ValueKind::Constant) continue;
    const int v = new_variable(static_cast<ValueId>(id));
    vars_[v].current = vars_[v].input = e_.b.add_constant(in_.values[id].constant, "c");
    vars_[v].is_constant = true;
  }
  share_memory_of_inputs(shared);
}

}  // namespace fulgurite::passes
