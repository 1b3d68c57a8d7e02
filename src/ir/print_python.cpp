// The printer. It first makes a list of lines, each with its code and the parts of its comment,
// then lays them out in columns. Start at `print_python`; text.h shows the form.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/constants.h"
#include "ir/file_labels.h"
#include "ir/regions.h"
#include "ir/result_text.h"
#include "ir/spelling.h"
#include "ir/storage_text.h"
#include "ir/text.h"

namespace fulgurite::ir {
namespace {

constexpr size_t kMaxCodeColumn = 72;
constexpr size_t kMaxTypeColumn = 40;
constexpr size_t kFooterWidth = 100;

struct Line {
  std::string code;  // with indentation; a comment line if it has no other part
  std::string type;
  std::string mode;
  std::string location;
};

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

bool unpacks_its_inputs(const Trace& trace) {
  return trace.kind == TraceKind::Backward || trace.kind == TraceKind::Rule;
}

class PythonPrinter {
 public:
  PythonPrinter(const Trace& trace, const PrintOptions& options)
      : trace_(trace),
        options_(options),
        spans_(region_spans(trace)),
        marks_(storage_marks(trace)) {
    for (const FileLabel& file : file_labels(trace)) {
      labels_.emplace(file.file, file.label);
      if (options.full_paths) paths_ += "# " + file.label + " is " + file.file + "\n";
    }
    all_no_grad_ = !trace.binds.empty() && std::all_of(trace.binds.begin(), trace.binds.end(),
                                                       [](const Bind& b) { return !b.grad_mode; });
    decorated_ = trace.functional || all_no_grad_;
  }

  std::string text() {
    constants();
    std::vector<Line> constant_lines = std::move(lines_);
    lines_.clear();
    parameters();
    body();
    result();

    std::string text = "# " + trace_.name + ", after " + trace_.stage + ": " +
                       std::to_string(ops_) + (ops_ == 1 ? " op" : " ops") +
                       (trace_.functional ? "" : ", not functional") + "\n" + paths_;
    if (base64_) text += "import base64\n";
    text += "import torch\n";
    if (prims_) text += "import fulgurite\n";
    text += "\n";
    if (!constant_lines.empty()) text += layout(constant_lines) + "\n";
    if (decorated_)
      text += std::string("@torch.no_grad()") + (all_no_grad_ ? "  # as recorded" : "") + "\n";
    text += signature() + layout(lines_) + footer();
    return text;
  }

 private:
  // ---- parts of a line ----

  std::string type_of(ValueId id) const {
    std::string text = type_text(trace_.value(id));
    const std::string& mark = marks_[static_cast<size_t>(id)];
    if (!trace_.functional && mark != "own" && !mark.empty()) text += " @" + mark;
    return text;
  }

  // "f32[2], i64[2] x3"
  template <class Results>
  std::string types_of(const Results& results) const {
    std::vector<std::pair<std::string, int>> types;
    for (const Result& result : results)
      for_each_value(result, [&](ValueId id) {
        std::string type = type_of(id);
        if (!types.empty() && types.back().first == type) {
          ++types.back().second;
        } else {
          types.emplace_back(std::move(type), 1);
        }
      });
    std::string text;
    for (const auto& [type, count] : types)
      text += (text.empty() ? "" : ", ") + type + (count > 1 ? " x" + std::to_string(count) : "");
    return text;
  }

  std::string location_text(int32_t location) const {
    if (!options_.locations || location < 0) return "";
    const SourceLocation& at = trace_.locations[static_cast<size_t>(location)];
    return labels_.at(at.file) + ":" + std::to_string(at.line);
  }

  std::string results_text(const std::vector<Result>& results) const {
    bool named = false;
    std::string text;
    for (const Result& result : results) {
      if (!text.empty()) text += ", ";
      if (const auto* id = std::get_if<ValueId>(&result)) {
        named = named || *id != kNoValue;
        text += *id == kNoValue ? "_" : trace_.value(*id).name;
        continue;
      }
      named = true;
      const auto& list = std::get<ValueList>(result);
      text += "[";
      for (size_t i = 0; i < list.size(); ++i)
        text += std::string(i > 0 ? ", " : "") +
                (list[i] == kNoValue ? "_" : trace_.value(list[i]).name);
      text += "]";
    }
    return named ? text + " = " : "";
  }

