#include "passes/check_memory.h"

#include <algorithm>
#include <unordered_set>

#include "ir/errors.h"
#include "ops/traits.h"

namespace fulgurite::passes {
namespace {

// Does the bind write this argument without looking at what is there?
bool overwrites(const ir::Bind& b, std::size_t argument) {
  if (!ops::writes_argument(b.op, argument)) return false;
  if (b.op.schema().arguments()[argument].kwarg_only()) return true;  // out=
  const std::string name = b.op.base_name();
  return ops::is_random(b.op) || ops::copies_argument(b.op) || name == "fill_" || name == "zero_";
}

}  // namespace

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
        if (!is_unwritten(id)) return;
        if (overwrites(b, i)) {
          unwritten.erase(trace.value(id).storage);
        } else if (!ops::is_view(b.op) && !ops::leaves_memory_uninitialised(b.op)) {
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
