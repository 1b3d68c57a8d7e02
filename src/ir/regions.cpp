#include "ir/regions.h"

#include <algorithm>

#include "ir/builder.h"

namespace fulgurite::ir {
namespace {

bool defined_before(const std::vector<size_t>& points, ValueId id, size_t bind) {
  return static_cast<size_t>(id) < points.size() && points[static_cast<size_t>(id)] <= bind;
}

// True if every argument is defined before the region's first bind.
bool args_available(const Region& region, const RegionSpan& span,
                    const std::vector<size_t>& points) {
  bool ok = true;
  for (const Arg& arg : region.args)
    for_each_value(arg, [&](ValueId id) { ok = ok && defined_before(points, id, span.first); });
  return ok;
}

void forget_lost_results(Region& region, const RegionSpan& span,
                         const std::vector<size_t>& points) {
  auto settle = [&](ValueId& id) {
    if (id != kNoValue && !defined_before(points, id, span.last)) id = kNoValue;
  };
  for (Result& result : region.results) {
    if (auto* id = std::get_if<ValueId>(&result)) {
      settle(*id);
    } else {
      for (ValueId& item : std::get<ValueList>(result)) settle(item);
    }
  }
}

void dissolve(Trace& trace, size_t index) {
  const auto region = static_cast<int32_t>(index);
  const int32_t parent = trace.regions[index].parent;
  for (Bind& bind : trace.binds)
    if (bind.region == region) bind.region = parent;
  for (Region& inner : trace.regions)
    if (inner.parent == region) inner.parent = parent;
}

}  // namespace

std::vector<RegionSpan> region_spans(const Trace& trace) {
  std::vector<RegionSpan> spans(trace.regions.size());
  for (size_t i = 0; i < trace.binds.size(); ++i) {
    auto r = static_cast<size_t>(trace.binds[i].region);
    // -1 ends the way up; an index that does not exist is the verifier's to report.
    for (; r < spans.size(); r = static_cast<size_t>(trace.regions[r].parent)) {
      RegionSpan& span = spans[r];
      if (span.count++ == 0) span.first = i;
      span.last = i + 1;
    }
  }
  return spans;
}

std::vector<size_t> definition_points(const Trace& trace) {
  std::vector<size_t> points(trace.values.size(), kNeverDefined);
  for (ValueId id : trace.inputs)
    if (static_cast<size_t>(id) < points.size()) points[static_cast<size_t>(id)] = 0;
  for (size_t i = 0; i < trace.values.size(); ++i)
    if (trace.values[i].kind == ValueKind::Constant) points[i] = 0;
  for (size_t i = 0; i < trace.binds.size(); ++i)
    for_each_result(trace.binds[i], [&](ValueId id) {
      if (static_cast<size_t>(id) < points.size()) points[static_cast<size_t>(id)] = i + 1;
    });
  return points;
}

void settle_regions(Trace& trace) {
  if (trace.regions.empty()) return;
  const std::vector<RegionSpan> spans = region_spans(trace);
  const std::vector<size_t> points = definition_points(trace);
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    const RegionSpan& span = spans[i];
    if (span.empty()) continue;
    if (!span.contiguous() || !args_available(trace.regions[i], span, points)) {
      dissolve(trace, i);
    } else {
      forget_lost_results(trace.regions[i], span, points);
    }
  }
}

}  // namespace fulgurite::ir