  std::string statement(const Op& op, const std::vector<Arg>& args,
                        const std::vector<Result>& results) const {
    return results_text(results) + call_text(spell(op, args, trace_.values), trace_.values);
  }

  void comment(const std::string& text) { lines_.push_back({indent() + "# " + text, "", "", ""}); }
  std::string indent() const { return in_no_grad_ ? "        " : "    "; }

  // ---- the parts of the program ----

  void constants() {
    for (ValueId id : live_values(trace_)) {
      const Value& value = trace_.value(id);
      if (value.kind != ValueKind::Constant) continue;
      base64_ = base64_ || prints_as_base64(value.constant);
      lines_.push_back(
          {value.name + " = " + constant_expression(value.constant, options_.elide_constants),
           options_.types ? type_of(id) : "", "", ""});
    }
  }

  std::string signature() const {
    if (trace_.kind == TraceKind::Backward)
      return "def backward(saved_for_backward, cotangents):\n";
    if (trace_.kind == TraceKind::Rule) return "def rule(saved_for_backward, cotangents):\n";
    std::string text = "def computation(";
    for (size_t i = 0; i < trace_.inputs.size(); ++i) {
      if (i > 0) text += ", ";
      text += trace_.value(trace_.inputs[i]).name;
      if (options_.types) text += ": \"" + type_of(trace_.inputs[i]) + "\"";
    }
    return text + "):\n";
  }

  void parameters() {
    if (!unpacks_its_inputs(trace_)) return;
    size_t tensors = 0;
    size_t numbers = 0;
    for (size_t i = 0; i < trace_.inputs.size(); ++i) {
      const ValueId id = trace_.inputs[i];
      std::string source;
      if (i >= trace_.num_saved_inputs) {
        source = "cotangents[" + std::to_string(i - trace_.num_saved_inputs) + "]";
      } else if (trace_.value(id).is_tensor()) {
        source = "saved_for_backward[0][" + std::to_string(tensors++) + "]";
      } else {
        source = "saved_for_backward[1][" + std::to_string(numbers++) + "]";
      }
      lines_.push_back({"    " + trace_.value(id).name + " = " + source,
                        options_.types ? type_of(id) : "", "", ""});
    }
  }

  void body() {
    std::vector<int32_t> open;  // regions, outermost first
    size_t i = 0;
    while (i < trace_.binds.size()) {
      const Bind& bind = trace_.binds[i];
      std::vector<int32_t> path;
      for (int32_t r = bind.region; r >= 0; r = trace_.regions[static_cast<size_t>(r)].parent)
        path.insert(path.begin(), r);
      int32_t single = -1;
      if (options_.depth > 0) {
        for (size_t level = 0; level < path.size() && single < 0; ++level)
          if (level + 1 >= static_cast<size_t>(options_.depth) && is_enough(path[level])) {
            single = path[level];
            path.resize(level);
          }
      }
      close_regions(open, path);
      if (i == trace_.epilogue) comment("epilogue: what the caller can see");
      open_regions(open, path);
      if (single >= 0) {
        const Region& region = trace_.regions[static_cast<size_t>(single)];
        call(region.op, region.args, region.results, region.location, bind.grad_mode);
        i = spans_[static_cast<size_t>(single)].last;
      } else {
        call(bind.op, bind.args, bind.results, bind.location, bind.grad_mode);
        ++i;
      }
    }
    close_regions(open, {});
    in_no_grad_ = false;
  }

  void close_regions(std::vector<int32_t>& open, const std::vector<int32_t>& path) {
    while (!open.empty() && (open.size() > path.size() || open.back() != path[open.size() - 1])) {
      comment("end");
      open.pop_back();
    }
  }

