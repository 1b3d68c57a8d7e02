#include <gtest/gtest.h>

#include <functional>

#include "ir/errors.h"
#include "traces.h"

namespace fulgurite::ir {
namespace {

using testing::add;
using testing::aten;
using testing::f32;
using testing::named;

// A small good trace, broken by `damage`; the verifier's message.
std::string fault_after(const std::function<void(Trace&)>& damage) {
  TraceBuilder b("f", "some_pass");
  b.trace().functional = true;
  const ValueId x = b.add_input(named("x", f32({2, 3})));
  const ValueId w = b.add_input(named("w", f32({3, 3})));
  const int32_t region = b.add_region({aten("silu"), {x}, {}});
  const ValueId t0 = add(b, aten("sigmoid"), {x}, {named("", f32({2, 3}))}, -1, region)[0];
  const ValueId t1 =
      add(b, aten("mul", "Tensor"), {x, t0}, {named("", f32({2, 3}))}, -1, region)[0];
  const ValueId t2 = add(b, aten("mm"), {t1, w}, {named("", f32({2, 3}))})[0];
  b.trace().regions[0].results = {t1};
  b.trace().outputs = {t2};
  b.trace().output_template = "$0";
  Trace trace = *b.finish();
  damage(trace);
  try {
    verify(trace);
  } catch (const InternalError& error) {
    return error.message();
  }
  return "no fault";
}

void expect_fault(const std::string& message, const std::function<void(Trace&)>& damage) {
  const std::string found = fault_after(damage);
  EXPECT_NE(found.find("the trace of 'f' after pass 'some_pass' is broken: " + message),
            std::string::npos)
      << found;
}

TEST(Verify, AcceptsAGoodTrace) {
  EXPECT_EQ(fault_after([](Trace&) {}), "no fault");
}

TEST(Verify, ShowsTheLinesAroundTheFault) {
  EXPECT_EQ(fault_after([](Trace& t) { t.binds[1].args[1] = ValueId(4); }),
            "the trace of 'f' after pass 'some_pass' is broken: uses 't2' before its definition\n"
            "    0: t0 = aten.sigmoid(x)\n"
            "  > 1: t1 = aten.mul.Tensor(x, t2)\n"
            "    2: t2 = aten.mm(t1, w)");
}

TEST(Verify, FindsWrongUsesAndDefinitions) {
  expect_fault("uses the value 99, which does not exist",
               [](Trace& t) { t.binds[0].args[0] = ValueId(99); });
  expect_fault("'t0' is defined twice", [](Trace& t) { t.binds[1].results[0] = ValueId(2); });
  expect_fault("'x' is defined twice", [](Trace& t) { t.binds[1].results[0] = ValueId(0); });
  expect_fault("the input 'x' occurs twice", [](Trace& t) { t.inputs.push_back(0); });
  expect_fault("the input 't0' is not marked as an input", [](Trace& t) { t.inputs.push_back(2); });
  expect_fault("two values have the name 'x'", [](Trace& t) { t.values[3].name = "x"; });
  expect_fault("'for' cannot be the name of a value", [](Trace& t) { t.values[3].name = "for"; });
  expect_fault("the constant 'c' has no contents", [](Trace& t) {
    t.values.push_back(named("c", f32({})));
    t.values.back().kind = ValueKind::Constant;
  });
  expect_fault("the value 'x' has 2 sizes, but 1 strides",
               [](Trace& t) { std::get<TensorType>(t.values[0].type).strides = {1}; });
}

TEST(Verify, FindsArgumentsThatTheSchemaDoesNotAdmit) {
  expect_fault("aten.mm takes 2 arguments, not 1", [](Trace& t) { t.binds[2].args.pop_back(); });
  expect_fault("aten.mm has 1 results, not 0", [](Trace& t) { t.binds[2].results.clear(); });
  expect_fault("aten.mm: the argument 'mat2' is a constant of type String; the schema wants Tensor",
               [](Trace& t) { t.binds[2].args[1] = c10::IValue("w"); });
  expect_fault("aten.mm: the argument 'mat2' is a list of values; the schema wants Tensor",
               [](Trace& t) { t.binds[2].args[1] = ValueList{1}; });
  expect_fault("aten.mm: the argument 'mat2' is None as a constant instead of kNoValue",
               [](Trace& t) { t.binds[2].args[1] = c10::IValue(); });
  expect_fault("aten.mm: the result is the number 't2'", [](Trace& t) {
    t.values[4].type = ScalarKind::Int;
    t.binds[2].op = aten("mm");
  });
}

TEST(Verify, FindsMutableOperatorsInTheFunctionalPart) {
  const auto damage = [](Trace& t) {
    t.binds[2] = Bind{aten("mul_", "Tensor"), {0, 1}, {Result(ValueId(4))}};
  };
  expect_fault("the mutable operator aten.mul_.Tensor stands in the functional part", damage);
  EXPECT_EQ(fault_after([&](Trace& t) {
              damage(t);
              t.epilogue = 2;
            }),
            "no fault");
  expect_fault("the epilogue starts after the last bind", [](Trace& t) { t.epilogue = 4; });
}

TEST(Verify, FindsBrokenRegions) {
  expect_fault("the binds of the region aten.silu are not contiguous", [](Trace& t) {
    t.binds[1].region = -1;
    t.binds[2].region = 0;
  });
  expect_fault("the region 7 does not exist", [](Trace& t) { t.binds[1].region = 7; });
  expect_fault("the region 0 has the parent 0", [](Trace& t) { t.regions[0].parent = 0; });
  expect_fault("the region aten.silu takes 't2' before its definition",
               [](Trace& t) { t.regions[0].args[0] = ValueId(4); });
  expect_fault("the region aten.silu returns 't2' before its definition",
               [](Trace& t) { t.regions[0].results[0] = ValueId(4); });
  expect_fault("the location 3 does not exist", [](Trace& t) { t.binds[0].location = 3; });
}

TEST(Verify, FindsOutputsThatDoNotExist) {
  expect_fault("returns the value 50, which does not exist", [](Trace& t) { t.outputs[0] = 50; });
  expect_fault("the result's template names $1, but there are 1 outputs",
               [](Trace& t) { t.output_template = "($0, $1)"; });
  expect_fault("only an augmented forward saves values", [](Trace& t) { t.saved = {0}; });
  expect_fault("there are 1 saved inputs among 0", [](Trace& t) { t.num_saved_inputs = 1; });
}

}  // namespace
}  // namespace fulgurite::ir
