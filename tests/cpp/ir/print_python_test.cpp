#include <ATen/core/jit_type.h>
#include <gtest/gtest.h>

#include <limits>

#include "traces.h"

namespace fulgurite::ir {
namespace {

using testing::add;
using testing::aten;
using testing::f32;
using testing::gelu_sum;
using testing::named;

TEST(PrintPython, PrintsTypesAndLocationsInColumns) {
  EXPECT_EQ(print_python(*gelu_sum()), R"(# f, after functionalize: 3 ops
import torch

@torch.no_grad()
def computation(x: "f32[32, 64]", w: "f32[64, 64]+g"):
    t0 = torch.mm(x, w)                # f32[32, 64]+g    train.py:6
    t1 = torch.nn.functional.gelu(t0)  # f32[32, 64]+g    train.py:6
    t2 = torch.sum(t1)                 # f32[]+g          train.py:6
    return {'output': t2, 'flat_args': [x, w], 'flat_output': (t2,)}
)");
}

TEST(PrintPython, ReturnsSavedValuesWhenTheTraceIsAnAugmentedForward) {
  const std::string text = print_python(*gelu_sum(TraceKind::AugmentedForward));
  EXPECT_NE(text.find("'flat_output': (t2,)}, ((x, w, t0), ())\n"), std::string::npos) << text;
}

TEST(PrintPython, UnpacksSavedValuesAndCotangentsWhenTheTraceIsABackward) {
  TraceBuilder b("f", "split");
  b.trace().kind = TraceKind::Backward;
  b.trace().functional = true;
  const ValueId x = b.add_input(named("x", f32({2, 3})));
  const ValueId n = b.add_input(named("n", ScalarKind::Int));
  b.trace().num_saved_inputs = 2;
  const ValueId g = b.add_input(named("g", f32({2, 3})));
  const ValueId t0 =
      add(b, aten("mul", "Tensor"), {g, x}, {named("", f32({2, 3}))}, -1, -1, false)[0];
  add(b, aten("mul", "Scalar"), {g, n}, {named("", f32({2, 3}))}, -1, -1, false);
  b.trace().outputs = {t0, kNoValue};
  EXPECT_EQ(print_python(*b.finish()), R"(# f, after split: 2 ops
import torch

@torch.no_grad()  # as recorded
def backward(saved_for_backward, cotangents):
    x = saved_for_backward[0][0]          # f32[2, 3]
    n = saved_for_backward[1][0]          # int
    g = cotangents[0]                     # f32[2, 3]
    t0 = torch.mul(g, x)                  # f32[2, 3]
    t1 = torch.ops.aten.mul.Scalar(g, n)  # f32[2, 3]
    return (t0, None)
)");
}

TEST(PrintPython, MarksViewsByStorageAndGroupsNoGradWhenTheTraceIsAsRecorded) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("x", f32({2, 3}), 0));
  const ValueId row = add(b, aten("select", "int"), {x, c10::IValue(0), c10::IValue(1)},
                          {named("", f32({3}), 0, 3)}, -1, -1, false)[0];
  add(b, aten("mul_", "Tensor"), {row, c10::IValue(2)}, {}, -1, -1, false);
  const ValueId t1 = add(b, aten("exp"), {x}, {named("", f32({2, 3}), 7)})[0];
  b.trace().outputs = {t1};
  EXPECT_EQ(print_python(*b.finish()), R"(# f, after record: 3 ops, not functional
import torch

def computation(x: "f32[2, 3] @s0"):
    with torch.no_grad():
        t0 = torch.select(x, 0, 1)  # f32[3] @s0+3
        t0.mul_(2)
    t1 = torch.exp(x)               # f32[2, 3]
    return {'output': (t1,), 'flat_args': [x], 'flat_output': (t1,)}
)");
}

// linear(x, w, b) in a module, decomposed into two binds, with one bind after it.
TracePtr linear_in_a_region(bool use_inner_value) {
  TraceBuilder b("f", "functionalize");
  b.trace().functional = true;
  const ValueId x = b.add_input(named("x", f32({2, 3})));
  const ValueId w = b.add_input(named("w", f32({3, 3})));
  const int32_t at = b.add_location({"/somewhere/model.py", 12});
  TensorType transposed = f32({3, 3});
  transposed.strides = {1, 3};
  const int32_t region =
      b.add_region({aten("linear"), {x, w, kNoValue}, {}, at, -1, "model.layers.0"});
  const ValueId t0 = add(b, aten("t"), {w}, {named("", transposed)}, at, region)[0];
  const ValueId t1 = add(b, aten("mm"), {x, t0}, {named("", f32({2, 3}))}, at, region)[0];
  b.trace().regions[0].results = {t1};
  const ValueId t2 = add(b, aten("relu"), {use_inner_value ? t0 : t1},
                         {named("", use_inner_value ? transposed : f32({2, 3}))}, at)[0];
  b.trace().outputs = {t2};
  return b.finish();
}

