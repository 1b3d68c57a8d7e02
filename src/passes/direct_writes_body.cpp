// What direct writes make of the trace: the binds moved, then the write-backs gone.
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "ir/builder.h"
#include "ops/number_prims.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/direct_writes.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Result;
using ir::Trace;
using ir::TracePtr;
using ir::ValueId;
using ir::ValueList;

Body DirectWrites::body() const {
  if (targets_.empty()) return {trace_, t_.epilogue, later_};
  const std::vector<bool> moves = moved();
  ir::TraceBuilder b(t_, t_.stage);
  Body out{nullptr, 0, later_};
  std::set<std::pair<ValueId, at::ScalarType>> fit;
  for (size_t i = 0; i < t_.epilogue; ++i) {
    if (!moves[i]) {
      b.add_bind(t_.binds[i]);
      continue;
    }
    auto each = [&](auto&& f) {
      for_each_arg(t_.binds[i], f);
      for_each_result(t_.binds[i], f);
    };
    each([&](ValueId number) {
      if (t_.value(number).is_tensor()) return;
      each([&](ValueId id) {
        const ir::Value& v = t_.value(id);
        if (!v.is_tensor()) return;
        const auto dtype = c10::toRealValueType(v.tensor().dtype);
        if (dtype != at::kDouble && c10::isFloatingType(dtype)) fit.emplace(number, dtype);
      });
    });
  }
  for (const auto& [number, dtype] : fit)
    b.add_bind(Bind{prims::expect_fits(),
                    {Arg(number), Arg(IValue(static_cast<int64_t>(dtype)))},
                    {},
                    -1,
                    -1,
                    false});
  b.begin_epilogue();
  std::unordered_map<ValueId, ValueId> alias_of;
  std::set<size_t> done;
  for (const Target& target : targets_) {
    out.given.push_back(target.memory);
    ValueId alias = target.alias;
    if (alias == kNoValue && !target.uncounted) continue;
    if (alias == kNoValue) {
      ir::Value v;
      v.type = t_.value(target.memory).type;
      std::get<ir::TensorType>(v.type).requires_grad = false;
      alias = b.add_value(std::move(v));
    } else {
      done.insert(made_by_[alias]);
    }
    b.add_bind(Bind{prims::data(), {Arg(target.memory)}, {Result(alias)}, -1, -1, false});
    alias_of.emplace(target.memory, alias);
    out.given.push_back(alias);
  }
  for (const Target& target : targets_) {
    if (!target.into) continue;
    const auto alias = alias_of.find(target.memory);
    out.into.emplace_back(std::get<ValueId>(t_.binds[target.way.back()].results[0]),
                          alias == alias_of.end() ? target.memory : alias->second);
  }
  for (size_t i = 0; i < t_.epilogue; ++i) {
    if (!moves[i]) continue;
    Bind bind = t_.binds[i];
    bind.grad_mode = false;
    auto aliased = [&](ValueId& id) {
      if (const auto it = alias_of.find(id); it != alias_of.end()) id = it->second;
    };
    for (Arg& a : bind.args) {
      if (auto* id = std::get_if<ValueId>(&a)) aliased(*id);
      if (auto* list = std::get_if<ValueList>(&a))
        for (ValueId& id : *list) aliased(id);
    }
    b.add_bind(std::move(bind));
  }
  out.end = b.trace().binds.size();
  for (size_t i = t_.epilogue; i < t_.binds.size(); ++i)
    if (done.count(i) == 0) b.add_bind(t_.binds[i]);
  out.trace = b.finish();
  return out;
}

TracePtr DirectWrites::settle(const TracePtr& trace, size_t end) {
  if (targets_.empty()) return trace;
  const Trace& t = *trace;
  // By value: the target in whose memory it is, as a whole; whose counter counts what is written.
  std::vector<int> home(t.values.size(), -1), counter(t.values.size(), -1);
  for (size_t k = 0; k < targets_.size(); ++k)
    home[targets_[k].memory] = counter[targets_[k].memory] = static_cast<int>(k);
  std::vector<int> made(targets_.size(), 0);
  for (size_t i = t.epilogue; i < end; ++i) {
    const Bind& b = t.binds[i];
    const std::vector<size_t> written = ops::written_arguments(b);
    for (size_t a : written)
      ir::for_each_value(b.args[a], [&](ValueId id) {
        if (counter[id] >= 0 && ops::bumps_versions(b.op)) ++made[counter[id]];
      });
    if (b.args.empty()) continue;
    const bool in_place = written.size() == 1;
    const auto* first = std::get_if<ValueId>(&b.args[in_place ? written[0] : 0]);
    if (first == nullptr || *first == kNoValue) continue;
    for_each_result(b, [&](ValueId id) {
      if (in_place || ops::cuts_gradient(b.op)) home[id] = home[*first];
      if (in_place || (ops::is_view(b.op) && !(b.op == prims::data())))
        counter[id] = counter[*first];
    });
  }
  std::vector<Target> left;
  bool again = false;
  for (size_t k = 0; k < targets_.size(); ++k) {
    const Result& after = t_.binds[targets_[k].copy].results[0];
    const auto copy = std::find_if(
        t.binds.begin() + static_cast<std::ptrdiff_t>(end), t.binds.end(),
        [&](const Bind& b) { return b.op == prims::copy_() && b.results[0] == after; });
    const bool direct =
        copy != t.binds.end() && home[std::get<ValueId>(copy->args[0])] == static_cast<int>(k);
    const bool too_many = made[k] > targets_[k].counted;
    again = again || !direct || too_many;
    if (!direct && !begins_with_result(targets_[k])) continue;
    left.push_back(targets_[k]);
    left.back().uncounted = left.back().uncounted || (direct && too_many);
  }
  if (again) {
    targets_ = std::move(left);
    return nullptr;
  }
  return finished(t, end, made);
}

// Without the write-backs that have become direct.
TracePtr DirectWrites::finished(const Trace& t, size_t end, const std::vector<int>& made) const {
  ir::TraceBuilder b(t, "reinplace");
  for (size_t i = 0; i < t.binds.size(); ++i) {
    if (i == t.epilogue) b.begin_epilogue();
    const Bind& bind = t.binds[i];
    if (i < end) {
      b.add_bind(bind);
      continue;
    }
    bool drop = false;
    for (size_t k = 0; k < targets_.size(); ++k) {
      const Target& target = targets_[k];
      if (bind.op == prims::bump_version_() && bind.args[0] == Arg(target.memory)) drop = true;
      if (!(bind.op == prims::copy_()) || bind.results[0] != t_.binds[target.copy].results[0])
        continue;
      drop = true;
      if (target.counted > made[k])
        b.add_bind(Bind{prims::bump_version_(),
                        {Arg(target.memory), Arg(IValue(int64_t{target.counted - made[k]}))},
                        {},
                        -1,
                        -1,
                        false});
    }
    if (!drop) b.add_bind(bind);
  }
  return b.finish();
}

}  // namespace fulgurite::passes
