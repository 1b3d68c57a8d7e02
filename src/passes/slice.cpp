#include "passes/slice.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/builder.h"
#include "ops/traits.h"

namespace fulgurite::passes {

using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::Value;
using ir::ValueId;
using ir::ValueList;

namespace {

// Copies values and binds of one trace into another.
class Copier {
 public:
  Copier(const Trace& from, const std::string& stage) : b(from.name, stage), from_(from) {
    b.trace().functional = true;
    b.trace().kind = from.kind;
    b.trace().locations = from.locations;
    ids_.assign(from.values.size(), kNoValue);
  }

  void input(ValueId id) { ids_[id] = b.add_input(copy(id)); }

  ValueId map(ValueId id) {
    if (id == kNoValue) return kNoValue;
    if (ids_[id] == kNoValue) {
      const Value& v = from_.value(id);
      ids_[id] =
          v.kind == ir::ValueKind::Constant ? b.add_constant(v.constant) : b.add_value(copy(id));
    }
    return ids_[id];
  }

  void bind(const Bind& x) {
    Bind m{x.op, {}, {}, x.location, -1, x.grad_mode};
    for (const Arg& a : x.args) m.args.push_back(mapped(a));
    for (const ir::Result& r : x.results) m.results.push_back(mapped(r));
    b.add_bind(std::move(m));
  }

  ir::TraceBuilder b;

 private:
  Value copy(ValueId id) const {
    Value v;
    v.name = from_.value(id).name;
    v.type = from_.value(id).type;
    return v;
  }
  template <class ArgOrResult>
  ArgOrResult mapped(const ArgOrResult& a) {
    ArgOrResult m = a;
    if (auto* id = std::get_if<ValueId>(&m)) *id = map(*id);
    if (auto* list = std::get_if<ValueList>(&m))
      for (ValueId& id : *list) id = map(id);
    return m;
  }

  const Trace& from_;
  std::vector<ValueId> ids_;
};

// Which binds before `end` are needed for the values marked; marks what they take.
std::vector<bool> needed_binds(const Trace& t, std::vector<bool>& needed,
                               const std::vector<bool>& given) {
  std::vector<bool> runs(t.binds.size(), false);
  for (size_t i = t.epilogue; i-- > 0;) {
    ops::for_each_made(t.binds[i],
                       [&](ValueId id) { runs[i] = runs[i] || (needed[id] && !given[id]); });
    if (runs[i]) for_each_arg(t.binds[i], [&](ValueId id) { needed[id] = true; });
  }
  return runs;
}

}  // namespace

BackwardSlice slice_backward(const Trace& t, Range gradients, Range cotangents) {
  BackwardSlice slice;
  std::vector<bool> needed(t.values.size(), false), given(t.values.size(), false);
  for (size_t k = gradients.begin; k < gradients.end; ++k)
    if (t.outputs[k] != kNoValue) needed[t.outputs[k]] = true;
  const std::vector<bool> runs = needed_binds(t, needed, given);
  Copier c(t, t.stage);
  for (size_t k = 0; k < t.num_saved_inputs; ++k) {
    if (!needed[t.inputs[k]]) continue;
    c.input(t.inputs[k]);
    slice.saved.push_back(k);
  }
  c.b.trace().num_saved_inputs = slice.saved.size();
  for (size_t k = cotangents.begin; k < cotangents.end; ++k)
    c.input(t.inputs[t.num_saved_inputs + k]);
  for (size_t i = 0; i < t.binds.size(); ++i)
    if (runs[i]) c.bind(t.binds[i]);
  for (size_t k = gradients.begin; k < gradients.end; ++k)
    c.b.trace().outputs.push_back(c.map(t.outputs[k]));
  slice.trace = c.b.finish();
  return slice;
}

FunctionalSlice slice_functional(const Trace& t, const Joint& joint, size_t part) {
  FunctionalSlice slice;
  const NodeValues& values = joint.parts[part];
  const GradientParts& partition = joint.partition;
  std::vector<bool> needed(t.values.size(), false), given(t.values.size(), false);
  for (ValueId id : t.inputs) given[id] = true;
  for (const Bind& b : t.binds)
    if (ops::has_own_history(b.op)) for_each_result(b, [&](ValueId id) { given[id] = true; });
  for (size_t p = 0; p < joint.parts.size(); ++p)
    for (ValueId id : joint.parts[p].attached) given[id] = given[id] || p != part;
  for (ValueId id : values.attached) needed[id] = true;
  for (ValueId id : values.differentiable) needed[id] = true;
  const std::vector<bool> runs = needed_binds(t, needed, given);
  Copier c(t, t.stage);
  // Numbers come last, as in every trace.
  for (const bool tensors : {true, false}) {
    for (size_t id = 0; id < t.values.size(); ++id) {
      if (!given[id] || !needed[id] || t.values[id].is_tensor() != tensors) continue;
      c.input(static_cast<ValueId>(id));
      slice.inputs.push_back(static_cast<ValueId>(id));
    }
  }
  for (size_t i = 0; i < t.epilogue; ++i) {
    if (!runs[i]) continue;
    c.bind(t.binds[i]);
    slice.user_rules.push_back(partition.of_bind[i] == static_cast<int>(part) ? joint.user_rules[i]
                                                                              : nullptr);
  }
  for (ValueId id : values.attached) slice.attached.push_back(c.map(id));
  c.b.trace().outputs.assign(slice.attached.begin(), slice.attached.end());
  slice.trace = c.b.finish();
  return slice;
}

}  // namespace fulgurite::passes
