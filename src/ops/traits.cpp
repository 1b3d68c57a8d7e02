#include "ops/traits.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <unordered_map>

#include "ops/cards.h"

namespace fulgurite::ops {
namespace {

bool has_trait(const ir::Op& op, uint32_t trait) {
  const Card* card = card_of(op);
  return card != nullptr && (card->traits & trait) != 0;
}

const std::vector<std::string>& overloads_of(const std::string& name) {
  static const auto* table = [] {
    auto* t = new std::unordered_map<std::string, std::vector<std::string>>();
    for (const c10::OperatorName& n : c10::Dispatcher::singleton().getAllOpNames())
      (*t)[n.name].push_back(n.overload_name);
    return t;
  }();
  static const std::vector<std::string> none;
  auto it = table->find(name);
  return it == table->end() ? none : it->second;
}

// The same type, up to an optional that is never None where it matters.
bool admits(const c10::Type& want, const c10::Type& have) {
  if (want == have) return true;
  const auto* optional = have.castRaw<c10::OptionalType>();
  return optional != nullptr && *optional->getElementType() == want;
}

// Does `functional` take, in order and by type, the arguments of `op` without those in `skipped`?
std::optional<Functional> match(const ir::Op& op, const ir::Op& functional,
                                const std::vector<bool>& skipped) {
  const auto& have = op.schema().arguments();
  const auto& want = functional.schema().arguments();
  Functional f{functional, {}};
  size_t i = 0;
  for (const c10::Argument& w : want) {
    while (i < have.size() && skipped[i]) ++i;
    if (i == have.size() || have[i].name() != w.name() ||
        !admits(*w.real_type(), *have[i].real_type()))
      return std::nullopt;
    f.argument_of.push_back(static_cast<int>(i++));
  }
  while (i < have.size() && skipped[i]) ++i;
  if (i != have.size() || is_mutable(functional)) return std::nullopt;
  return f;
}

std::optional<Functional> find_functional(const ir::Op& op) {
  const auto& schema = op.schema();
  if (const Card* card = card_of(op); card != nullptr && card->functional != nullptr) {
    const ir::Op functional = ir::Op::get(card->functional);
    return match(op, functional, std::vector<bool>(schema.arguments().size(), false));
  }
  const std::string& name = op.name();
  size_t writes = 0;
  std::vector<bool> outs(schema.arguments().size(), false);
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (!writes_argument(op, static_cast<int>(i))) continue;
    ++writes;
    outs[i] = schema.arguments()[i].is_out() || (schema.arguments()[i].kwarg_only());
  }
  std::string candidate_name = name;
  const bool in_place = name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_';
  if (in_place) {
    candidate_name.pop_back();
    std::fill(outs.begin(), outs.end(), false);
  }
  std::optional<Functional> found;
  for (const std::string& overload : overloads_of(candidate_name)) {
    auto candidate = ir::Op::find(candidate_name, overload);
    if (!candidate || *candidate == op) continue;
    auto f = match(op, *candidate, outs);
    if (!f || f->op.schema().returns().size() != writes) continue;
    if (overload == op.overload()) return f;
    if (!found) found = f;
  }
  return found;
}

}  // namespace

bool keeps_tensors(const ir::Op& op) { return has_trait(op, kKeepsTensors); }
bool is_random(const ir::Op& op) { return op.handle().hasTag(at::Tag::nondeterministic_seeded); }

bool is_mutable(const ir::Op& op) {
  const Card* card = card_of(op);
  return op.schema().is_mutable() || (card != nullptr && !card->hidden_writes.empty());
}

bool writes_argument(const ir::Op& op, size_t argument) {
  const auto* alias = op.schema().arguments()[argument].alias_info();
  if (alias != nullptr && alias->isWrite()) return true;
  const Card* card = card_of(op);
  if (card == nullptr) return false;
  for (int i : card->hidden_writes)
    if (i == static_cast<int>(argument)) return true;
  return false;
}

bool writes_out_argument(const ir::Op& op) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].kwarg_only() && writes_argument(op, i)) return true;
  return false;
}

