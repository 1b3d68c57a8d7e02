#include "passes/functional/variables.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/errors.h"
#include "ops/cards.h"
#include "ops/prims.h"
#include "ops/traits.h"

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

std::vector<size_t> Variables::take_overwritten() {
  overwritten_.resize(e_.b.trace().values.size(), kNever);
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
  {
    Variable& v = vars_[index];
    if (v.version == storage(v).version) return v.current;
    if (v.parent < 0)
      throw InternalError("functionalize: the root " + v.facts.name + " is out of date");
  }
  const ValueId base = read(vars_[index].parent);
  Variable& v = vars_[index];
  v.current = derive(v, base);
  v.version = storage(v).version;
  return v.current;
}

// The view `v` of a new value of its parent.
ValueId Variables::derive(const Variable& v, ValueId base) {
  const Variable& p = vars_[v.parent];
  if (v.view != nullptr && v.single) {
    std::vector<Arg> args = v.view->args;
    args[0] = Arg(base);
    return e_.emit(v.view->op, std::move(args), v.facts, e_.requires_grad(base) && !v.cut);
  }
  require_same_dtype(v, p);
  return e_.emit(prims::strided_view(),
                 {Arg(base), Arg(ints(v.facts.tensor().sizes)), Arg(ints(v.facts.tensor().strides)),
                  Arg(IValue(v.facts.offset - p.facts.offset))},
                 v.facts, e_.requires_grad(base) && !v.cut);
}

void Variables::require_same_dtype(const Variable& v, const Variable& p) const {
  if (v.facts.tensor().dtype != p.facts.tensor().dtype)
    throw Refusal("FG-153", "a view of another dtype (" + v.facts.name +
                                ") is written or shares memory that is written");
}

// ---- writing
// -------------------------------------------------------------------------------------
// `contents` becomes the value of the variable, of its bases, and (when next read) of its other
// aliases.
void Variables::write(int index, ValueId contents, bool bumps_version, size_t by) {
  std::vector<int> chain;
  for (int i = index; i >= 0; i = vars_[i].parent) chain.push_back(i);
  std::vector<ValueId> before;
  for (int i : chain) before.push_back(read(i));
  Storage& s = storage(vars_[index]);
  for (int i : s.variables)
    if (vars_[i].own_history && std::find(chain.begin(), chain.end(), i) == chain.end())
      throw Refusal("FG-191", "memory that " + vars_[i].facts.name +
                                  ", the result of an autograd.Function, shows is written");
  bool bumps = bumps_version;
  for (int i : chain) bumps = bumps && !vars_[i].separate_version;
  if (bumps) ++s.version_bumps;
  for (int i : s.variables) {
    const Variable& v = vars_[i];
    if (v.version != s.version || v.current == kNoValue || is_apart(i, index)) continue;
    mark_overwritten(v.current, bumps_version ? 2 * by : 2 * by - 1, bumps && !has_own_version(i));
  }
  bool seen = e_.grad_mode;  // by autograd
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
    v.version_bumped = v.version_bumped || bumps;
    // Where elements share memory (expand) there is no value to put back; the base beyond it has
    // one.
    size_t next = k + 1;
    bool cut = v.cut;
    for (; next < chain.size() && overlaps_itself(vars_[chain[next]].facts.tensor()); ++next) {
      const Variable& skipped = vars_[chain[next]];
      cut = cut || skipped.cut;
      if (skipped.view != nullptr && ops::inverse_of_value_view(skipped.view->op) != nullptr)
        throw Refusal("FG-164", "a conjugate or negative view of an expanded tensor is written");
    }
    if (next < chain.size()) {
      contents = next == k + 1 ? scatter(v, before[next], contents)
                               : scatter_strided(v, vars_[chain[next]], before[next], contents);
      seen = seen && !cut;
    }
    k = next;
  }
  ++s.version;
  for (int i : current) vars_[i].version = s.version;
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

// Is there a .data between the variable and its root?
bool Variables::has_own_version(int i) const {
  for (; i >= 0; i = vars_[i].parent)
    if (vars_[i].separate_version) return true;
  return false;
}

std::vector<bool> Variables::overwriting_counted() const {
  std::vector<bool> counted(e_.b.trace().values.size(), false);
  for (ValueId id : counted_) counted[id] = true;
  return counted;
}

void Variables::mark_overwritten(ValueId id, size_t now, bool counted) {
  // What counts is the first time.
  const bool first = static_cast<size_t>(id) >= overwritten_.size() || overwritten_[id] == kNever;
  if (first && counted) counted_.insert(id);
  if (overwritten_.size() <= static_cast<size_t>(id))
    overwritten_.resize(static_cast<size_t>(id) + 1, kNever);
  overwritten_[id] = std::min(overwritten_[id], now);
}

