// The rules of trace.h, checked. `verify` walks the trace once; the first fault ends it with a
// message that names the pass and shows the lines around the fault. The lines are written by a
// small printer of its own, since the real one may rely on the very rule that is broken.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <unordered_set>

#include "ir/errors.h"
#include "ir/names.h"
#include "ir/regions.h"
#include "ir/schema_args.h"

namespace fulgurite::ir {
namespace {

constexpr size_t kNoBind = static_cast<size_t>(-1);
constexpr size_t kLinesAround = 3;

std::string raw_name(const Trace& trace, ValueId id) {
  if (id == kNoValue) return "None";
  if (id < 0 || static_cast<size_t>(id) >= trace.values.size())
    return "<" + std::to_string(id) + ">";
  return trace.value(id).name;
}

template <class ArgOrResult>
std::string raw_text(const Trace& trace, const ArgOrResult& a) {
  if (const auto* id = std::get_if<ValueId>(&a)) return raw_name(trace, *id);
  if (const auto* list = std::get_if<ValueList>(&a)) {
    std::string text = "[";
    for (ValueId id : *list) text += (text.size() > 1 ? ", " : "") + raw_name(trace, id);
    return text + "]";
  }
  if constexpr (std::is_same_v<ArgOrResult, Arg>) {
    const auto& v = std::get<c10::IValue>(a);
    if (v.isNone()) return "None";
    if (v.isInt()) return std::to_string(v.toInt());
    if (v.isDouble()) return std::to_string(v.toDouble());
    if (v.isBool()) return v.toBool() ? "True" : "False";
    if (v.isString()) return "'" + v.toStringRef() + "'";
    return "<" + v.tagKind() + ">";
  }
  return "?";
}

std::string raw_line(const Trace& trace, const Bind& bind) {
  std::string line;
  for (const Result& r : bind.results) line += (line.empty() ? "" : ", ") + raw_text(trace, r);
  if (!line.empty()) line += " = ";
  line += bind.op.id() + "(";
  for (size_t i = 0; i < bind.args.size(); ++i)
    line += (i > 0 ? ", " : "") + raw_text(trace, bind.args[i]);
  return line + ")";
}

class Verifier {
 public:
  explicit Verifier(const Trace& trace) : trace_(trace) {}

  void run() {
    check_values();
    check_inputs();
    if (trace_.epilogue > trace_.binds.size()) fault("the epilogue starts after the last bind");
    check_region_tree();
    for (size_t i = 0; i < trace_.binds.size(); ++i) check_bind(i);
    check_regions();
    check_outputs();
  }

 private:
  [[noreturn]] void fault(const std::string& what, size_t bind = kNoBind) const {
    std::string message =
        "the trace of '" + trace_.name + "' after pass '" + trace_.stage + "' is broken: " + what;
    if (!trace_.binds.empty()) {
      const size_t at = bind == kNoBind ? trace_.binds.size() : bind;
      const size_t first = at > kLinesAround ? at - kLinesAround : 0;
      const size_t last = std::min(trace_.binds.size(), at + kLinesAround + 1);
      for (size_t i = first; i < last; ++i)
        message += (i == bind ? "\n  > " : "\n    ") + std::to_string(i) + ": " +
                   raw_line(trace_, trace_.binds[i]);
    }
    throw InternalError(message);
  }

  bool exists(ValueId id) const {
    return id >= 0 && static_cast<size_t>(id) < trace_.values.size();
  }

  void check_values() {
    std::unordered_set<std::string_view> names;
    defined_.assign(trace_.values.size(), false);
    for (size_t i = 0; i < trace_.values.size(); ++i) {
      const Value& value = trace_.values[i];
      if (!is_usable_name(value.name)) fault("'" + value.name + "' cannot be the name of a value");
      if (!names.insert(value.name).second) fault("two values have the name '" + value.name + "'");
      if (value.is_tensor() && value.tensor().sizes.size() != value.tensor().strides.size())
        fault("the value '" + value.name + "' has " + std::to_string(value.tensor().sizes.size()) +
              " sizes, but " + std::to_string(value.tensor().strides.size()) + " strides");
      if (value.kind == ValueKind::Constant) {
        if (!value.constant.defined() || !value.is_tensor())
          fault("the constant '" + value.name + "' has no contents");
        defined_[i] = true;
      }
    }
  }

  void check_inputs() {
    for (ValueId id : trace_.inputs) {
      if (!exists(id)) fault("the input " + std::to_string(id) + " does not exist");
      if (trace_.value(id).kind != ValueKind::Input)
        fault("the input '" + trace_.value(id).name + "' is not marked as an input");
      if (defined_[static_cast<size_t>(id)])
        fault("the input '" + trace_.value(id).name + "' occurs twice");
      defined_[static_cast<size_t>(id)] = true;
    }
  }

  void check_region_tree() {
    for (size_t i = 0; i < trace_.regions.size(); ++i) {
      const int32_t parent = trace_.regions[i].parent;
      if (parent < -1 || parent >= static_cast<int32_t>(i))
        fault("the region " + std::to_string(i) + " has the parent " + std::to_string(parent) +
              "; a parent stands before its regions");
      check_location(trace_.regions[i].location, kNoBind);
    }
  }

  void check_location(int32_t location, size_t bind) const {
    if (location < -1 || location >= static_cast<int32_t>(trace_.locations.size()))
      fault("the location " + std::to_string(location) + " does not exist", bind);
  }

  void use(ValueId id, size_t bind, const char* what) const {
    if (!exists(id))
      fault(std::string(what) + " the value " + std::to_string(id) + ", which does not exist",
            bind);
    if (!defined_[static_cast<size_t>(id)])
      fault(std::string(what) + " '" + trace_.value(id).name + "' before its definition", bind);
  }