std::vector<size_t> written_arguments(const ir::Bind& bind) {
  std::vector<size_t> written;
  const Card* card = card_of(bind.op);
  for (size_t i = 0; i < bind.args.size(); ++i) {
    if (!writes_argument(bind.op, i)) continue;
    const auto* alias = bind.op.schema().arguments()[i].alias_info();
    const bool hidden = alias == nullptr || !alias->isWrite();
    if (hidden && card->only_if >= 0) {
      const auto* flag = std::get_if<c10::IValue>(&bind.args[static_cast<size_t>(card->only_if)]);
      if (flag != nullptr && flag->isBool() && !flag->toBool()) continue;
    }
    bool any = false;
    ir::for_each_value(bind.args[i], [&](ir::ValueId) { any = true; });
    if (any) written.push_back(i);
  }
  return written;
}

bool has_effect(const ir::Op& op) {
  return is_random(op) || is_mutable(op) || has_trait(op, kEffect);
}

bool has_data_dependent_shape(const ir::Op& op) {
  return op.handle().hasTag(at::Tag::dynamic_output_shape) || has_trait(op, kDataDependentShape);
}

bool reads_only_metadata(const ir::Op& op) { return has_trait(op, kReadsMetadata); }

bool shape_depends_on_masks_only(const ir::Op& op) { return has_trait(op, kShapeByMasks); }

bool is_pure(const ir::Op& op) { return !has_effect(op) && !has_trait(op, kUninitialised); }

bool gradient_checks_data(const ir::Op& op) { return has_trait(op, kGradientChecksData); }
bool is_value_guard(const ir::Op& op) { return has_trait(op, kValueGuard); }
bool reads_integers(const ir::Op& op) { return has_trait(op, kReadsIntegers); }
bool hands_on_numbers(const ir::Op& op) { return has_trait(op, kHandsOnNumbers); }
bool bumps_versions(const ir::Op& op) {
  return op.schema().is_mutable() && !has_trait(op, kNoVersionBump);
}

bool is_bookkeeping(const ir::Op& op) { return op.name().compare(0, 10, "profiler::") == 0; }

bool copies_argument(const ir::Op& op) { return has_trait(op, kCopies); }

bool lifts_constant(const ir::Op& op) { return has_trait(op, kLiftsConstant); }
bool leaves_memory_uninitialised(const ir::Op& op) { return has_trait(op, kUninitialised); }

bool changes_geometry_in_place(const ir::Op& op) {
  return op.handle().hasTag(at::Tag::inplace_view);
}

bool is_view(const ir::Op& op) {
  const auto& schema = op.schema();
  if (schema.returns().empty() || schema.arguments().empty()) return false;
  const auto* returned = schema.returns()[0].alias_info();
  const auto* argument = schema.arguments()[0].alias_info();
  return returned != nullptr && argument != nullptr && !returned->isWrite() && !argument->isWrite();
}

std::optional<ir::Op> view_variant(const ir::Op& op) {
  std::string name = op.name();
  if (name.back() != '_') return std::nullopt;
  name.pop_back();
  for (const std::string& overload : overloads_of(name)) {
    auto candidate = ir::Op::find(name, overload);
    if (candidate && is_view(*candidate) &&
        match(op, *candidate, std::vector<bool>(op.schema().arguments().size(), false)))
      return candidate;
  }
  return std::nullopt;
}

std::optional<ir::Bind> inverse_permutation(const ir::Bind& view, ir::ValueId contents) {
  if (has_trait(view.op, kOwnInverse)) {
    ir::Bind inverse = view;
    inverse.args[0] = ir::Arg(contents);
    inverse.results.clear();
    return inverse;
  }
  if (!has_trait(view.op, kPermutes)) return std::nullopt;
  const auto dims = std::get<c10::IValue>(view.args[1]).toIntVector();
  std::vector<int64_t> back(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d = dims[i] < 0 ? dims[i] + static_cast<int64_t>(dims.size()) : dims[i];
    back[static_cast<size_t>(d)] = static_cast<int64_t>(i);
  }
  ir::Bind inverse = view;
  inverse.args = {ir::Arg(contents), ir::Arg(c10::IValue(back))};
  inverse.results.clear();
  return inverse;
}

