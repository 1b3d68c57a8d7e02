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
#include "passes/gradient_parts.h"
#include "passes/reinplace.h"
#include "passes/simplify.h"
#include "passes/slice.h"
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
std::vector<ir::ValueId> read_later(const Lowered& low, const std::vector<ir::ValueId>& attached) {
  std::vector<ir::ValueId> ids = attached;
  for (const LeafWrite& w : low.leaf_writes) ids.insert(ids.end(), {w.result, w.source});
  return ids;
}

bool has_steps(const ir::Trace& t) {
  return std::any_of(t.binds.begin(), t.binds.end(),
                     [](const ir::Bind& b) { return ops::has_own_history(b.op); });
}

// One part of the program's gradient, before the passes that are particular to a backward. `whole`:
// there is no other, and no step between.
GradientPart make_part(const Joint& joint, const ir::TracePtr& functional, const ir::Trace& forward,
                       const ir::TracePtr& backward, size_t k, Range cotangents, Range gradients,
                       bool whole) {
  GradientPart part;
  part.attached = joint.parts[k].attached;
  part.differentiable = joint.parts[k].differentiable;
  if (whole) {
    part.saved = forward.saved;
    part.backward = backward;
    part.functional = functional;
    part.inputs = functional->inputs;
    part.functional_attached = part.attached;
    part.user_rules = joint.user_rules;
  } else {
    BackwardSlice back = slice_backward(*backward, gradients, cotangents);
    for (size_t s : back.saved) part.saved.push_back(forward.saved[s]);
    part.backward = std::move(back.trace);
    FunctionalSlice again = slice_functional(*functional, joint, k);
    part.functional = std::move(again.trace);
    part.inputs = std::move(again.inputs);
    part.functional_attached = std::move(again.attached);
    part.user_rules = std::move(again.user_rules);
  }
  part.differentiable_backward = part.backward;
  return part;
}

// What the parts do together, as one program of forward and backward for people to read.
void keep_to_read(Lowered& low, const Functionalized& functional) {
  Joint joint = differentiate(functional, /*to_read=*/true);
  low.stages.push_back({"differentiate", joint.trace, 0});
  if (joint.parts.empty()) return;
  joint.trace = simplify(joint.trace);
  low.backward_stages.push_back({"as one", simplify(split(joint).backward), 0});
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
  Functionalized functional =
      functionalize(*recorded, options.write_back_at_once, options.shared, options.views);
  keep(low.stages, "functionalize", functional.trace);
  low.functional = functional.trace;
  low.operators = operators_of({recorded.get(), functional.trace.get()});

  const std::vector<ir::ValueId> kept = attached_values(*functional.trace);
  const bool separate =
      kept.size() > 1 && (options.separate_parts || depend_on_each_other(*functional.trace, kept));
  const bool steps = separate || has_steps(*functional.trace);
  if (kept.empty() && !steps) {
    ir::TracePtr t = keep(low.stages, "simplify", simplify(functional.trace));
    low.leaf_writes = leaf_writes(*t, {});
    const std::vector<ir::ValueId> later = read_later(low, {});
    t = claim(low.stages, low.claims, t, later);
    low.forward = options.reinplace ? keep(low.stages, "reinplace", reinplace(t, later)) : t;
    return low;
  }

  if (steps) keep_to_read(low, functional);
  Joint joint = differentiate(functional, /*to_read=*/false, separate);
  if (!steps) keep(low.stages, "differentiate", joint.trace);
  joint.trace = simplify(joint.trace);
  if (!steps) keep(low.stages, "simplify", joint.trace);
  SplitTraces split_traces = split(joint);
  keep(low.stages, "split", split_traces.forward);
  std::vector<ir::ValueId> attached;
  for (const NodeValues& n : joint.parts)
    attached.insert(attached.end(), n.attached.begin(), n.attached.end());
  low.leaf_writes = leaf_writes(*split_traces.forward, attached);
  const std::vector<ir::ValueId> later = read_later(low, attached);
  low.forward = claim(low.stages, low.claims, split_traces.forward, later);
  if (options.reinplace) low.forward = keep(low.stages, "reinplace", reinplace(low.forward, later));

  const ir::TracePtr backward = simplify(split_traces.backward);
  if (!steps) {
    keep(low.backward_stages, "split", split_traces.backward);
    keep(low.backward_stages, "simplify", backward);
  }
  const bool whole = joint.parts.size() == 1 && !steps;
  Range cotangents{0, 0}, gradients{0, 0};
  for (size_t k = 0; k < joint.parts.size(); ++k) {
    cotangents = {cotangents.end, cotangents.end + joint.parts[k].attached.size()};
    gradients = {gradients.end, gradients.end + joint.parts[k].differentiable.size()};
    GradientPart part = make_part(joint, functional.trace, *split_traces.forward, backward, k,
                                  cotangents, gradients, whole);
    if (!whole) keep(low.backward_stages, "part", part.backward);
    std::vector<Claim> claims;
    part.backward = part.claimed_backward = claim(low.backward_stages, claims, part.backward, {});
    low.backward_claims.insert(low.backward_claims.end(), claims.begin(), claims.end());
    if (options.reinplace)
      part.backward = keep(low.backward_stages, "reinplace", reinplace(part.backward));
    low.parts.push_back(std::move(part));
  }
  return low;
}

}  // namespace fulgurite::passes