  void open_regions(std::vector<int32_t>& open, const std::vector<int32_t>& path) {
    for (size_t level = open.size(); level < path.size(); ++level) {
      open.push_back(path[level]);
      const Region& region = trace_.regions[static_cast<size_t>(path[level])];
      std::string text = "region " + statement(region.op, region.args, region.results);
      if (!region.module.empty()) text += "  in " + region.module;
      const std::string at = location_text(region.location);
      comment(text + (at.empty() ? "" : "  " + at));
    }
  }

  void call(const Op& op, const std::vector<Arg>& args, const std::vector<Result>& results,
            int32_t location, bool grad_mode) {
    const bool block = !decorated_ && !grad_mode;
    if (block && !in_no_grad_) lines_.push_back({"    with torch.no_grad():", "", "", ""});
    in_no_grad_ = block;
    ++ops_;
    prims_ = prims_ || op.ns() == "fulgurite";
    lines_.push_back(
        {indent() + statement(op, args, results), options_.types ? types_of(results) : "",
         decorated_ && !all_no_grad_ && !grad_mode ? "no_grad" : "", location_text(location)});
  }

  // True if a call of the region's operator can stand for its binds: what is used later are its
  // results, and these are made inside.
  bool is_enough(int32_t index) {
    const Region& region = trace_.regions[static_cast<size_t>(index)];
    const RegionSpan& span = spans_[static_cast<size_t>(index)];
    if (trace_.epilogue > span.first && trace_.epilogue < span.last) return false;
    if (region.results.size() != region.op.schema().returns().size()) return false;
    // Its parts have been made functional, the composite operator has not.
    if (trace_.functional && span.first < trace_.epilogue && region.op.schema().is_mutable())
      return false;
    if (points_.empty()) prepare_uses();
    std::vector<bool> is_result(trace_.values.size(), false);
    bool enough = true;
    for (const Result& result : region.results)
      for_each_value(result, [&](ValueId id) {
        const size_t point = points_[static_cast<size_t>(id)];
        enough = enough && point > span.first && point <= span.last &&
                 !is_result[static_cast<size_t>(id)];
        is_result[static_cast<size_t>(id)] = true;
      });
    for (size_t i = span.first; i < span.last && enough; ++i) {
      enough = trace_.binds[i].grad_mode == trace_.binds[span.first].grad_mode;
      for_each_result(trace_.binds[i], [&](ValueId id) {
        if (!is_result[static_cast<size_t>(id)] && last_use_[static_cast<size_t>(id)] > span.last)
          enough = false;
      });
    }
    return enough;
  }

  // For every value one more than the index of the last bind that uses it.
  void prepare_uses() {
    points_ = definition_points(trace_);
    last_use_.assign(trace_.values.size(), 0);
    for (size_t i = 0; i < trace_.binds.size(); ++i)
      for_each_arg(trace_.binds[i],
                   [&](ValueId id) { last_use_[static_cast<size_t>(id)] = i + 1; });
    auto use_at_end = [&](ValueId id) {
      if (id != kNoValue) last_use_[static_cast<size_t>(id)] = trace_.binds.size() + 1;
    };
    for (size_t r = 0; r < trace_.regions.size(); ++r)
      for (const Arg& arg : trace_.regions[r].args)
        for_each_value(arg, [&](ValueId id) {
          size_t& last = last_use_[static_cast<size_t>(id)];
          last = std::max(last, spans_[r].empty() ? 0 : spans_[r].first + 1);
        });
    for (ValueId id : trace_.outputs) use_at_end(id);
    for (ValueId id : trace_.saved) use_at_end(id);
  }

  // ---- the end ----

  // Saved values in two tuples, as torch.autograd and Thunder do: tensors, numbers.
  std::vector<ValueId> saved_of_kind(bool tensors) const {
    std::vector<ValueId> ids;
    for (ValueId id : trace_.saved)
      if (trace_.value(id).is_tensor() == tensors) ids.push_back(id);
    return ids;
  }

