#include <ATen/core/jit_type.h>
#include <gtest/gtest.h>

#include "ir/errors.h"
#include "ir/literal.h"
#include "traces.h"

namespace fulgurite::ir {
namespace {

using testing::add;
using testing::aten;
using testing::f32;
using testing::named;

TEST(Op, FindsOperatorsByNameAndOverload) {
  const Op op = aten("add", "Tensor");
  EXPECT_EQ(op.id(), "aten.add.Tensor");
  EXPECT_EQ(op.ns(), "aten");
  EXPECT_EQ(op.base_name(), "add");
  EXPECT_TRUE(op == Op::get("aten::add", "Tensor"));
  EXPECT_FALSE(op == aten("add", "Scalar"));
  EXPECT_EQ(aten("mm").id(), "aten.mm");
  EXPECT_FALSE(Op::find("aten::no_such_operator", "").has_value());
  EXPECT_THROW(Op::get("aten::no_such_operator"), InternalError);
}

TEST(TraceBuilder, MakesNamesUniqueAndUsable) {
  TraceBuilder b("my fn", "record");
  EXPECT_EQ(b.trace().name, "my_fn");
  auto name = [&](ValueId id) { return b.value(id).name; };
  EXPECT_EQ(name(b.add_input(named("x", f32({})))), "x");
  EXPECT_EQ(name(b.add_input(named("x", f32({})))), "x_0");
  EXPECT_EQ(name(b.add_input(named("for", f32({})))), "for_");
  EXPECT_EQ(name(b.add_input(named("torch", f32({})))), "torch_");
  EXPECT_EQ(name(b.add_input(named("layers.0.weight", f32({})))), "layers_0_weight");
  EXPECT_EQ(name(b.add_input(named("t0", f32({})))), "t0");
  EXPECT_EQ(name(b.add_value(named("", f32({})))), "t1");
  EXPECT_EQ(name(b.add_like(b.value(0))), "t2");
}

TEST(TraceBuilder, KeepsLocationsOnce) {
  TraceBuilder b("f", "record");
  EXPECT_EQ(b.add_location({"a.py", 1}), 0);
  EXPECT_EQ(b.add_location({"a.py", 2}), 1);
  EXPECT_EQ(b.add_location({"a.py", 1}), 0);
}

TEST(TraceBuilder, PutsArgumentsInNormalForm) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("x", f32({2, 3})));
  add(b, aten("linear"), {x, x, c10::IValue()}, {named("", f32({2, 2}))});
  add(b, aten("dropout"), {x, c10::IValue(1), c10::IValue(true)}, {named("", f32({2, 3}))});
  add(b, aten("avg_pool2d"), {x, c10::IValue(2)}, {named("", f32({2, 3}))});
  const std::vector<Bind>& binds = b.trace().binds;
  EXPECT_EQ(std::get<ValueId>(binds[0].args[2]), kNoValue);
  EXPECT_TRUE(std::get<c10::IValue>(binds[1].args[1]).isDouble());
  EXPECT_EQ(std::get<c10::IValue>(binds[2].args[1]).toIntVector(), (std::vector<int64_t>{2, 2}));
  ASSERT_EQ(binds[2].args.size(), 7U);  // defaults are filled in
  EXPECT_TRUE(std::get<c10::IValue>(binds[2].args[6]).isNone());
  b.finish();
}

TEST(TraceBuilder, StartsFromAnotherTraceWithTheSameValues) {
  const TracePtr from = testing::gelu_sum();
  TraceBuilder b(*from, "copy");
  for (const Bind& bind : from->binds) b.add_bind(bind);
  EXPECT_EQ(b.value(b.add_value(named("", f32({})))).name, "t3");
  const TracePtr copy = b.finish();
  EXPECT_EQ(copy->stage, "copy");
  std::string difference;
  EXPECT_FALSE(identical(*from, *copy, &difference));
  EXPECT_EQ(difference, "the stages differ: 'functionalize' and 'copy'");
}

TEST(TraceBuilder, RefusesABrokenTrace) {
  TraceBuilder b("f", "record");
  add(b, aten("sin"), {ValueId(5)}, {named("", f32({}))});
  EXPECT_THROW(b.finish(), InternalError);
}

TEST(SettleRegions, DissolvesWhatNoLongerDescribesTheProgram) {
  TraceBuilder b("f", "pass");
  const ValueId x = b.add_input(named("x", f32({2})));
  const int32_t outer = b.add_region({aten("silu"), {x}, {kNoValue}});
  const int32_t torn = b.add_region({aten("sigmoid"), {x}, {kNoValue}, -1, outer, ""});
  const ValueId t0 = add(b, aten("sin"), {x}, {named("", f32({2}))}, -1, torn)[0];
  add(b, aten("sin"), {t0}, {named("", f32({2}))}, -1, outer);
  const ValueId t2 = add(b, aten("sin"), {t0}, {named("", f32({2}))}, -1, torn)[0];
  const ValueId gone = b.add_value(named("gone", f32({2})));
  b.trace().regions[0].results = {gone};
  b.trace().outputs = {t2};
  const TracePtr trace = b.finish();
  for (const Bind& bind : trace->binds) EXPECT_EQ(bind.region, outer);
  EXPECT_EQ(std::get<ValueId>(trace->regions[0].results[0]), kNoValue);
}

TEST(Identical, SeesEveryDifference) {
  const TracePtr a = testing::gelu_sum();
  auto difference = [&](const std::function<void(Trace&)>& change) {
    Trace b = *a;
    change(b);
    std::string text;
    const bool same = identical(*a, b, &text);
    EXPECT_EQ(same, text.empty());
    return text;
  };
  EXPECT_EQ(difference([](Trace&) {}), "");
  EXPECT_NE(difference([](Trace& t) { t.functional = false; }), "");
  EXPECT_NE(difference([](Trace& t) { t.values[3].name = "other"; }), "");
  EXPECT_NE(difference([](Trace& t) { t.values[3].storage = 1; }), "");
  EXPECT_NE(difference([](Trace& t) { t.locations[0].line = 7; }), "");
  EXPECT_NE(difference([](Trace& t) { t.binds[1].grad_mode = false; }), "");
  EXPECT_NE(difference([](Trace& t) { t.binds[1].args[1] = c10::IValue("tanh"); }), "");
  EXPECT_NE(difference([](Trace& t) { t.outputs = {3}; }), "");
  EXPECT_NE(difference([](Trace& t) { t.epilogue = 1; }), "");
  EXPECT_NE(
      difference([](Trace& t) { std::get<TensorType>(t.values[0].type).requires_grad = true; }),
      "");
}

}  // namespace
}  // namespace fulgurite::ir