std::vector<ir::Bind> taken_one_by_one(const ir::Trace& trace, const ir::Bind& view) {
  static const ir::Op slice = ir::Op::get("aten::slice", "Tensor");
  static const ir::Op select = ir::Op::get("aten::select", "int");
  const auto dim_argument = view.op.schema().argumentIndexWithName("dim");
  if (!is_view(view.op) || !dim_argument || view.results.size() != 1) return {};
  const auto* parts = std::get_if<ir::ValueList>(&view.results[0]);
  const auto* self = std::get_if<ir::ValueId>(&view.args[0]);
  const auto* dim = std::get_if<c10::IValue>(&view.args[static_cast<size_t>(*dim_argument)]);
  if (parts == nullptr || self == nullptr || dim == nullptr || !dim->isInt()) return {};
  const ir::Value& whole = trace.value(*self);
  const auto rank = static_cast<int64_t>(whole.tensor().sizes.size());
  const int64_t d = dim->toInt() < 0 ? dim->toInt() + rank : dim->toInt();
  const int64_t stride = whole.tensor().strides[static_cast<size_t>(d)];
  std::vector<ir::Bind> views;
  int64_t start = 0;
  for (ir::ValueId id : *parts) {
    const ir::Value& part = trace.value(id);
    ir::Dims sizes = whole.tensor().sizes, strides = whole.tensor().strides;
    ir::Bind one{slice, {}, {}, view.location, view.region, view.grad_mode};
    const int64_t offset = whole.offset + start * stride;
    if (static_cast<int64_t>(part.tensor().sizes.size()) == rank) {
      const int64_t length = part.tensor().sizes[static_cast<size_t>(d)];
      sizes[static_cast<size_t>(d)] = length;
      one.args = {view.args[0], ir::Arg(c10::IValue(d)), ir::Arg(c10::IValue(start)),
                  ir::Arg(c10::IValue(start + length)), ir::Arg(c10::IValue(1))};
      start += length;
    } else {
      sizes.erase(sizes.begin() + d);
      strides.erase(strides.begin() + d);
      one.op = select;
      one.args = {view.args[0], ir::Arg(c10::IValue(d)), ir::Arg(c10::IValue(start))};
      ++start;
    }
    if (part.tensor().sizes != sizes || part.tensor().strides != strides || part.offset != offset)
      return {};
    views.push_back(std::move(one));
  }
  return views;
}

const char* inverse_of_value_view(const ir::Op& op) {
  const Card* card = card_of(op);
  return card == nullptr ? nullptr : card->inverse;
}

ir::Op differentiable_variant(const ir::Op& op) {
  const Card* card = card_of(op);
  return card == nullptr || card->differentiable == nullptr ? op
                                                            : ir::Op::get(card->differentiable);
}

bool cuts_gradient(const ir::Op& op) { return has_trait(op, kCutsGradient); }

std::optional<Functional> functional_variant(const ir::Op& op) {
  static thread_local std::unordered_map<ir::Op, std::optional<Functional>> cache;
  auto it = cache.find(op);
  if (it == cache.end()) it = cache.emplace(op, find_functional(op)).first;
  return it->second;
}

std::optional<ir::Op> in_place_variant(const ir::Op& op) {
  static thread_local std::unordered_map<ir::Op, std::optional<ir::Op>> cache;
  auto it = cache.find(op);
  if (it != cache.end()) return it->second;
  std::optional<ir::Op> found;
  // Functional variants of random in-place operators copy their argument first; pure ones do not
  // read it twice.
  if (!is_mutable(op)) {
    for (const std::string& overload : overloads_of(op.name() + "_")) {
      auto candidate = ir::Op::find(op.name() + "_", overload);
      if (!candidate || candidate->handle().hasTag(at::Tag::inplace_view)) continue;
      const auto functional = functional_variant(*candidate);
      if (functional && functional->op == op) found = candidate;
    }
  }
  return cache.emplace(op, found).first->second;
}

