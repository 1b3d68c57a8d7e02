#include "passes/functional/steps.h"

#include <ATen/core/Tensor.h>

#include "ir/errors.h"
#include "ops/prims.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

// The results of an autograd.Function: new variables on the memory of what its forward computed,
// or, of what it was given and wrote (mark_dirty), new contents with another history.
void Steps::function_call(const Bind& bind) {
  const std::string& name = std::get<IValue>(bind.args[0]).toStringRef();
  const auto& outputs = std::get<ValueList>(bind.args[3]);
  const auto view_of = std::get<IValue>(bind.args[5]).toIntVector();
  const auto written = std::get<IValue>(bind.args[6]).toIntVector();
  for (ValueId id : std::get<ValueList>(bind.args[4])) {
    const Storage& s = vars_.storage(vars_[vars_.of(id)]);
    if (s.visible && s.version > 0)
      throw Refusal("FG-191", name +
                                  " saves for backward a tensor that the caller can see, after "
                                  "the call wrote it");
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Storage& s = vars_.storage(vars_[vars_.of(outputs[k])]);
    if (view_of[k] >= 0 && s.visible && s.version > 0)
      throw Refusal("FG-191", name +
                                  " returns a view of a tensor that the caller can see, after "
                                  "the call wrote it");
  }
  Bind out{bind.op, {}, {}, bind.location, e_.region, bind.grad_mode};
  for (const Arg& a : bind.args) out.args.push_back(vars_.mapped(a));
  auto& given = std::get<ValueList>(out.args[3]);
  for (size_t k = 0; k < outputs.size(); ++k)
    if (view_of[k] < 0) given[k] = vars_.fresh(vars_.of(outputs[k]));
  // What is saved and is a result has to be that very value.
  const auto& saved = std::get<ValueList>(bind.args[4]);
  for (size_t s = 0; s < saved.size(); ++s)
    for (size_t k = 0; k < outputs.size(); ++k)
      if (saved[s] == outputs[k]) std::get<ValueList>(out.args[4])[s] = given[k];
  const auto& recorded = std::get<ValueList>(bind.results[0]);
  ValueList results;
  for (ValueId r : recorded)
    results.push_back(
        e_.b.add_value(Emitter::typed(in_.value(r).tensor(), in_.value(r).tensor().requires_grad)));
  out.results.emplace_back(results);
  e_.b.add_bind(std::move(out));
  const size_t by = e_.b.trace().binds.size() - 1;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const int before = vars_.of(outputs[k]);
    if (written[k] >= 0) {
      vars_.alias_of(recorded[k], before);
      vars_.write(before, results[k], /*bumps_version=*/true, by);
      continue;
    }
    const int v = vars_.new_variable(recorded[k]);
    vars_[v].parent = before;
    vars_[v].made_by = &bind;
    vars_[v].own_history = true;
    vars_[v].current = results[k];
  }
}

// Hooks were registered on the value: every use of it passes them.
void Steps::boundary(const Bind& bind) {
  const int v = vars_.of(std::get<ValueId>(bind.args[0]));
  const auto after = std::get<ValueId>(bind.results[0]);
  vars_.alias_of(after, v);
  if (!kept_.is_kept(after)) return;
  if (vars_[v].input != kNoValue)
    throw Refusal("FG-193", "hooks are registered on another tensor on the memory of an argument");
  // What the caller may get is the result itself; of a view, with its base.
  const bool is_root = vars_[v].parent < 0;
  if (!is_root && kept_.is_output(after) && view_boundary(v, bind.args[1])) return;
  const ValueId value = is_root ? vars_.fresh(v) : vars_.read(v);
  if (is_root) vars_[v].written = false;
  vars_[v].hooked_as_view = false;
  vars_[v].current = vars_[v].hooked =
      e_.emit(prims::boundary(), {Arg(value), bind.args[1], Arg(IValue())}, vars_[v].facts, true);
}

bool Steps::view_boundary(int view, const Arg& number) {
  const ValueId base = base_of(view);
  if (base == kNoValue) return false;
  const ValueId value = vars_.read(view);
  vars_[view].hooked_as_view = true;
  vars_[view].current = vars_[view].hooked =
      e_.emit(prims::boundary(), {Arg(value), number, Arg(base)}, vars_[view].facts, true);
  return true;
}

// The tensor that a view is one of, as the caller may get it, after the last write of its memory;
// kNoValue where eager's view would be of another kind than the one that is taken again.
ValueId Steps::base_of(int view) {
  const int root = vars_.origin(view);
  for (int i = view; i != root; i = vars_[i].parent) {
    const Variable& v = vars_[i];
    if (i != view && v.hooked != kNoValue && v.hooked == v.current && vars_.is_up_to_date(i))
      return v.hooked_as_view ? v.hooked : kNoValue;
    const Bind* made_by = v.is_hung || !v.single ? v.made_by : v.view;
    if (v.cut || v.rename || v.separate_version || v.change != nullptr || made_by == nullptr ||
        !made_by->grad_mode)
      return kNoValue;
  }
  if (vars_[root].is_constant || !e_.requires_grad(vars_[root].current)) return kNoValue;
  const bool is_itself = vars_[root].hooked == vars_[root].current && vars_.is_up_to_date(root);
  if (vars_[root].is_given() || vars_[root].own_history)
    return vars_.storage(vars_[root]).version == 0 || is_itself ? vars_[root].current : kNoValue;
  const ValueId before = vars_[root].current;
  const ValueId base = vars_.fresh(root);
  vars_[root].written = false;
  if (base != before)
    for (int i = view; i != root; i = vars_[i].parent) vars_[i].version = -1;
  return base;
}

// Eager's backward looks whether what a Function saved has been written since.
void Steps::check_saved(const Functionalized& f) {
  const Trace& t = *f.trace;
  for (size_t i = 0; i < t.binds.size(); ++i) {
    const Bind& bind = t.binds[i];
    if (!(bind.op == prims::function())) continue;
    auto is_overwritten = [&](ValueId id) {
      return t.value(id).kind != ir::ValueKind::Input &&
             f.overwritten[id].last > 2 * static_cast<int64_t>(i);
    };
    const auto& outputs = std::get<ValueList>(bind.args[3]);
    for (ValueId id : std::get<ValueList>(bind.args[4])) {
      bool overwritten = is_overwritten(id);
      for (size_t k = 0; k < outputs.size(); ++k)
        if (outputs[k] == id)
          overwritten = overwritten || is_overwritten(std::get<ValueList>(bind.results[0])[k]);
      if (overwritten)
        throw Refusal("FG-191", std::get<IValue>(bind.args[0]).toStringRef() +
                                    " saves for backward a tensor that is written in place "
                                    "afterwards");
    }
  }
}

}  // namespace fulgurite::passes
