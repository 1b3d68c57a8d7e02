#include "passes/pipeline.h"

#include <chrono>
#include <initializer_list>
#include <unordered_set>

#include "ops/rules.h"
#include "passes/check_memory.h"
#include "passes/differentiate.h"
#include "passes/functionalize.h"
#include "passes/reinplace.h"
#include "passes/simplify.h"
#include "passes/split.h"

namespace fulgurite::passes {
namespace {

class Clock {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Every operator whose rule would make another program of this one: composites that a rule would
// keep whole are among the regions. What only the backward runs has no rule of its own there.
std::vector<ir::Op> operators_of(std::initializer_list<const ir::Trace*> traces) {
  std::unordered_set<ir::Op> ops;
  for (const ir::Trace* t : traces) {
    for (const ir::Bind& b : t->binds) ops.insert(b.op);
    for (const ir::Region& r : t->regions) ops.insert(r.op);
  }
  return {ops.begin(), ops.end()};
}

}  // namespace

Lowered run_pipeline(const ir::TracePtr& recorded, const PipelineOptions& options) {
  Lowered low;
  Clock clock;
  low.rules_generation = rules::generation();
  auto keep = [&](std::vector<Stage>& stages, const char* name, const ir::TracePtr& trace) {
    stages.push_back({name, trace, clock.lap()});
    return trace;
  };
  keep(low.stages, "recorded", recorded);

  check_memory_is_written(*recorded);
  Functionalized functional = functionalize(*recorded);
  keep(low.stages, "functionalize", functional.trace);
  low.functional = functional.trace;
  low.functional_attached = attached_values(*functional.trace);

  low.operators = operators_of({recorded.get(), functional.trace.get()});

  if (low.functional_attached.empty()) {
    ir::TracePtr t = keep(low.stages, "simplify", simplify(functional.trace));
    low.forward = options.reinplace ? keep(low.stages, "reinplace", reinplace(t)) : t;
    return low;
  }

  Joint joint = differentiate(functional);
  keep(low.stages, "differentiate", joint.trace);
  low.user_rules = joint.user_rules;
  joint.trace = keep(low.stages, "simplify", simplify(joint.trace));
  SplitTraces parts = split(joint);
  keep(low.stages, "split", parts.forward);
  keep(low.backward_stages, "split", parts.backward);
  low.attached = parts.attached;
  low.differentiable = parts.differentiable;
  low.backward = keep(low.backward_stages, "simplify", simplify(parts.backward));
  low.forward = parts.forward;
  if (options.reinplace) {
    low.forward = keep(low.stages, "reinplace", reinplace(low.forward));
    low.backward = keep(low.backward_stages, "reinplace", reinplace(low.backward));
  }
  return low;
}

}  // namespace fulgurite::passes