  void define(ValueId id, size_t bind) {
    if (!exists(id))
      fault("defines the value " + std::to_string(id) + ", which does not exist", bind);
    const Value& value = trace_.value(id);
    if (defined_[static_cast<size_t>(id)]) fault("'" + value.name + "' is defined twice", bind);
    if (value.kind != ValueKind::Result)
      fault("'" + value.name + "' is a result, but not marked as one", bind);
    defined_[static_cast<size_t>(id)] = true;
  }

  void check_bind(size_t index) {
    const Bind& bind = trace_.binds[index];
    const c10::FunctionSchema& schema = bind.op.schema();
    if (trace_.functional && index < trace_.epilogue && schema.is_mutable())
      check_write(bind, index);
    check_location(bind.location, index);
    if (bind.region < -1 || bind.region >= static_cast<int32_t>(trace_.regions.size()))
      fault("the region " + std::to_string(bind.region) + " does not exist", index);
    for_each_arg(bind, [&](ValueId id) { use(id, index, "uses"); });
    check_call(bind.op, bind.args, bind.results, index);
    for_each_result(bind, [&](ValueId id) { define(id, index); });
  }

  // In the functional part an operator may write only into copies that the trace made for it. The
  // exception is the write-back of a leaf, by copy_ or by what an executor has in its place:
  // gradients pass through it, so it is no part of the epilogue.
  void check_write(const Bind& bind, size_t index) {
    const bool of_program = trace_.kind != TraceKind::Rule && trace_.kind != TraceKind::Backward;
    if (of_program && (bind.op.name() == "fulgurite::copy_" || bind.op.ns() != "aten")) return;
    for (size_t i = 0; i < bind.args.size(); ++i) {
      const auto* alias = bind.op.schema().arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      for_each_value(bind.args[i], [&](ValueId id) {
        if (exists(id) && trace_.value(id).kind != ValueKind::Result)
          fault("the mutable operator " + bind.op.id() +
                    " stands in the functional part and writes the input or constant '" +
                    trace_.value(id).name + "'",
                index);
      });
    }
  }

  void check_call(const Op& op, const std::vector<Arg>& args, const std::vector<Result>& results,
                  size_t index) const {
    const c10::FunctionSchema& schema = op.schema();
    if (args.size() != schema.arguments().size())
      fault(op.id() + " takes " + std::to_string(schema.arguments().size()) + " arguments, not " +
                std::to_string(args.size()),
            index);
    if (results.size() != schema.returns().size())
      fault(op.id() + " has " + std::to_string(schema.returns().size()) + " results, not " +
                std::to_string(results.size()),
            index);
    for (size_t i = 0; i < args.size(); ++i) {
      const std::string why = misfit(args[i], schema.arguments()[i], trace_.values);
      if (!why.empty()) fault(op.id() + ": " + why, index);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string why = misfit(results[i], schema.returns()[i], trace_.values);
      if (!why.empty()) fault(op.id() + ": " + why, index);
    }
  }

  void check_regions() const {
    if (trace_.regions.empty()) return;
    const std::vector<RegionSpan> spans = region_spans(trace_);
    const std::vector<size_t> points = definition_points(trace_);
    for (size_t i = 0; i < trace_.regions.size(); ++i) {
      const RegionSpan& span = spans[i];
      if (span.empty()) continue;  // nothing came from it any more
      const Region& region = trace_.regions[i];
      const std::string name = "the region " + region.op.id();
      if (!span.contiguous()) fault("the binds of " + name + " are not contiguous", span.first);
      auto check_use = [&](ValueId id, size_t at, const char* what) {
        if (!exists(id)) fault(name + " names a value that does not exist", span.first);
        if (points[static_cast<size_t>(id)] > at)
          fault(name + what + " '" + trace_.value(id).name + "' before its definition", span.first);
      };
      for (const Arg& arg : region.args)
        for_each_value(arg, [&](ValueId id) { check_use(id, span.first, " takes"); });
      for (const Result& result : region.results)
        for_each_value(result, [&](ValueId id) { check_use(id, span.last, " returns"); });
      check_call(region.op, region.args, region.results, span.first);
    }
  }

  void check_outputs() const {
    for (ValueId id : trace_.outputs)
      if (id != kNoValue) use(id, kNoBind, "returns");
    for (ValueId id : trace_.saved) use(id, kNoBind, "saves");
    if (!trace_.saved.empty() && trace_.kind != TraceKind::AugmentedForward)
      fault("only an augmented forward saves values");
    const bool is_backward = trace_.kind == TraceKind::Backward || trace_.kind == TraceKind::Rule;
    if (trace_.num_saved_inputs > (is_backward ? trace_.inputs.size() : 0))
      fault("there are " + std::to_string(trace_.num_saved_inputs) + " saved inputs among " +
            std::to_string(is_backward ? trace_.inputs.size() : 0));
    check_output_template();
  }

  void check_output_template() const {
    const std::string& text = trace_.output_template;
    for (size_t i = text.find('$'); i != std::string::npos; i = text.find('$', i + 1)) {
      size_t index = 0;
      size_t end = i + 1;
      for (; end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0; ++end)
        index = index * 10 + static_cast<size_t>(text[end] - '0');
      if (end > i + 1 && index >= trace_.outputs.size())
        fault("the result's template names $" + std::to_string(index) + ", but there are " +
              std::to_string(trace_.outputs.size()) + " outputs");
    }
  }

  const Trace& trace_;
  std::vector<bool> defined_;
};

}  // namespace

void verify(const Trace& trace) { Verifier(trace).run(); }

}  // namespace fulgurite::ir
