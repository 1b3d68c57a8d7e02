// Making traces. `add_*` keep names unique and arguments in normal form; `finish` settles the
// regions and verifies.
#include "ir/builder.h"

#include <ATen/core/Tensor.h>

#include <utility>

#include "ir/errors.h"
#include "ir/names.h"
#include "ir/schema_args.h"

namespace fulgurite::ir {
namespace {

std::string location_key(const SourceLocation& location) {
  return location.file + ":" + std::to_string(location.line);
}

}  // namespace

TraceBuilder::TraceBuilder(std::string name, std::string stage) {
  trace_.name = usable_name(name);
  trace_.stage = std::move(stage);
}

TraceBuilder::TraceBuilder(const Trace& from, std::string stage) {
  trace_.kind = from.kind;
  trace_.name = from.name;
  trace_.stage = std::move(stage);
  trace_.functional = from.functional;
  trace_.values = from.values;
  trace_.inputs = from.inputs;
  trace_.outputs = from.outputs;
  trace_.output_template = from.output_template;
  trace_.saved = from.saved;
  trace_.num_saved_inputs = from.num_saved_inputs;
  trace_.regions = from.regions;
  trace_.locations = from.locations;
  trace_.binds.reserve(from.binds.size());
  for (const Value& value : trace_.values) names_.insert(value.name);
  for (size_t i = 0; i < trace_.locations.size(); ++i)
    location_ids_.emplace(location_key(trace_.locations[i]), static_cast<int32_t>(i));
}

ValueId TraceBuilder::append(Value value) {
  trace_.values.push_back(std::move(value));
  return static_cast<ValueId>(trace_.values.size() - 1);
}

ValueId TraceBuilder::add_input(Value value) {
  value.kind = ValueKind::Input;
  value.name = value.name.empty() ? fresh_name("a") : unique_name(value.name);
  const ValueId id = append(std::move(value));
  trace_.inputs.push_back(id);
  return id;
}

ValueId TraceBuilder::add_constant(at::Tensor contents, const std::string& hint) {
  Value value;
  value.kind = ValueKind::Constant;
  value.name = hint == "c" ? fresh_name("c") : unique_name(hint);
  value.type = type_of(contents);
  value.offset = contents.layout() == at::kStrided ? contents.storage_offset() : 0;
  value.constant = std::move(contents);
  return append(std::move(value));
}

ValueId TraceBuilder::add_value(Value value) {
  value.kind = ValueKind::Result;
  value.name = value.name.empty() ? fresh_name("t") : unique_name(value.name);
  return append(std::move(value));
}

ValueId TraceBuilder::add_like(const Value& like) {
  Value value;
  value.type = like.type;
  value.storage = like.storage;
  value.offset = like.offset;
  return add_value(std::move(value));
}

int32_t TraceBuilder::add_location(const SourceLocation& location) {
  const auto [it, is_new] =
      location_ids_.emplace(location_key(location), static_cast<int32_t>(trace_.locations.size()));
  if (is_new) trace_.locations.push_back(location);
  return it->second;
}

int32_t TraceBuilder::add_region(Region region) {
  normalize_args(region.args, region.op.schema());
  trace_.regions.push_back(std::move(region));
  return static_cast<int32_t>(trace_.regions.size() - 1);
}

size_t TraceBuilder::add_bind(Bind bind) {
  normalize_args(bind.args, bind.op.schema());
  trace_.binds.push_back(std::move(bind));
  return trace_.binds.size() - 1;
}

TracePtr TraceBuilder::finish() {
  if (!in_epilogue_) trace_.epilogue = trace_.binds.size();
  settle_regions(trace_);
  verify(trace_);
  auto result = std::make_shared<const Trace>(std::move(trace_));
  *this = TraceBuilder("", "");
  return result;
}

std::string TraceBuilder::unique_name(const std::string& wanted) {
  std::string name = usable_name(wanted);
  if (names_.insert(name).second) return name;
  return fresh_name(name + "_");
}

std::string TraceBuilder::fresh_name(const std::string& hint) {
  int& next = next_[hint];
  for (;;) {
    std::string name = hint + std::to_string(next++);
    if (names_.insert(name).second) return name;
  }
}

}  // namespace fulgurite::ir
