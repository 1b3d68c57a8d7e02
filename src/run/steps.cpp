#include "run/steps.h"

#include <ATen/core/Tensor.h>

#include <bit>
#include <cmath>

#include "exec/operators.h"
#include "ir/constants.h"
#include "ir/literal.h"
#include "ir/stack.h"
#include "ir/text.h"
#include "ops/shared_memory.h"
#include "ops/traits.h"
#include "ops/value_guard.h"
#include "passes/memory_groups.h"
#include "run/executor_call.h"

namespace fulgurite::run {
namespace {

using ir::Bind;
using ir::kNoValue;
using ir::ValueId;

constexpr int32_t kUnknown = -1;

bool is_exact(const ir::Literal& literal) {
  if (literal.kind == ir::LiteralKind::Opaque || literal.as_tensor) return false;
  if (std::isnan(literal.real) || std::isnan(literal.imaginary)) return false;
  for (const ir::Literal& item : literal.items)
    if (!is_exact(item)) return false;
  return true;
}

std::string geometry_text(const ir::Value& v) {
  if (!v.is_tensor())
    return "n" + std::to_string(static_cast<int>(std::get<ir::ScalarKind>(v.type)));
  const ir::TensorType& t = v.tensor();
  std::string text = std::to_string(static_cast<int>(t.dtype)) + t.device.str();
  for (int64_t size : t.sizes) text += "," + std::to_string(size);
  text += ";";
  for (int64_t stride : t.strides) text += "," + std::to_string(stride);
  return text;
}

class Numbering {
 public:
  Numbering(const ir::Trace& t, const Plan& core, Numbers& numbers)
      : t_(t),
        core_(core),
        numbers_(numbers),
        groups_(t, t.epilogue),
        holds_(t.values.size(), kUnknown) {}

  Steps run(const std::vector<std::string>& places) {
    find_memory();
    for (size_t i = 0; i < t_.inputs.size(); ++i)
      begin_with(t_.inputs[i], numbers_.of("input " + places.at(i)));
    for (size_t id = 0; id < t_.values.size(); ++id)
      if (t_.values[id].kind == ir::ValueKind::Constant)
        begin_with(static_cast<ValueId>(id), constant(t_.values[id]));
    for (size_t i = 0; i < t_.epilogue; ++i) add(i);
    return std::move(out_);
  }

 private:
  // A group of values on one memory matters if somebody writes it, or if two of its values are
  // kept.
  void find_memory() {
    std::vector<bool> written(t_.values.size(), false), freed(t_.values.size(), false);
    std::vector<int> kept(t_.values.size(), 0);
    for (const Instruction& in : core_.instructions())
      for (int32_t r : in.frees) freed[static_cast<size_t>(r)] = true;
    for (size_t i = 0; i < t_.epilogue; ++i) {
      const Bind& b = t_.binds[i];
      for (size_t a : ops::written_arguments(b))
        ir::for_each_value(b.args[a], [&](ValueId id) { written[group(id)] = true; });
      for_each_result(b, [&](ValueId id) {
        if (!freed[static_cast<size_t>(id)] && t_.value(id).is_tensor()) ++kept[group(id)];
      });
    }
    std::vector<bool> given(t_.values.size(), false);
    for (ValueId id : t_.inputs) given[group(id)] = true;
    out_.first_input_write = t_.epilogue;
    for (size_t i = t_.epilogue; i-- > 0;)
      for (size_t a : ops::written_arguments(t_.binds[i]))
        ir::for_each_value(t_.binds[i].args[a], [&](ValueId id) {
          if (given[group(id)]) out_.first_input_write = i;
        });
    out_.memory.assign(t_.values.size(), -1);
    members_.resize(t_.values.size());
    for (size_t id = 0; id < t_.values.size(); ++id) {
      const size_t g = group(static_cast<ValueId>(id));
      if (!written[g] && kept[g] < 2) continue;
      out_.memory[id] = static_cast<int32_t>(g);
      members_[g].push_back(static_cast<ValueId>(id));
    }
  }

  size_t group(ValueId id) { return static_cast<size_t>(groups_.find(id)); }

  void begin_with(ValueId id, int32_t number) {
    holds_[static_cast<size_t>(id)] = number;
    out_.inputs.emplace_back(id, number);
  }

  int32_t constant(const ir::Value& v) {
    constexpr int64_t kMostElements = 4096;
    if (!v.is_tensor() || v.constant.numel() > kMostElements) return numbers_.unique();
    const std::vector<uint8_t> bytes = ir::constant_bytes(v.constant);
    const std::string text =
        "constant " + geometry_text(v) + ":" + std::string(bytes.begin(), bytes.end());
    return numbers_.of(text + "#" + std::to_string(times_[text]++));
  }

  std::string text_of(const ir::Arg& arg, const c10::TypePtr& type) {
    if (const auto* id = std::get_if<ValueId>(&arg)) return value_text(*id);
    if (const auto* list = std::get_if<ir::ValueList>(&arg)) {
      std::string text = "[";
      for (ValueId id : *list) text += value_text(id) + ",";
      return text + "]";
    }
    const auto& value = std::get<c10::IValue>(arg);
    if (value.isDouble()) return "d" + std::to_string(std::bit_cast<uint64_t>(value.toDouble()));
    if (value.isTensor()) return "!" + std::to_string(numbers_.unique());
    const ir::Literal literal = ir::literal_of(arg, type);
    if (!is_exact(literal)) return "!" + std::to_string(numbers_.unique());
    return ir::literal_text(literal, {});
  }