std::optional<ir::Op> out_variant(const ir::Op& op) {
  static thread_local std::unordered_map<ir::Op, std::optional<ir::Op>> cache;
  auto it = cache.find(op);
  if (it != cache.end()) return it->second;
  std::optional<ir::Op> found;
  const size_t arguments = op.schema().arguments().size();
  if (!is_mutable(op) && op.schema().returns().size() == 1) {
    for (const std::string& overload : overloads_of(op.name())) {
      auto candidate = ir::Op::find(op.name(), overload);
      // Generated ones compute elsewhere and copy.
      if (!candidate || candidate->handle().hasTag(at::Tag::generated)) continue;
      const auto& formal = candidate->schema().arguments();
      if (formal.size() != arguments + 1 || !formal.back().kwarg_only() ||
          !writes_argument(*candidate, arguments) || !writes_out_argument(*candidate))
        continue;
      const auto functional = functional_variant(*candidate);
      if (functional && functional->op == op) found = candidate;
    }
  }
  return cache.emplace(op, found).first->second;
}

bool is_pointwise(const ir::Op& op) { return op.handle().hasTag(at::Tag::pointwise); }

std::optional<ir::Op> written_view(const ir::Op& scatter) {
  static thread_local std::unordered_map<ir::Op, std::optional<ir::Op>> cache;
  auto it = cache.find(scatter);
  if (it != cache.end()) return it->second;
  std::optional<ir::Op> found;
  if (const Card* card = card_by_scatter(scatter.name())) {
    const auto& given = scatter.schema().arguments();
    for (const std::string& overload : overloads_of(card->name)) {
      auto candidate = ir::Op::find(card->name, overload);
      const auto& taken = candidate->schema().arguments();
      bool same = taken.size() + 1 == given.size();
      for (size_t i = 1; same && i < taken.size(); ++i)
        same = *taken[i].real_type() == *given[i + 1].real_type();
      if (same) found = candidate;
    }
  }
  return cache.emplace(scatter, found).first->second;
}

namespace {

bool is_elementwise(const ir::Op& op) {
  if (op.ns() != "aten") return false;
  if (op.handle().hasTag(at::Tag::pointwise) || op.handle().hasTag(at::Tag::reduction)) return true;
  // _foreach_add does what add does; it has no tags.
  const std::string prefix = "aten::_foreach_";
  if (op.name().compare(0, prefix.size(), prefix) != 0) return false;
  const std::string one = "aten::" + op.name().substr(prefix.size());
  for (const std::string& overload : overloads_of(one)) {
    const auto same = ir::Op::find(one, overload);
    if (same && same->handle().hasTag(at::Tag::pointwise)) return true;
  }
  return false;
}

}  // namespace

bool runs_on_any_contents(const ir::Op& op, bool integers) {
  static thread_local std::unordered_map<ir::Op, bool> cache;
  if (has_trait(op, kChecksContents) || (integers && has_trait(op, kChecksIntegers))) return false;
  auto [it, is_new] = cache.emplace(op, false);
  if (is_new)
    it->second = !is_mutable(op) && !has_effect(op) && !has_data_dependent_shape(op) &&
                 (has_trait(op, kAnyContents) || is_elementwise(op) ||
                  (is_view(op) && (op.ns() == "aten" || op.ns() == "fulgurite")));
  return it->second;
}

bool runs_with_any_number(const ir::Op& op) {
  return is_elementwise(op) && !has_trait(op, kChecksNumbers);
}

bool keeps_offset(const ir::Op& op) { return has_trait(op, kKeepsOffset); }
bool shares_memory_secretly(const ir::Op& op) { return has_trait(op, kSharesMemory); }

bool has_own_history(const ir::Op& op) { return has_trait(op, kOwnHistory); }

bool returns_fresh_memory(const ir::Op& op) {
  if (op.ns() != "aten") return false;  // a custom operator may return what it was given
  if (shares_memory_secretly(op)) return false;
  for (const auto& r : op.schema().returns())
    if (r.alias_info() != nullptr) return false;
  return true;
}

}  // namespace fulgurite::ops
