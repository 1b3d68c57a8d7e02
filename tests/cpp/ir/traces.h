// Small traces for the tests of src/ir, made by hand.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/text.h"

namespace fulgurite::ir::testing {

inline TensorType f32(std::vector<int64_t> sizes, bool requires_grad = false) {
  TensorType type;
  type.sizes.assign(sizes.begin(), sizes.end());
  type.strides = default_strides(type.sizes);
  type.requires_grad = requires_grad;
  return type;
}

inline Value named(std::string name, std::variant<TensorType, ScalarKind> type,
                   int32_t storage = -1, int64_t offset = 0) {
  Value value;
  value.name = std::move(name);
  value.type = std::move(type);
  value.storage = storage;
  value.offset = offset;
  return value;
}

// Adds `result, ... = op(args...)`; the results are new values of these types.
inline std::vector<ValueId> add(TraceBuilder& builder, const Op& op, std::vector<Arg> args,
                                std::vector<Value> results, int32_t location = -1,
                                int32_t region = -1, bool grad_mode = true) {
  Bind bind{op, std::move(args), {}, location, region, grad_mode};
  std::vector<ValueId> ids;
  for (Value& value : results) {
    ids.push_back(builder.add_value(std::move(value)));
    bind.results.emplace_back(ids.back());
  }
  bind.results.resize(op.schema().returns().size(), Result(kNoValue));
  builder.add_bind(std::move(bind));
  return ids;
}

inline Op aten(const std::string& name, const std::string& overload = "") {
  return Op::get("aten::" + name, overload);
}

// sum(gelu(x @ w)), as the documentation shows it.
inline TracePtr gelu_sum(TraceKind kind = TraceKind::Computation) {
  TraceBuilder b("f", "functionalize");
  b.trace().functional = true;
  b.trace().kind = kind;
  const ValueId x = b.add_input(named("x", f32({32, 64})));
  const ValueId w = b.add_input(named("w", f32({64, 64}, true)));
  const int32_t at = b.add_location({"/somewhere/train.py", 6});
  const ValueId t0 = add(b, aten("mm"), {x, w}, {named("", f32({32, 64}, true))}, at)[0];
  const ValueId t1 = add(b, aten("gelu"), {t0}, {named("", f32({32, 64}, true))}, at)[0];
  const ValueId t2 = add(b, aten("sum"), {t1}, {named("", f32({}, true))}, at)[0];
  b.trace().outputs = {t2};
  b.trace().output_template = "$0";
  if (kind == TraceKind::AugmentedForward) b.trace().saved = {x, w, t0};
  return b.finish();
}

inline std::string round_trip_difference(const Trace& trace) {
  PrintOptions options;
  options.full_paths = true;
  const std::string text = print_python(trace, options);
  const TracePtr again = parse_python(text);
  std::string difference;
  if (!identical(trace, *again, &difference)) return difference + "\n" + text;
  const std::string text_again = print_python(*again, options);
  return text == text_again ? "" : "the text changes:\n" + text + text_again;
}

}  // namespace fulgurite::ir::testing
