#include "passes/overwritten_needs.h"

#include <algorithm>

namespace fulgurite::passes {

using ir::Bind;
using ir::kNoValue;
using ir::TensorType;
using ir::ValueId;

namespace {

// Since bind `index` used it. An in-place operator saves what it needs of its own (first)
// argument before it writes, of others not.
bool is_after(int64_t time, const Bind& bind, size_t index, bool other_argument) {
  const auto own = 2 * static_cast<int64_t>(index);
  return time > own ||
         (time == own && other_argument && !std::holds_alternative<ir::ValueList>(bind.args[0]));
}

}  // namespace

std::optional<OverwrittenNeeds::Need> OverwrittenNeeds::of_rule(const Rule& rule,
                                                                const Use& use) const {
  const Bind& bind = in_.binds[use.index];
  for (const auto& [source, i] : rule.inputs) {
    if (source != Rule::Source::Argument && source != Rule::Source::Result) continue;
    const ValueId id = source == Rule::Source::Argument ? use.arguments.at(i) : use.results.at(i);
    if (id == kNoValue) continue;
    const bool other = source == Rule::Source::Argument && i > 0;
    const Overwriting& o = overwritten_[id];
    if (is_after(o.last, bind, use.index, other))
      return Need{id, is_after(o.last_counted, bind, use.index, other)};
  }
  return std::nullopt;
}

std::optional<OverwrittenNeeds::Need> OverwrittenNeeds::of_node(const std::vector<bool>& wanted,
                                                                const Use& use) const {
  auto is_overwritten = [&](ValueId id) { return id != kNoValue && overwritten_[id].last >= 0; };
  const bool any = std::any_of(use.arguments.begin(), use.arguments.end(), is_overwritten) ||
                   std::any_of(use.results.begin(), use.results.end(), is_overwritten);
  if (!any || use.results.size() < 2) return std::nullopt;
  std::vector<const TensorType*> cotangents;
  for (ValueId r : use.results) {
    const bool has_gradient = r != kNoValue && in_.value(r).tensor().requires_grad;
    cotangents.push_back(has_gradient ? &in_.value(r).tensor() : nullptr);
  }
  return of_rule(*derive(in_, in_.binds[use.index], cotangents, wanted), use);
}

}  // namespace fulgurite::passes