  // Kernels have other numbers in other programs. What one computes is its group.
  std::string kernel_text(int64_t number) {
    const ir::TracePtr group = exec::group_of_kernel(number);
    if (group == nullptr) return "!" + std::to_string(numbers_.unique());
    ir::PrintOptions options;
    options.locations = false;
    options.full_paths = true;
    return ir::print_python(*group, options);
  }

  std::string value_text(ValueId id) const {
    return id == kNoValue ? "_" : "%" + std::to_string(holds_[static_cast<size_t>(id)]);
  }

  // The operator that computes the same values as results, if `b` is in place, and what these are
  // like: in place they have the type of what they overwrite.
  static std::string operator_text(const ir::Trace& t, const Bind& b) {
    const ir::Op op = functional(t, b);
    std::string text = op.id();
    if (op == b.op && !ops::in_place_variant(op)) return text;
    text += "->";
    for_each_result(b, [&](ValueId id) { text += geometry_text(t.value(id)) + "|"; });
    return text;
  }

  static ir::Op functional(const ir::Trace& t, const Bind& b) {
    const auto* to = b.results.size() == 1 ? std::get_if<ValueId>(&b.results[0]) : nullptr;
    const auto* from = b.args.empty() ? nullptr : std::get_if<ValueId>(&b.args[0]);
    if (!b.op.schema().is_mutable() || to == nullptr || from == nullptr || *to == kNoValue ||
        *from == kNoValue || !passes::same_layout(t.value(*from), t.value(*to)))
      return b.op;
    const auto variant = ops::functional_variant(b.op);
    const bool same_arguments = variant && variant->argument_of.size() == b.args.size() &&
                                ops::in_place_variant(variant->op) == b.op;
    return same_arguments ? variant->op : b.op;
  }

  void add(size_t i) {
    const Bind& b = t_.binds[i];
    const Instruction& in = core_.instructions()[i];
    const auto& arguments = b.op.schema().arguments();
    std::string text = operator_text(t_, b) + (in.grad_mode ? "+" : "-");
    for (size_t a = 0; a < b.args.size(); ++a) {
      const bool is_kernel = in.own != nullptr && in.own->by_number && a + 1 == b.args.size();
      text += "|" + (is_kernel ? kernel_text(std::get<c10::IValue>(b.args[a]).toInt())
                               : text_of(b.args[a], arguments[a].real_type()));
    }
    Step step{};
    step.computes = numbers_.of(text + "#" + std::to_string(times_[text]++));
    step.draws = ops::is_random(b.op) || in.own != nullptr;
    step.effect = ops::has_effect(b.op) || step.draws;
    for (size_t a : ops::written_arguments(b))
      ir::for_each_value(b.args[a], [&](ValueId id) { write(id, step); });
    int32_t k = 0;
    for (const ir::Result& r : b.results) {
      const auto* list = std::get_if<ir::ValueList>(&r);
      if (list == nullptr) {
        hold(std::get<ValueId>(r), result_number(step, k++), step);
        continue;
      }
      for (ValueId id : *list) hold(id, result_number(step, k++), step);
    }
    if (ops::is_value_guard(b.op)) decide(i, b);
    out_.steps.push_back(std::move(step));
  }

  int32_t result_number(const Step& step, int32_t k) {
    return numbers_.of("result " + std::to_string(step.computes) + "." + std::to_string(k));
  }

  void hold(ValueId id, int32_t number, Step& step) {
    if (id == kNoValue) return;
    holds_[static_cast<size_t>(id)] = number;
    step.results.emplace_back(id, number);
  }

  // Everything on the memory of `id` changes.
  void write(ValueId id, Step& step) {
    for (ValueId other : members_[group(id)]) {
      const int32_t before = holds_[static_cast<size_t>(other)];
      if (before == kUnknown) continue;
      const std::string text =
          "written " + std::to_string(step.computes) + ":" + std::to_string(before);
      holds_[static_cast<size_t>(other)] = numbers_.of(text);
      step.rewritten.emplace_back(other, holds_[static_cast<size_t>(other)]);
    }
  }

  void decide(size_t i, const Bind& b) {
    const auto* asked = std::get_if<ValueId>(&b.args.at(0));
    const auto* expected = std::get_if<c10::IValue>(&b.args.at(1));
    if (asked == nullptr || expected == nullptr) return;
    std::string before = "first";
    if (!out_.decisions.empty()) {
      const Decision& last = out_.decisions.back();
      before = std::to_string(last.asks) + ":" + std::to_string(last.answer);
    }
    Decision d{};
    d.step = i;
    d.asks = numbers_.of("after " + before + " " + b.op.id() + value_text(*asked));
    const auto& type = b.op.schema().arguments()[1].real_type();
    d.answer = prims::hash_of_found(ir::boxed_constant(*expected, type));
    out_.decisions.push_back(d);
  }

  const ir::Trace& t_;
  const Plan& core_;
  Numbers& numbers_;
  ops::MemoryGroups groups_;
  std::vector<std::vector<ValueId>> members_;  // by group, of those that matter
  std::vector<int32_t> holds_;                 // by register, so far
  std::unordered_map<std::string, int> times_;
  Steps out_;
};

}  // namespace

int32_t Numbers::of(const std::string& text) {
  const auto [it, is_new] = numbers_.emplace(text, next_);
  if (is_new) ++next_;
  return it->second;
}

Steps number_steps(const ir::Trace& trace, const Plan& core, const std::vector<std::string>& places,
                   Numbers& numbers) {
  return Numbering(trace, core, numbers).run(places);
}

}  // namespace fulgurite::run
