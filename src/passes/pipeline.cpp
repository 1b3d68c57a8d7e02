#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <unordered_set>

#include "ops/prims.h"
#include "ops/rules.h"
#include "ops/traits.h"
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

// The write-backs in the core of a forward trace.
std::vector<LeafWrite> leaf_writes(const ir::Trace& t, const std::vector<ir::ValueId>& attached) {
  std::vector<LeafWrite> writes;
  std::vector<ir::ValueId> seen_by_others = t.outputs;
  seen_by_others.insert(seen_by_others.end(), attached.begin(), attached.end());
  for (size_t i = t.epilogue; i < t.binds.size(); ++i)
    for_each_arg(t.binds[i], [&](ir::ValueId id) { seen_by_others.push_back(id); });
  std::unordered_set<ir::ValueId> fresh;
  for (size_t i = 0; i < t.epilogue; ++i) {
    const ir::Bind& b = t.binds[i];
    if (ops::returns_fresh_memory(b.op))
      for_each_result(b, [&](ir::ValueId id) { fresh.insert(id); });
    if (!(b.op == prims::copy_())) continue;
    const auto source = std::get<ir::ValueId>(b.args[0]);
    const auto destination = std::get<ir::ValueId>(b.args[1]);
    // A rule's forward may have another one, into a copy of its own.
    if (t.value(destination).kind != ir::ValueKind::Input) continue;
    const bool free =
        fresh.count(source) > 0 &&
        std::find(seen_by_others.begin(), seen_by_others.end(), source) == seen_by_others.end();
    writes.push_back({std::get<ir::ValueId>(b.results[0]), source, destination, free});
  }
  return writes;
}

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

// What is read after the core has run, beside outputs and what is saved.
std::vector<ir::ValueId> read_later(const Lowered& low) {
  std::vector<ir::ValueId> ids = low.attached;
  for (const LeafWrite& w : low.leaf_writes) ids.insert(ids.end(), {w.result, w.source});
  return ids;
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
  Functionalized functional = functionalize(*recorded, options.write_back_at_once, options.shared);
  keep(low.stages, "functionalize", functional.trace);
  low.functional = functional.trace;
  low.functional_attached = attached_values(*functional.trace);

  low.operators = operators_of({recorded.get(), functional.trace.get()});

  if (low.functional_attached.empty()) {
    ir::TracePtr t = keep(low.stages, "simplify", simplify(functional.trace));
    low.leaf_writes = leaf_writes(*t, {});
    t = claim(low.stages, low.claims, t, read_later(low));
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
  low.differentiable_backward = low.backward;
  low.leaf_writes = leaf_writes(*parts.forward, low.attached);
  low.forward = claim(low.stages, low.claims, parts.forward, read_later(low));
  low.backward = claim(low.backward_stages, low.backward_claims, low.backward, {});
  if (options.reinplace) {
    low.forward = keep(low.stages, "reinplace", reinplace(low.forward));
    low.backward = keep(low.backward_stages, "reinplace", reinplace(low.backward));
  }
  return low;
}

}  // namespace fulgurite::passes
