// Values of a trace that become one, because they live in one memory.
#pragma once

#include <vector>

#include "ir/builder.h"

namespace fulgurite::passes {

class Renaming {
 public:
  explicit Renaming(size_t values) : now_(values) {
    for (size_t i = 0; i < values; ++i) now_[i] = static_cast<ir::ValueId>(i);
  }

  // What is said of `id` is said of `other` from now on, whatever that is called by then.
  void rename(ir::ValueId id, ir::ValueId other) { now_[of(id)] = other; }

  ir::ValueId of(ir::ValueId id) const {
    if (id == ir::kNoValue) return id;
    while (now_[id] != id) id = now_[id];
    return id;
  }
  template <class ArgOrResult>
  ArgOrResult of_all(const ArgOrResult& a) const {
    ArgOrResult copy = a;
    if (auto* id = std::get_if<ir::ValueId>(&copy)) *id = of(*id);
    if (auto* list = std::get_if<ir::ValueList>(&copy))
      for (ir::ValueId& id : *list) id = of(id);
    return copy;
  }
  ir::Bind of_bind(const ir::Bind& b) const {
    ir::Bind copy = b;
    for (ir::Arg& a : copy.args) a = of_all(a);
    for (ir::Result& r : copy.results) r = of_all(r);
    return copy;
  }
  void apply_to_regions(ir::TraceBuilder& b) const {
    for (ir::Region& r : b.trace().regions) {
      for (ir::Arg& a : r.args) a = of_all(a);
      for (ir::Result& x : r.results) x = of_all(x);
    }
  }

 private:
  std::vector<ir::ValueId> now_;
};

}  // namespace fulgurite::passes
