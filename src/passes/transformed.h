// Which values may be conjugate or negative: they show others than their memory holds. Types do not
// say it, and eager does (a copy holds what it shows; view_as_real takes none).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ir/trace.h"
#include "ops/traits.h"

namespace fulgurite::passes {

// Any view of a complex tensor may be one (.H is), and what shows the same memory.
inline std::vector<bool> perhaps_transformed(const ir::Trace& t, size_t end) {
  std::vector<bool> transformed(t.values.size(), false);
  for (size_t i = 0; i < end; ++i) {
    const ir::Bind& b = t.binds[i];
    if (ops::returns_fresh_memory(b.op)) continue;
    bool any = ops::inverse_of_value_view(b.op) != nullptr;
    for_each_arg(b, [&](ir::ValueId id) {
      const ir::Value& v = t.value(id);
      any = any || transformed[id] || (v.is_tensor() && c10::isComplexType(v.tensor().dtype));
    });
    if (any) for_each_result(b, [&](ir::ValueId id) { transformed[id] = true; });
  }
  return transformed;
}

}  // namespace fulgurite::passes