  std::string names_tuple(const std::vector<ValueId>& ids) const {
    std::vector<std::string> names;
    for (ValueId id : ids) names.push_back(name_or_none(trace_, id));
    return tuple_text(names);
  }

  void result() {
    const std::vector<std::string> names = output_names(trace_);
    if (unpacks_its_inputs(trace_)) {
      lines_.push_back({"    return " + tuple_text(names), "", "", ""});
      if (!trace_.output_template.empty()) notes_ += "# result: " + trace_.output_template + "\n";
      return;
    }
    const std::string output = fill_template(trace_.output_template, names);
    if (guess_template(output, names) != trace_.output_template ||
        trace_.output_template.starts_with(' '))
      notes_ += "# result: " + trace_.output_template + "\n";
    std::string inputs;
    for (ValueId id : trace_.inputs) inputs += (inputs.empty() ? "" : ", ") + trace_.value(id).name;
    std::string line = "    return {'output': " + output + ", 'flat_args': [" + inputs +
                       "], 'flat_output': " + tuple_text(names) + "}";
    if (trace_.kind == TraceKind::AugmentedForward) {
      std::vector<ValueId> tensors = saved_of_kind(true);
      const std::vector<ValueId> numbers = saved_of_kind(false);
      line += ", (" + names_tuple(tensors) + ", " + names_tuple(numbers) + ")";
      tensors.insert(tensors.end(), numbers.begin(), numbers.end());
      if (tensors != trace_.saved) notes_ += "# saved: " + names_tuple(trace_.saved) + "\n";
    }
    lines_.push_back({line, "", "", ""});
  }

  // The storages of a functional trace's values, where they are known.
  std::string footer() const {
    std::string text = notes_;
    if (!trace_.functional || !options_.full_paths) return text;
    std::string line = "# storage:";
    const size_t empty = line.size();
    for (ValueId id : live_values(trace_)) {
      const std::string& mark = marks_[static_cast<size_t>(id)];
      if (mark == "?" || mark.empty()) continue;
      const std::string item = " " + trace_.value(id).name + "=" + mark;
      if (line.size() > empty && line.size() + item.size() > kFooterWidth) {
        text += line + "\n";
        line.resize(empty);
      }
      line += item;
    }
    return line.size() > empty ? text + line + "\n" : text;
  }

  static std::string layout(const std::vector<Line>& lines) {
    size_t code_width = 0;
    size_t type_width = 0;
    for (const Line& line : lines) {
      if (line.type.empty() && line.mode.empty() && line.location.empty()) continue;
      if (line.code.size() <= kMaxCodeColumn) code_width = std::max(code_width, line.code.size());
      if (line.type.size() <= kMaxTypeColumn) type_width = std::max(type_width, line.type.size());
    }
    std::string text;
    for (const Line& line : lines) {
      std::string comment;
      if (!line.type.empty() || !line.location.empty() || !line.mode.empty()) {
        const std::string rest =
            line.mode + (line.mode.empty() || line.location.empty() ? "" : "    ") + line.location;
        comment = rest.empty() ? line.type : padded(line.type, type_width) + "    " + rest;
        comment = padded("", code_width > line.code.size() ? code_width - line.code.size() : 0) +
                  "  # " + comment;
      }
      text += line.code + comment + "\n";
    }
    return text;
  }

  const Trace& trace_;
  const PrintOptions& options_;
  const std::vector<RegionSpan> spans_;
  const std::vector<std::string> marks_;
  std::unordered_map<std::string, std::string> labels_;
  std::string paths_;
  std::vector<size_t> points_;
  std::vector<size_t> last_use_;

  std::vector<Line> lines_;
  std::string notes_;
  size_t ops_ = 0;
  bool all_no_grad_ = false;
  bool decorated_ = false;
  bool in_no_grad_ = false;
  bool prims_ = false;
  bool base64_ = false;
};

}  // namespace

std::string print_python(const Trace& trace, const PrintOptions& options) {
  return PythonPrinter(trace, options).text();
}

}  // namespace fulgurite::ir