TEST(PrintPython, ShowsARegionInCommentsWhenEverythingIsAskedFor) {
  EXPECT_EQ(print_python(*linear_in_a_region(false)), R"(# f, after functionalize: 3 ops
import torch

@torch.no_grad()
def computation(x: "f32[2, 3]", w: "f32[3, 3]"):
    # region t1 = torch.nn.functional.linear(x, w)  in model.layers.0  model.py:12
    t0 = torch.t(w)       # f32[3, 3; 1, 3]    model.py:12
    t1 = torch.mm(x, t0)  # f32[2, 3]          model.py:12
    # end
    t2 = torch.relu(t1)   # f32[2, 3]          model.py:12
    return {'output': (t2,), 'flat_args': [x, w], 'flat_output': (t2,)}
)");
}

TEST(PrintPython, PrintsARegionAsOneCallAtDepthOne) {
  PrintOptions options;
  options.depth = 1;
  const std::string text = print_python(*linear_in_a_region(false), options);
  EXPECT_NE(text.find(": 2 ops"), std::string::npos) << text;
  EXPECT_NE(text.find("    t1 = torch.nn.functional.linear(x, w)  # f32[2, 3]    model.py:12\n"),
            std::string::npos)
      << text;
  options.depth = 2;
  EXPECT_EQ(print_python(*linear_in_a_region(false), options),
            print_python(*linear_in_a_region(false)));
}

TEST(PrintPython, OpensARegionWhoseInnerValuesAreUsedOutside) {
  PrintOptions options;
  options.depth = 1;
  EXPECT_EQ(print_python(*linear_in_a_region(true), options),
            print_python(*linear_in_a_region(true)));
}

TEST(PrintPython, NamesTheEpilogueAndPrims) {
  TraceBuilder b("f", "functionalize");
  b.trace().functional = true;
  const ValueId x = b.add_input(named("x", f32({3})));
  const ValueId t0 = add(b, aten("mul", "Tensor"), {x, c10::IValue(2)}, {named("", f32({3}))})[0];
  b.begin_epilogue();
  add(b, aten("copy_"), {x, t0, c10::IValue(false)}, {});
  const std::string text = print_python(*b.finish());
  EXPECT_NE(text.find("    t0 = torch.mul(x, 2)  # f32[3]\n"
                      "    # epilogue: what the caller can see\n"
                      "    x.copy_(t0)\n"),
            std::string::npos)
      << text;
}

// ---- spelling ----

std::string spelled(const Op& op, std::vector<Arg> args, const std::vector<Value>& inputs,
                    std::vector<Value> results) {
  TraceBuilder b("f", "record");
  for (const Value& value : inputs) b.add_input(value);
  add(b, op, std::move(args), std::move(results));
  PrintOptions options;
  options.types = false;
  const std::string text = print_python(*b.finish(), options);
  const size_t begin = text.find("):\n") + 7;
  return text.substr(begin, text.find('\n', begin) - begin);
}

TEST(Spelling, LeavesOutDefaultsAndNamesWhatFollowsThem) {
  const std::vector<Value> x = {named("x", f32({2, 3}))};
  EXPECT_EQ(spelled(aten("sum", "dim_IntList"), {0, std::vector<int64_t>{1}, c10::IValue(true)}, x,
                    {named("", f32({2, 1}))}),
            "t0 = torch.sum(x, [1], True)");
  EXPECT_EQ(spelled(aten("gelu"), {0, "tanh"}, x, {named("", f32({2, 3}))}),
            "t0 = torch.nn.functional.gelu(x, approximate='tanh')");
  EXPECT_EQ(spelled(aten("max", "dim"), {0, c10::IValue(1), c10::IValue(true)}, x,
                    {named("", f32({2, 1}))}),
            "t0, _ = torch.max(x, 1, True)");
  EXPECT_EQ(spelled(aten("max", "dim"), {0, c10::IValue(1), c10::IValue(false)}, x,
                    {named("", f32({2}))}),
            "t0, _ = torch.max(x, 1)");
  EXPECT_EQ(spelled(aten("softmax", "int"), {0, c10::IValue(-1), c10::IValue(at::kDouble)}, x,
                    {named("", f32({2, 3}))}),
            "t0 = torch.softmax(x, -1, torch.float64)");
}