// The parent's value after its view `v` was given the value `contents`.
ValueId Variables::scatter(const Variable& v, ValueId base, ValueId contents) {
  const Variable& p = vars_[v.parent];
  const bool rg = e_.requires_grad(base) || (e_.requires_grad(contents) && !v.cut);
  const auto& vt = v.facts.tensor();
  const auto& pt = p.facts.tensor();
  if (v.view != nullptr && v.single) {
    if (const char* inverse = ops::inverse_of_value_view(v.view->op))
      return e_.emit(Op::get(inverse), {Arg(contents)}, p.facts, rg);
  }
  if (vt.sizes == pt.sizes && vt.strides == pt.strides && vt.dtype == pt.dtype &&
      v.facts.offset == p.facts.offset)
    return contents;
  if (v.view != nullptr && v.single) {
    const ops::Card* card = ops::card_of(v.view->op);
    if (card != nullptr && card->scatter != nullptr) {
      std::vector<Arg> args{Arg(base), Arg(contents)};
      args.insert(args.end(), v.view->args.begin() + 1, v.view->args.end());
      return e_.emit(Op::get(card->scatter), std::move(args), p.facts, rg);
    }
    if (auto inverse = ops::inverse_permutation(*v.view, contents))
      return e_.emit(inverse->op, std::move(inverse->args), p.facts, rg);
    if (v.facts.offset == p.facts.offset && vt.numel() == pt.numel() && vt.is_contiguous() &&
        pt.is_contiguous() && vt.dtype == pt.dtype) {
      return e_.emit(Op::get("aten::view"), {Arg(contents), Arg(ints(pt.sizes))}, p.facts, rg);
    }
  }
  return scatter_strided(v, p, base, contents);
}

ValueId Variables::scatter_strided(const Variable& v, const Variable& p, ValueId base,
                                   ValueId contents) {
  require_same_dtype(v, p);
  const auto& vt = v.facts.tensor();
  return e_.emit(prims::strided_scatter(),
                 {Arg(base), Arg(contents), Arg(ints(vt.sizes)), Arg(ints(vt.strides)),
                  Arg(IValue(v.facts.offset - p.facts.offset))},
                 p.facts, e_.requires_grad(base) || (e_.requires_grad(contents) && !v.cut));
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

void Variables::add_roots() {
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
  share_memory_of_inputs();
}

// Inputs that share memory, of which some is written: all become views of one flat base.
void Variables::share_memory_of_inputs() {
  std::vector<int32_t> ids;
  for (auto& [id, s] : storages_)
    if (s.visible && s.variables.size() > 1 && is_written(id)) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (int32_t id : ids) {
    const std::vector<int> roots = storages_[id].variables;
    int64_t end = 0;
    for (int r : roots) {
      const Value& f = vars_[r].facts;
      if (f.tensor().requires_grad)
        throw Refusal("FG-151", "inputs " + f.name +
                                    " and others share memory, one of them is written, and " +
                                    f.name + " requires grad; this combination runs eagerly");
      if (f.tensor().dtype != vars_[roots[0]].facts.tensor().dtype)
        throw Refusal("FG-152",
                      "inputs of different dtypes share memory and one of them is written");
      end = std::max(end, extent(f).second);
    }
    const int base = static_cast<int>(vars_.size());
    Variable flat;
    ir::TensorType type = vars_[roots[0]].facts.tensor();
    type.sizes = {end};
    type.strides = {1};
    flat.facts.type = type;
    flat.facts.storage = id;
    const Value& first = vars_[roots[0]].facts;
    flat.current = e_.emit(prims::strided_view(),
                           {Arg(vars_[roots[0]].current), Arg(ints({end})), Arg(ints({1})),
                            Arg(IValue(-first.offset))},
                           flat.facts, false);
    vars_.push_back(std::move(flat));
    storages_[id].variables.push_back(base);
    for (int r : roots) vars_[r].parent = base;
  }
}

// Something the caller may keep: made by the trace, and given to nobody else.
ValueId Variables::fresh(int r) {
  const ValueId id = read(r);
  auto [it, is_new] = given_out_.emplace(id, r);
  if (e_.b.value(id).kind == ir::ValueKind::Result && (is_new || it->second == r)) return id;
  static const Op clone = Op::get("aten::clone");
  const ValueId copy =
      e_.emit(clone, {Arg(id), Arg(IValue())}, e_.b.value(id), e_.requires_grad(id));
  vars_[r].current = copy;
  given_out_.emplace(copy, r);
  return copy;
}

bool overlaps_itself(const ir::TensorType& t) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.sizes[d] > 1) dims.emplace_back(t.strides[d], t.sizes[d]);
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

std::pair<int64_t, int64_t> extent(const Value& v) {
  int64_t last = v.offset;
  for (size_t d = 0; d < v.tensor().sizes.size(); ++d)
    last += (v.tensor().sizes[d] - 1) * v.tensor().strides[d];
  return {v.offset, last + 1};
}

}  // namespace fulgurite::passes
