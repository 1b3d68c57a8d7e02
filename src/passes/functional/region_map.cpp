#include "passes/functional/region_map.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ops/traits.h"

namespace fulgurite::passes {

using ir::Arg;
using ir::kNoValue;
using ir::Result;
using ir::ValueId;
using ir::ValueList;

RegionMap::RegionMap(const ir::Trace& recorded, Emitter& e, Variables& vars)
    : in_(recorded), e_(e), vars_(vars) {
  const size_t n = in_.regions.size();
  region_ids_.assign(n, -1);
  first_bind_.assign(n, in_.binds.size());
  last_bind_.assign(n, 0);
  for (size_t i = 0; i < in_.binds.size(); ++i) {
    for (int32_t g = in_.binds[i].region; g >= 0; g = in_.regions[g].parent) {
      first_bind_[g] = std::min(first_bind_[g], i);
      last_bind_[g] = i;
    }
  }
}

void RegionMap::enter(size_t i) {
  std::vector<int32_t> opening;
  for (int32_t g = in_.binds[i].region; g >= 0; g = in_.regions[g].parent)
    if (first_bind_[g] == i) opening.push_back(g);
  std::reverse(opening.begin(), opening.end());
  e_.region = -1;
  for (int32_t g = in_.binds[i].region; g >= 0 && e_.region < 0; g = in_.regions[g].parent)
    e_.region = region_ids_[g];
  for (int32_t g : opening) {
    const ir::Region& r = in_.regions[g];
    if (ops::is_mutable(r.op)) continue;
    bool known = true;
    for (const Arg& a : r.args)
      ir::for_each_value(a, [&](ValueId id) {
        known =
            known && (in_.value(id).is_tensor() ? vars_.of(id) >= 0 : vars_.numbers.count(id) > 0);
      });
    if (!known) continue;
    ir::Region copy{r.op, {}, {}, r.location, e_.region, r.module};
    for (const Arg& a : r.args) copy.args.push_back(vars_.mapped(a));
    region_ids_[g] = e_.region = e_.b.add_region(std::move(copy));
  }
}

void RegionMap::leave(size_t i) {
  for (int32_t g = in_.binds[i].region; g >= 0; g = in_.regions[g].parent) {
    if (last_bind_[g] != i || region_ids_[g] < 0) continue;
    ir::Region& copy = e_.b.trace().regions[region_ids_[g]];
    for (const Result& r : in_.regions[g].results) {
      Result m = r;
      auto one = [&](ValueId id) {
        if (id == kNoValue || !in_.value(id).is_tensor() || vars_.of(id) < 0) return kNoValue;
        const Variable& v = vars_[vars_.of(id)];
        return v.current;
      };
      if (auto* id = std::get_if<ValueId>(&m)) *id = one(*id);
      if (auto* list = std::get_if<ValueList>(&m))
        for (ValueId& id : *list) id = one(id);
      copy.results.push_back(std::move(m));
    }
  }
}

}  // namespace fulgurite::passes