TEST(Spelling, IsExactWherePythonWouldChooseAnotherOverload) {
  const std::vector<Value> x = {named("x", f32({2, 3}))};
  EXPECT_EQ(spelled(aten("mul", "Scalar"), {0, c10::IValue(2)}, x, {named("", f32({2, 3}))}),
            "t0 = torch.ops.aten.mul.Scalar(x, 2)");
  EXPECT_EQ(spelled(aten("eq", "Scalar"), {0, c10::IValue(2.0)}, x, {named("", f32({2, 3}))}),
            "t0 = torch.eq(x, 2.0)");
  EXPECT_EQ(spelled(aten("add", "Tensor"), {0, c10::IValue(2), c10::IValue(3)}, x,
                    {named("", f32({2, 3}))}),
            "t0 = torch.add(x, 2, alpha=3)");
  EXPECT_EQ(spelled(aten("_to_copy"), {0, c10::IValue(at::kHalf)}, x, {named("", f32({2, 3}))}),
            "t0 = torch.ops.aten._to_copy.default(x, dtype=torch.float16)");
}

TEST(Spelling, UsesGetattrForOverloadsThatAreKeywords) {
  const std::vector<Value> x = {named("x", f32({2, 3}))};
  EXPECT_EQ(spelled(aten("random", "from"), {0, c10::IValue(0), c10::IValue(5)}, x,
                    {named("", f32({2, 3}))}),
            "t0 = getattr(torch.ops.aten.random, 'from')(x, 0, 5)");
}

TEST(Spelling, WritesListsOfTensors) {
  const std::vector<Value> two = {named("x", f32({2})), named("y", f32({2}))};
  EXPECT_EQ(spelled(aten("cat"), {ValueList{0, 1}}, two, {named("", f32({4}))}),
            "t0 = torch.cat([x, y])");
  EXPECT_EQ(
      spelled(aten("index", "Tensor"), {0, ValueList{kNoValue, 1}}, two, {named("", f32({4}))}),
      "t0 = torch.ops.aten.index.Tensor(x, [None, y])");
}

TEST(ConstantText, IsPythonThatGivesTheSameConstant) {
  const auto text = [](const c10::IValue& v, const c10::TypePtr& t) { return constant_text(v, t); };
  EXPECT_EQ(text(2.0, c10::FloatType::get()), "2.0");
  EXPECT_EQ(text(1e-5, c10::FloatType::get()), "1e-05");
  EXPECT_EQ(text(0.1, c10::NumberType::get()), "0.1");
  EXPECT_EQ(text(-std::numeric_limits<double>::infinity(), c10::NumberType::get()),
            "float('-inf')");
  EXPECT_EQ(text(static_cast<int64_t>(at::kFloat), c10::ScalarTypeType::get()), "torch.float32");
  EXPECT_EQ(text(static_cast<int64_t>(at::kFloat), c10::IntType::get()), "6");
  EXPECT_EQ(text(c10::complex<double>(1, -2), c10::NumberType::get()), "complex(1.0, -2.0)");
  EXPECT_EQ(text(c10::Device("cpu"), c10::DeviceObjType::get()), "torch.device('cpu')");
  EXPECT_EQ(text("it's\n", c10::StringType::get()), "'it\\'s\\n'");
  EXPECT_EQ(text(c10::IValue(), c10::NoneType::get()), "None");
}

TEST(TypeText, ShowsStridesDeviceAndGradOnlyWhereTheyAreNotUsual) {
  Value value = named("x", f32({2, 3}));
  EXPECT_EQ(type_text(value), "f32[2, 3]");
  auto& type = std::get<TensorType>(value.type);
  type.strides = {1, 2};
  type.dtype = at::kBFloat16;
  EXPECT_EQ(type_text(value), "bf16[2, 3; 1, 2]");
  type.requires_grad = true;
  type.device = c10::Device("cuda:0");
  EXPECT_EQ(type_text(value), "bf16[2, 3; 1, 2]@cuda:0+g");
  EXPECT_EQ(type_text(named("n", ScalarKind::Int)), "int");
}

}  // namespace
}  // namespace fulgurite::ir
