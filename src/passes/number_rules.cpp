#include "passes/number_rules.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <bit>

#include "ir/builder.h"
#include "ir/errors.h"
#include "ir/schema_args.h"
#include "ops/rules.h"
#include "ops/traits.h"
#include "record/numbers.h"

namespace fulgurite::passes {
namespace {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::ScalarKind;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

// That no formula has a form of its own for.
constexpr std::array<double, 2> kPlainFloats{0.8046875, 0.2890625};
constexpr std::array<int64_t, 2> kPlainInts{7, 11};
constexpr std::array<double, 6> kChosen{0.0, 1.0, -1.0, 2.0, 0.5, 3.0};

IValue plain(ScalarKind kind, size_t i) {
  return kind == ScalarKind::Float ? IValue(kPlainFloats[i]) : IValue(kPlainInts[i]);
}

// The numbers among the arguments: where they stand, and where they would stand if they were
// tensors (flat).
struct Place {
  size_t argument;
  size_t flat;
  ScalarKind kind;
};
std::vector<Place> numbers_of(const Trace& trace, const Bind& bind) {
  std::vector<Place> places;
  size_t flat = 0;
  const auto& formal = bind.op.schema().arguments();
  for (size_t i = 0; i < bind.args.size(); ++i) {
    if (const auto* list = std::get_if<ValueList>(&bind.args[i])) flat += list->size();
    const auto* id = std::get_if<ValueId>(&bind.args[i]);
    if (id == nullptr) continue;
    if (*id != kNoValue && !trace.value(*id).is_tensor() &&
        !ir::is_tensor_type(ir::full_type(formal[i])))
      places.push_back({i, flat, std::get<ScalarKind>(trace.value(*id).type)});
    ++flat;
  }
  return places;
}

// `bind` with constants in the place of the numbers.
Bind with_constants(const Bind& bind, const std::vector<Place>& places,
                    const std::vector<IValue>& numbers) {
  Bind copy = bind;
  for (size_t i = 0; i < places.size(); ++i) copy.args[places[i].argument] = Arg(numbers[i]);
  return copy;
}

bool same_constant(const IValue& a, const IValue& b) {
  if (a.isDouble() && b.isDouble())
    return std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
  if (a.tagKind() != b.tagKind()) return false;
  if (a.isTensor()) return a.toTensor().is_same(b.toTensor());
  return a == b;
}

// A constant in a rule's trace that is the number: formulas may have made a float of an int.
bool is_number(const IValue& constant, const IValue& number) {
  if (constant.isDouble() && number.isInt())
    return constant.toDouble() == static_cast<double>(number.toInt());
  return record::same_number(constant, number);
}

// Where the constants of a rule are numbers: bind and argument of the trace, index of the number.
struct Use {
  size_t bind, argument, number;
};

bool same_values(const Trace& a, const Trace& b) {
  if (a.values.size() != b.values.size()) return false;
  for (size_t i = 0; i < a.values.size(); ++i) {
    if (a.values[i].kind != b.values[i].kind || a.values[i].type != b.values[i].type) return false;
    if (a.values[i].kind == ir::ValueKind::Constant &&
        !a.values[i].constant.equal(b.values[i].constant))
      return false;
  }
  return true;
}

// Whether two rules are one but for the numbers, which are `first` in the one and `second` in the
// other; `uses` gets where those are.
bool agree(const Rule& a, const Rule& b, const std::vector<IValue>& first,
           const std::vector<IValue>& second, std::vector<Use>& uses) {
  uses.clear();
  const Trace &s = *a.trace, &t = *b.trace;
  if (a.forward || b.forward || a.gradients_of != b.gradients_of ||
      a.inputs.size() != b.inputs.size() || s.outputs != t.outputs || s.inputs != t.inputs ||
      s.binds.size() != t.binds.size() || !same_values(s, t))
    return false;
  for (size_t i = 0; i < a.inputs.size(); ++i)
    if (a.inputs[i].source != b.inputs[i].source || a.inputs[i].index != b.inputs[i].index)
      return false;
  for (size_t i = 0; i < s.binds.size(); ++i) {
    const Bind &x = s.binds[i], &y = t.binds[i];
    if (!(x.op == y.op) || x.args.size() != y.args.size() || x.results != y.results) return false;
    for (size_t k = 0; k < x.args.size(); ++k) {
      const auto* c = std::get_if<IValue>(&x.args[k]);
      const auto* d = std::get_if<IValue>(&y.args[k]);
      if ((c == nullptr) != (d == nullptr)) return false;
      if (c == nullptr) {
        if (x.args[k] != y.args[k]) return false;
        continue;
      }
      bool found = false;
      for (size_t n = 0; n < first.size() && !found; ++n) {
        found =
            is_number(*c, first[n]) && is_number(*d, second[n]) && c->isInt() == first[n].isInt();
        if (found) uses.push_back({i, k, n});
      }
      if (!found && !same_constant(*c, *d)) return false;
    }
  }
  return true;
}

// Where the numbers stand in the formula as it is recorded: the number, bind and argument. Nothing
// if the two differ in anything else.
std::optional<std::vector<Use>> places_in(const std::vector<Bind>& s, const std::vector<Bind>& t,
                                          const std::vector<IValue>& first,
                                          const std::vector<IValue>& second) {
  std::vector<Use> uses;
  if (s.size() != t.size()) return std::nullopt;
  for (size_t i = 0; i < s.size(); ++i) {
    if (!(s[i].op == t[i].op) || s[i].args.size() != t[i].args.size()) return std::nullopt;
    for (size_t k = 0; k < s[i].args.size(); ++k) {
      const auto *c = std::get_if<IValue>(&s[i].args[k]), *d = std::get_if<IValue>(&t[i].args[k]);
      if ((c == nullptr) != (d == nullptr)) return std::nullopt;
      if (c == nullptr) continue;
      bool found = false;
      for (size_t n = 0; n < first.size() && !found; ++n) {
        found = record::same_number(*c, first[n]) && record::same_number(*d, second[n]);
        if (found) uses.push_back({i, k, n});
      }
      if (!found && !same_constant(*c, *d)) return std::nullopt;
    }
  }
  return uses;
}

// The trace with the numbers as further inputs.
ir::TracePtr with_inputs(const Trace& t, const std::vector<Place>& places,
                         const std::vector<Use>& uses, std::vector<size_t>& taken) {
  ir::TraceBuilder b(t, t.stage);
  std::vector<ValueId> ids(places.size(), kNoValue);
  auto input = [&](size_t number) {
    if (ids[number] != kNoValue) return ids[number];
    ir::Value v;
    v.kind = ir::ValueKind::Input;
    v.name = "number" + std::to_string(number);
    v.type = places[number].kind;
    taken.push_back(number);
    return ids[number] = b.add_input(std::move(v));
  };
  for (const Use& u : uses) input(u.number);
  for (size_t i = 0; i < t.binds.size(); ++i) {
    if (i == t.epilogue) b.begin_epilogue();
    Bind copy = t.binds[i];
    for (const Use& u : uses)
      if (u.bind == i) copy.args[u.argument] = Arg(ids[u.number]);
    b.add_bind(std::move(copy));
  }
  if (t.epilogue == t.binds.size()) b.begin_epilogue();
  return b.finish();
}

// By flat argument, as many as there are without the numbers.
template <class T>
std::vector<T> without_numbers(const std::vector<T>& flat, const std::vector<Place>& places) {
  std::vector<T> rest;
  for (size_t i = 0; i < flat.size(); ++i) {
    bool number = false;
    for (const Place& p : places) number = number || p.flat == i;
    if (!number) rest.push_back(flat[i]);
  }
  return rest;
}

size_t with_numbers(size_t flat, const std::vector<Place>& places) {
  for (const Place& p : places)
    if (p.flat <= flat) ++flat;
  return flat;
}

struct Generic {
  std::shared_ptr<const Rule> rule;  // for the first plain values
  std::vector<IValue> numbers;       // those
  std::vector<Use> uses;
  std::optional<std::vector<Use>> in_formula;  // where they stand in rule->formula
};

std::optional<Generic> generic_rule(const Trace& trace, const Bind& bind,
                                    const std::vector<Place>& places,
                                    const std::vector<const ir::TensorType*>& cotangents,
                                    const std::vector<bool>& wanted) {
  std::vector<IValue> first, second;
  for (const Place& p : places) {
    if (p.kind != ScalarKind::Float && p.kind != ScalarKind::Int) return std::nullopt;
    first.push_back(plain(p.kind, 0));
    second.push_back(plain(p.kind, 1));
  }
  Generic g;
  g.numbers = first;
  g.rule = derive(trace, with_constants(bind, places, first), cotangents, wanted);
  const auto other = derive(trace, with_constants(bind, places, second), cotangents, wanted);
  if (!agree(*g.rule, *other, first, second, g.uses)) return std::nullopt;
  if (g.rule->formula && other->formula)
    g.in_formula = places_in(*g.rule->formula, *other->formula, first, second);
  return g;
}

// The values of one bind alone.
Trace small_trace(const std::vector<ir::Value>& values, Bind& moved) {
  Trace t;
  auto move = [&](ValueId id) {
    if (id == kNoValue) return id;
    t.values.push_back(values[static_cast<size_t>(id)]);
    return static_cast<ValueId>(t.values.size() - 1);
  };
  auto move_all = [&](auto& part) {
    if (auto* id = std::get_if<ValueId>(&part)) *id = move(*id);
    if (auto* list = std::get_if<ValueList>(&part))
      for (ValueId& id : *list) id = move(id);
  };
  for (Arg& a : moved.args) move_all(a);
  for (ir::Result& r : moved.results) move_all(r);
  return t;
}

}  // namespace

namespace {

// What is left of a bind whose schema hides what it writes: an operator that returns that as well.
// `argument` becomes the place of the same argument there.
std::optional<Bind> without_writes(const Bind& bind, const std::vector<ir::Value>& values,
                                   size_t& argument) {
  if (!ops::is_mutable(bind.op)) return bind;
  const auto functional = ops::functional_variant(bind.op);
  if (!functional || bind.op.schema().is_mutable()) return std::nullopt;
  Bind pure = bind;
  pure.op = functional->op;
  pure.args.clear();
  size_t place = functional->argument_of.size();
  for (size_t i = 0; i < functional->argument_of.size(); ++i) {
    const auto from = static_cast<size_t>(functional->argument_of[i]);
    if (from == argument) place = i;
    pure.args.push_back(bind.args[from]);
  }
  argument = place;
  for (size_t i : ops::written_arguments(bind)) {
    const auto* id = std::get_if<ValueId>(&bind.args[i]);
    if (id == nullptr || *id == kNoValue || values[static_cast<size_t>(*id)].tensor().requires_grad)
      return std::nullopt;
    pure.results.emplace_back(*id);  // a value like it
  }
  return pure.results.size() == pure.op.schema().returns().size() ? std::optional(pure)
                                                                  : std::nullopt;
}

}  // namespace

bool has_varying_number(const Trace& trace, const Bind& bind) {
  return !numbers_of(trace, bind).empty();
}

std::shared_ptr<const Rule> derive_with_numbers(
    const Trace& trace, const Bind& bind, const std::vector<const ir::TensorType*>& cotangents,
    const std::vector<bool>& wanted) {
  const std::vector<Place> places = numbers_of(trace, bind);
  const auto g = generic_rule(trace, bind, places, cotangents, without_numbers(wanted, places));
  if (!g || places.size() != 1)
    throw Refusal("FG-171", bind.op.id() + ": its gradient looks at a number that varies");
  auto rule = std::make_shared<Rule>(*g->rule);
  for (Rule::Input& in : rule->inputs)
    if (in.source == Rule::Source::Argument) in.index = with_numbers(in.index, places);
  for (size_t& flat : rule->gradients_of) flat = with_numbers(flat, places);
  std::vector<size_t> taken;
  rule->trace = with_inputs(*g->rule->trace, places, g->uses, taken);
  for (size_t n : taken) rule->inputs.push_back({Rule::Source::Argument, places[n].flat});
  return rule;
}

std::optional<record::VaryingNumber> varying_number(const Bind& bind,
                                                    const std::vector<ir::Value>& values,
                                                    size_t argument) {
  const auto* recorded = std::get_if<IValue>(&bind.args[argument]);
  if (recorded == nullptr || !(recorded->isInt() || recorded->isDouble())) return std::nullopt;
  const auto pure = without_writes(bind, values, argument);
  if (!pure || rules::find(bind.op) || rules::find(pure->op) ||
      argument >= pure->op.schema().arguments().size())
    return std::nullopt;
  Bind moved = *pure;
  const Trace t = small_trace(values, moved);
  const auto kind = recorded->isInt() ? ScalarKind::Int : ScalarKind::Float;
  const std::vector<Place> places{{argument, 0, kind}};
  const auto results = tensor_results(t, moved);
  std::vector<ir::TensorType> types(results.size());
  std::vector<const ir::TensorType*> cotangents(results.size(), nullptr);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i] == kNoValue || !t.value(results[i]).tensor().requires_grad) continue;
    types[i] = t.value(results[i]).tensor();
    types[i].requires_grad = false;
    cotangents[i] = &types[i];
  }
  std::vector<bool> wanted;
  for (ValueId id : tensor_arguments(t, moved))
    wanted.push_back(id != kNoValue && t.value(id).is_tensor() &&
                     t.value(id).tensor().requires_grad);
  record::VaryingNumber varying;
  std::vector<IValue>& excluded = varying.excluded;
  try {
    const auto g = generic_rule(t, moved, places, cotangents, wanted);
    if (!g) return std::nullopt;
    for (double chosen : kChosen) {
      const auto whole = static_cast<int64_t>(chosen);
      if (kind == ScalarKind::Int && static_cast<double>(whole) != chosen) continue;
      const IValue v = kind == ScalarKind::Int ? IValue(whole) : IValue(chosen);
      std::vector<Use> uses;
      const auto rule = derive(t, with_constants(moved, places, {v}), cotangents, wanted);
      if (!agree(*g->rule, *rule, g->numbers, {v}, uses) || uses.size() != g->uses.size())
        excluded.push_back(v);
    }
    if (g->in_formula) {
      varying.steps = g->rule->formula;
      for (const Use& u : *g->in_formula) varying.places.emplace_back(u.bind, u.argument);
    }
  } catch (const std::exception&) {
    return std::nullopt;  // a constant has no rule either
  }
  for (const IValue& v : excluded)
    if (record::same_number(v, *recorded)) return std::nullopt;
  return varying;
}

namespace {
[[maybe_unused]] const bool installed = [] {
  record::set_number_hook(&varying_number);
  return true;
}();
}  // namespace

}  // namespace fulgurite::passes
