#include "passes/pipeline.h"

#include <chrono>

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

}  // namespace

Lowered run_pipeline(const ir::TracePtr& recorded, const PipelineOptions& options) {
  Lowered low;
  Clock clock;
  auto keep = [&](std::vector<Stage>& stages, const char* name, const ir::TracePtr& trace) {
    stages.push_back({name, trace, clock.lap()});
    return trace;
  };
  auto claim = [&](std::vector<Stage>& stages, std::vector<Claim>& claims,
                   const ir::TracePtr& trace, const std::vector<ir::ValueId>& read_later) {
    if (!options.claim) return trace;
    Claimed claimed = options.claim(trace, read_later);
    claims = std::move(claimed.claims);
    low.kept.insert(low.kept.end(), claimed.kept.begin(), claimed.kept.end());
    return claims.empty() ? trace : keep(stages, "claim", claimed.trace);
  };
  keep(low.stages, "recorded", recorded);

  check_memory_is_written(*recorded);
  Functionalized functional = functionalize(*recorded);
  keep(low.stages, "functionalize", functional.trace);
  low.functional = functional.trace;
  low.functional_attached = attached_values(*functional.trace);

  if (low.functional_attached.empty()) {
    ir::TracePtr t = keep(low.stages, "simplify", simplify(functional.trace));
    t = claim(low.stages, low.claims, t, {});
    low.forward = options.reinplace ? keep(low.stages, "reinplace", reinplace(t)) : t;
    return low;
  }

  Joint joint = differentiate(functional);
  keep(low.stages, "differentiate", joint.trace);
  joint.trace = keep(low.stages, "simplify", simplify(joint.trace));
  SplitTraces parts = split(joint);
  keep(low.stages, "split", parts.forward);
  keep(low.backward_stages, "split", parts.backward);
  low.attached = parts.attached;
  low.differentiable = parts.differentiable;
  low.backward = keep(low.backward_stages, "simplify", simplify(parts.backward));
  low.unclaimed_backward = low.backward;
  low.forward = claim(low.stages, low.claims, parts.forward, low.attached);
  low.backward = claim(low.backward_stages, low.backward_claims, low.backward, {});
  if (options.reinplace) {
    low.forward = keep(low.stages, "reinplace", reinplace(low.forward));
    low.backward = keep(low.backward_stages, "reinplace", reinplace(low.backward));
  }
  return low;
}

}  // namespace fulgurite::passes
