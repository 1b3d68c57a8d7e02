#include "passes/check_memory.h"

#include <algorithm>
#include <unordered_set>

#include "ir/errors.h"
#include "ops/memory.h"
#include "ops/traits.h"

namespace fulgurite::passes {
void check_memory_is_written(const ir::Trace& trace) {
  std::unordered_set<int32_t> unwritten;  // storages
  auto is_unwritten = [&](ir::ValueId id) {
    const ir::Value& v = trace.value(id);
    return v.storage >= 0 && unwritten.count(v.storage) > 0 && v.is_tensor() &&
           v.tensor().numel() > 0;
  };
  auto refuse = [](const std::string& what) {
    throw Refusal("FG-211", what +
                                " memory that was allocated in the call and that no operator "
                                "wrote: at::tensor({...}) and "
                                "writes through data_ptr() cannot be recorded; make such a tensor "
                                "outside and pass it as an "
                                "argument");
  };
  for (const ir::Bind& b : trace.binds) {
    for (std::size_t i = 0; i < b.args.size(); ++i) {
      ir::for_each_value(b.args[i], [&](ir::ValueId id) {
        if (ops::overwrites_argument(b.op, i)) {  // an empty out= is resized first
          unwritten.erase(trace.value(id).storage);
          return;
        }
        if (!is_unwritten(id)) return;
        if (!ops::ignores_contents(b.op)) {
          refuse(b.op.id() + " reads");
        }
      });
    }
    if (ops::leaves_memory_uninitialised(b.op))
      ir::for_each_result(b, [&](ir::ValueId id) {
        if (trace.value(id).storage >= 0) unwritten.insert(trace.value(id).storage);
      });
  }
  for (ir::ValueId id : trace.outputs)
    if (id != ir::kNoValue && is_unwritten(id)) refuse("the function returns");
}

}  // namespace fulgurite::passes
