// The only way to make a Trace. A builder owns the trace until `finish`, which verifies it.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/trace.h"

namespace fulgurite::ir {

// A pass that removes, merges or moves binds need not look after regions: results of a region that
// no longer exist become kNoValue, and a region whose arguments are gone or whose binds are no
// longer contiguous is dissolved (its binds go to its parent), since it says nothing about the
// program.
void settle_regions(Trace& trace);

class TraceBuilder {
 public:
  TraceBuilder(std::string name, std::string stage);
  // Starts with inputs, constants, locations and regions of `from`, but no binds: for passes that
  // rebuild a trace. Values keep their ids, so arguments can be taken over as they are.
  TraceBuilder(const Trace& from, std::string stage);

  ValueId add_input(Value value);
  ValueId add_constant(at::Tensor contents, const std::string& hint = "c");
  ValueId add_value(
      Value value);  // a result, to be defined by a later bind; empty name: a fresh "tN"
  // Copies type and storage of `like`, with a fresh name.
  ValueId add_like(const Value& like);

  int32_t add_location(const SourceLocation& location);
  int32_t add_region(Region region);

  // Puts the arguments in normal form (schema_args.h) and fills in defaults left off at the end.
  size_t add_bind(Bind bind);
  void begin_epilogue() {
    trace_.epilogue = trace_.binds.size();
    in_epilogue_ = true;
  }

  Trace& trace() { return trace_; }
  const Value& value(ValueId id) const { return trace_.value(id); }

  TracePtr finish();  // settles regions, verifies; the builder is empty afterwards

 private:
  ValueId append(Value value);
  std::string unique_name(const std::string& wanted);  // `wanted` itself if it is free
  std::string fresh_name(const std::string& hint);     // always numbered: "t0", "t1", ...

  Trace trace_;
  bool in_epilogue_ = false;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int> next_;
  std::unordered_map<std::string, int32_t> location_ids_;
};

}  // namespace fulgurite::ir
