// Are two traces the same program? Values are matched by their names, which are unique; regions by
// the order in which binds enter them; storages by a one-to-one renaming.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_map>

#include "ir/constants.h"
#include "ir/literal.h"
#include "ir/result_text.h"
#include "ir/storage_text.h"
#include "ir/text.h"

namespace fulgurite::ir {
namespace {

class Comparison {
 public:
  Comparison(const Trace& a, const Trace& b) : a_(a), b_(b) {}

  // "" if they are identical.
  std::string run() {
    if (a_.kind != b_.kind) return "the kinds differ";
    if (a_.name != b_.name) return differ("the names", a_.name, b_.name);
    if (a_.stage != b_.stage) return differ("the stages", a_.stage, b_.stage);
    if (a_.functional != b_.functional) return "only one of them is functional";
    if (std::string why = values(); !why.empty()) return why;
    if (a_.binds.size() != b_.binds.size())
      return differ("the numbers of binds", std::to_string(a_.binds.size()),
                    std::to_string(b_.binds.size()));
    for (size_t i = 0; i < a_.binds.size(); ++i)
      if (std::string why = bind(a_.binds[i], b_.binds[i]); !why.empty())
        return "bind " + std::to_string(i) + ", " + a_.binds[i].op.id() + ": " + why;
    if (a_.epilogue != b_.epilogue) return "the epilogues start at different binds";
    if (names(a_, a_.inputs) != names(b_, b_.inputs))
      return differ("the inputs", tuple_text(names(a_, a_.inputs)),
                    tuple_text(names(b_, b_.inputs)));
    if (names(a_, a_.outputs) != names(b_, b_.outputs))
      return differ("the outputs", tuple_text(names(a_, a_.outputs)),
                    tuple_text(names(b_, b_.outputs)));
    if (a_.output_template != b_.output_template)
      return differ("the results", a_.output_template, b_.output_template);
    if (names(a_, a_.saved) != names(b_, b_.saved)) return "the saved values differ";
    if (a_.num_saved_inputs != b_.num_saved_inputs) return "the numbers of saved inputs differ";
    return "";
  }

 private:
  static std::string differ(const std::string& what, const std::string& a, const std::string& b) {
    return what + " differ: '" + a + "' and '" + b + "'";
  }

  static std::vector<std::string> names(const Trace& trace, const std::vector<ValueId>& ids) {
    std::vector<std::string> result;
    for (ValueId id : ids) result.push_back(name_or_none(trace, id));
    return result;
  }

  std::string values() {
    const std::vector<std::string> marks_a = storage_marks(a_);
    const std::vector<std::string> marks_b = storage_marks(b_);
    std::unordered_map<std::string_view, ValueId> in_b;
    const std::vector<ValueId> live_b = live_values(b_);
    for (ValueId id : live_b) in_b.emplace(b_.value(id).name, id);
    const std::vector<ValueId> live_a = live_values(a_);
    for (ValueId id : live_a) {
      const Value& x = a_.value(id);
      const auto found = in_b.find(x.name);
      if (found == in_b.end()) return "only the first has the value '" + x.name + "'";
      same_[id] = found->second;
      const Value& y = b_.value(found->second);
      if (x.kind != y.kind) return "'" + x.name + "' is of different kinds";
      if (x.type != y.type)
        return differ("the types of '" + x.name + "'", type_text(x), type_text(y));
      if (marks_a[static_cast<size_t>(id)] != marks_b[static_cast<size_t>(found->second)])
        return differ("the storages of '" + x.name + "'", marks_a[static_cast<size_t>(id)],
                      marks_b[static_cast<size_t>(found->second)]);
      if (x.kind == ValueKind::Constant && constant_bytes(x.constant) != constant_bytes(y.constant))
        return "the constants '" + x.name + "' differ";
    }
    if (live_a.size() != live_b.size())
      return differ("the numbers of values", std::to_string(live_a.size()),
                    std::to_string(live_b.size()));
    return "";
  }

  ValueId translated(ValueId id) const {
    if (id == kNoValue) return id;
    const auto found = same_.find(id);
    return found == same_.end() ? -2 : found->second;
  }
  template <class ArgOrResult>
  ArgOrResult translated(ArgOrResult item) const {
    if (auto* id = std::get_if<ValueId>(&item)) {
      *id = translated(*id);
    } else if (auto* list = std::get_if<ValueList>(&item)) {
      for (ValueId& one : *list) one = translated(one);
    }
    return item;
  }

  template <class Call>
  std::string call(const Call& x, const Call& y) const {
    if (!(x.op == y.op)) return differ("the operators", x.op.id(), y.op.id());
    if (x.args.size() != y.args.size()) return "the numbers of arguments differ";
    for (size_t i = 0; i < x.args.size(); ++i)
      if (!same_arg(translated(x.args[i]), y.args[i]))
        return "the arguments '" + x.op.schema().arguments().at(i).name() + "' differ";
    if (x.results.size() != y.results.size()) return "the numbers of results differ";
    for (size_t i = 0; i < x.results.size(); ++i)
      if (translated(x.results[i]) != y.results[i]) return "the results differ";
    const std::string at_x = location(a_, x.location);
    const std::string at_y = location(b_, y.location);
    return at_x == at_y ? "" : differ("the locations", at_x, at_y);
  }

  static std::string location(const Trace& trace, int32_t index) {
    if (index < 0) return "";
    const SourceLocation& at = trace.locations[static_cast<size_t>(index)];
    return at.file + ":" + std::to_string(at.line);
  }

  std::string bind(const Bind& x, const Bind& y) {
    if (std::string why = call(x, y); !why.empty()) return why;
    if (x.grad_mode != y.grad_mode) return "the grad modes differ";
    return region(x.region, y.region);
  }

  std::string region(int32_t x, int32_t y) {
    if ((x < 0) != (y < 0)) return "only one of them is in a region";
    if (x < 0) return "";
    const auto [known, is_new] = regions_.emplace(x, y);
    const bool is_new_too = regions_back_.emplace(y, x).second;
    if (known->second != y || is_new != is_new_too) return "they are in different regions";
    if (!is_new) return "";
    const Region& rx = a_.regions[static_cast<size_t>(x)];
    const Region& ry = b_.regions[static_cast<size_t>(y)];
    if (rx.module != ry.module) return differ("the modules of the regions", rx.module, ry.module);
    if (std::string why = call(rx, ry); !why.empty()) return "in its region, " + why;
    return region(rx.parent, ry.parent);
  }

  const Trace& a_;
  const Trace& b_;
  std::unordered_map<ValueId, ValueId> same_;
  std::unordered_map<int32_t, int32_t> regions_;
  std::unordered_map<int32_t, int32_t> regions_back_;
};

}  // namespace

bool identical(const Trace& a, const Trace& b, std::string* difference) {
  const std::string why = Comparison(a, b).run();
  if (difference != nullptr) *difference = why;
  return why.empty();
}

}  // namespace fulgurite::ir
