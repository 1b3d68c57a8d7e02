// Regions (composite operators around their parts) of the functional trace. A region is carried
// over if what it takes and gives can be named when it begins and ends.
#pragma once

#include <vector>

#include "passes/functional/variables.h"

namespace fulgurite::passes {

class RegionMap {
 public:
  RegionMap(const ir::Trace& recorded, Emitter& e, Variables& vars);
  // Before and after recorded bind `i` is carried over; sets the emitter's region.
  void enter(size_t i);
  void leave(size_t i);

 private:
  const ir::Trace& in_;
  Emitter& e_;
  Variables& vars_;
  std::vector<int32_t> region_ids_;
  std::vector<size_t> first_bind_, last_bind_;
};

}  // namespace fulgurite::passes
