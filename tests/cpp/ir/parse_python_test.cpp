#include <ATen/core/jit_type.h>
#include <ATen/ops/empty_strided.h>
#include <gtest/gtest.h>

#include <limits>

#include "ir/constants.h"
#include "ir/errors.h"
#include "traces.h"

namespace fulgurite::ir {
namespace {

using testing::add;
using testing::aten;
using testing::f32;
using testing::gelu_sum;
using testing::named;
using testing::round_trip_difference;

TEST(RoundTrip, KeepsEveryKindOfTrace) {
  EXPECT_EQ(round_trip_difference(*gelu_sum()), "");
  EXPECT_EQ(round_trip_difference(*gelu_sum(TraceKind::AugmentedForward)), "");
  for (TraceKind kind : {TraceKind::Backward, TraceKind::Rule}) {
    TraceBuilder b("f", "split");
    b.trace().kind = kind;
    b.trace().functional = true;
    const ValueId n = b.add_input(named("n", ScalarKind::Float));
    const ValueId x = b.add_input(named("x", f32({2, 3})));
    b.trace().num_saved_inputs = 2;
    const ValueId g = b.add_input(named("g", f32({2, 3})));
    const ValueId t =
        add(b, aten("mul", "Scalar"), {g, n}, {named("", f32({2, 3}))}, -1, -1, false)[0];
    const ValueId u = add(b, aten("mul", "Tensor"), {t, x}, {named("", f32({2, 3}))})[0];
    b.trace().outputs = {u, kNoValue, t};
    EXPECT_EQ(round_trip_difference(*b.finish()), "");
  }
}

TEST(RoundTrip, KeepsAnEmptyProgram) {
  TraceBuilder b("f", "record");
  EXPECT_EQ(round_trip_difference(*b.finish()), "");
}

TEST(RoundTrip, KeepsStoragesOfRecordedAndFunctionalTraces) {
  for (bool functional : {false, true}) {
    TraceBuilder b("f", "record");
    b.trace().functional = functional;
    const ValueId x = b.add_input(named("x", f32({2, 3}), 5));
    b.add_input(named("y", f32({2, 3})));
    const ValueId t = add(b, aten("select", "int"), {x, c10::IValue(0), c10::IValue(1)},
                          {named("", f32({3}), 5, 3)})[0];
    const ValueId u = add(b, aten("exp"), {t}, {named("", f32({3}), 9)})[0];
    const ValueId v = add(b, aten("alias"), {u}, {named("", f32({3}), -1, 2)})[0];
    b.trace().outputs = {v};
    EXPECT_EQ(round_trip_difference(*b.finish()), "");
  }
}

TEST(RoundTrip, KeepsGradModesAndTheEpilogue) {
  for (int functional = 0; functional < 2; ++functional) {
    for (int modes = 0; modes < 8; ++modes) {
      TraceBuilder b("f", "functionalize");
      b.trace().functional = functional != 0;
      const ValueId x = b.add_input(named("x", f32({3}, true)));
      ValueId t = x;
      for (int i = 0; i < 2; ++i)
        t = add(b, aten("sin"), {t}, {named("", f32({3}, true))}, -1, -1, (modes >> i & 1) != 0)[0];
      if (functional != 0) b.begin_epilogue();
      add(b, aten("copy_"), {x, t}, {}, -1, -1, (modes >> 2 & 1) != 0);
      EXPECT_EQ(round_trip_difference(*b.finish()), "");
    }
  }
}

TEST(RoundTrip, KeepsNestedRegionsModulesAndFilesOfTheSameName) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("x", f32({2, 3})));
  const int32_t one = b.add_location({"/a/model.py", 3});
  const int32_t two = b.add_location({"/b/model.py", 4});
  const int32_t three = b.add_location({"<stdin>", 1});
  const int32_t outer = b.add_region({aten("silu"), {x}, {}, one, -1, "net.0"});
  const int32_t inner = b.add_region({aten("sigmoid"), {x}, {}, two, outer, ""});
  const int32_t twin = b.add_region({aten("sigmoid"), {x}, {kNoValue}, two, outer, ""});
  const ValueId t = add(b, aten("sigmoid"), {x}, {named("", f32({2, 3}))}, two, inner)[0];
  add(b, aten("sigmoid"), {x}, {named("", f32({2, 3}))}, two, twin);
  const ValueId u =
      add(b, aten("mul", "Tensor"), {x, t}, {named("", f32({2, 3}))}, three, outer)[0];
  b.trace().regions[static_cast<size_t>(inner)].results = {t};
  b.trace().regions[static_cast<size_t>(outer)].results = {u};
  b.trace().outputs = {u};
  const TracePtr trace = b.finish();
  EXPECT_EQ(round_trip_difference(*trace), "");
  const std::string text = print_python(*trace);
  EXPECT_NE(text.find("a/model.py:3"), std::string::npos) << text;
  EXPECT_NE(text.find("b/model.py:4"), std::string::npos) << text;
}

TEST(RoundTrip, KeepsListsUnnamedResultsAndNumbers) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("x", f32({4, 3})));
  Bind split{aten("split", "Tensor"), {x, c10::IValue(2)}, {}};
  const ValueId p = b.add_value(named("", f32({2, 3})));
  split.results = {ValueList{p, kNoValue}};
  b.add_bind(std::move(split));
  add(b, aten("max", "dim"), {x, c10::IValue(0)}, {named("m", f32({3}))});
  const ValueId s = add(b, aten("sum"), {p}, {named("", f32({}))})[0];
  const ValueId n = add(b, aten("item"), {s}, {named("n", ScalarKind::Float)})[0];
  const ValueId t = add(b, aten("mul", "Tensor"), {x, n}, {named("", f32({4, 3}))})[0];
  add(b, aten("_foreach_add_", "Scalar"), {ValueList{t}, c10::IValue(1)}, {});
  b.trace().outputs = {t, t, kNoValue};
  b.trace().output_template = "{'a': [$1, None, 'it\\'s t0'], 'b': $0, 'c': $2}";
  EXPECT_EQ(round_trip_difference(*b.finish()), "");
}

TEST(RoundTrip, KeepsConstantArgumentsOfEveryKind) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("x", f32({2, 3})));
  auto result = [](const char* name) { return std::vector<Value>{named(name, f32({2, 3}))}; };
  const double inf = std::numeric_limits<double>::infinity();
  for (const c10::IValue& number :
       {c10::IValue(2), c10::IValue(2.0), c10::IValue(true), c10::IValue(-inf),
        c10::IValue(std::numeric_limits<double>::quiet_NaN()),
        c10::IValue(c10::complex<double>(1, -0.5)),
        c10::IValue(std::numeric_limits<int64_t>::min()), c10::IValue(5e-324)}) {
    add(b, aten("mul", "Scalar"), {x, number}, result(""));
    add(b, aten("mul", "Tensor"), {x, number}, result(""));
    add(b, aten("add", "Tensor"), {x, x, number}, result(""));
  }
  add(b, aten("_to_copy"),
      {x, c10::IValue(at::kHalf), c10::IValue(at::kStrided), c10::Device("cpu"), c10::IValue(false),
       c10::IValue(true), c10::IValue(at::MemoryFormat::ChannelsLast)},
      result(""));
  add(b, aten("dropout"), {x, c10::IValue(0.5), c10::IValue(true)}, result(""));
  add(b, aten("bernoulli", "p"), {x, c10::IValue(1)}, result(""));  // an int for a float
  add(b, aten("gelu"), {x, c10::IValue("tanh")}, result(""));
  add(b, aten("zeros"), {std::vector<int64_t>{2, 3}}, result(""));
  add(b, aten("zeros"), {std::vector<int64_t>{}, c10::IValue(at::kLong)}, result(""));
  add(b, aten("upsample_nearest2d", "vec"), {x, c10::IValue(), std::vector<double>{2.0, 0.5}},
      result(""));
  add(b, aten("avg_pool2d"), {x, c10::IValue(2)}, result(""));  // one int for two
  add(b, aten("einsum"), {c10::IValue("ij,ij->ij"), ValueList{x, x}, c10::IValue()}, result(""));
  add(b, aten("convolution_backward"),
      {x, x, x, c10::IValue(), std::vector<int64_t>{1}, std::vector<int64_t>{0},
       std::vector<int64_t>{1}, c10::IValue(false), std::vector<int64_t>{0}, c10::IValue(1),
       c10::List<bool>({true, false, true})},
      result(""));
  add(b, aten("index", "Tensor"), {x, ValueList{kNoValue, x}}, result(""));
  EXPECT_EQ(round_trip_difference(*b.finish()), "");
}

at::Tensor made(at::ScalarType dtype, std::vector<int64_t> sizes,
                const std::vector<double>& values) {
  TensorType type = f32(std::move(sizes));
  type.dtype = dtype;
  std::vector<uint8_t> bytes;
  for (double value : values) {
    Literal literal;
    const bool is_int = c10::isIntegralType(dtype, true);
    literal.kind = is_int ? LiteralKind::Int : LiteralKind::Float;
    literal.integer = is_int ? static_cast<int64_t>(value) : 0;
    literal.real = value;
    EXPECT_TRUE(append_element(literal, dtype, bytes));
  }
  return make_constant(type, bytes);
}

TEST(RoundTrip, KeepsConstantTensors) {
  TraceBuilder b("f", "record");
  b.add_constant(made(at::kFloat, {2, 2}, {0.1, -0.0, 3.4028234663852886e38, 1e-45}));
  b.add_constant(made(at::kFloat, {}, {16777217.0}));
  b.add_constant(made(at::kDouble, {3}, {0.1, std::numeric_limits<double>::infinity(), -1e300}));
  b.add_constant(made(at::kHalf, {2}, {0.1, 65504}));
  b.add_constant(made(at::kBFloat16, {2}, {0.1, 1e38}));
  b.add_constant(made(at::kLong, {2}, {-5, 7}));
  b.add_constant(made(at::kByte, {2}, {200, 7}), "mask");
  b.add_constant(made(at::kBool, {2}, {0, 1}));
  b.add_constant(made(at::kComplexFloat, {2}, {0.5, 1}));
  b.add_constant(made(at::kFloat, {0, 3}, {}));
  b.add_constant(made(at::kFloat, {5, 5}, std::vector<double>(25, 0.25)));
  std::vector<double> many;
  for (int i = 0; i < 40; ++i) many.push_back(i * 0.3);
  b.add_constant(made(at::kFloat, {8, 5}, many));
  at::Tensor turned = at::empty_strided({2, 3}, {1, 2}, at::TensorOptions().dtype(at::kFloat));
  turned.copy_(made(at::kFloat, {2, 3}, {1, 2, 3, 4, 5, 6}));
  b.add_constant(turned);
  const at::Tensor with_grad = made(at::kFloat, {2}, {1, 2}).requires_grad_();
  b.add_constant(with_grad);
  for (size_t i = 0; i < b.trace().values.size(); ++i)
    b.trace().outputs.push_back(static_cast<ValueId>(i));
  const TracePtr trace = b.finish();
  EXPECT_EQ(round_trip_difference(*trace), "");
  const std::string text = print_python(*trace);
  EXPECT_NE(text.find("c9 = torch.full([5, 5], 0.25, dtype=torch.float32)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("c11 = torch.empty_strided([2, 3], [1, 2], dtype=torch.float32).copy_("
                      "torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float32))"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("import base64\n"), std::string::npos);
}

TEST(RoundTrip, ReadsWhatIsPrintedAtDepthOneAsCallsOfTheCompositeOps) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("x", f32({2, 3})));
  const int32_t region = b.add_region({aten("silu"), {x}, {}});
  const ValueId t = add(b, aten("sigmoid"), {x}, {named("", f32({2, 3}))}, -1, region)[0];
  const ValueId u = add(b, aten("mul", "Tensor"), {x, t}, {named("", f32({2, 3}))}, -1, region)[0];
  b.trace().regions[0].results = {u};
  b.trace().outputs = {u};
  PrintOptions options;
  options.depth = 1;
  const TracePtr read = parse_python(print_python(*b.finish(), options));
  ASSERT_EQ(read->binds.size(), 1U);
  EXPECT_EQ(read->binds[0].op.id(), "aten.silu");
  EXPECT_TRUE(read->regions.empty());
}

// ---- errors ----

std::string program(const std::string& body) {
  return "# f, after record: 1 op, not functional\nimport torch\n\ndef computation(x: \"f32[2, "
         "3]\"):\n" +
         body + "    return {'output': (x,), 'flat_args': [x], 'flat_output': (x,)}\n";
}

std::string error_of(const std::string& text) {
  try {
    parse_python(text);
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), "FG-301");
    return error.message();
  }
  return "no error";
}

TEST(ParseErrors, NameLineColumnFoundAndExpected) {
  EXPECT_EQ(error_of(program("    t0 = torch.exp(x)  # f32[2, 3]\n")), "no error");
  EXPECT_EQ(
      error_of(""),
      "line 1, column 1: found nothing, expected the header '# <name>, after <stage>: <n> ops'");
  EXPECT_EQ(error_of(program("    t0 = torch.exp(y)  # f32[2, 3]\n")),
            "line 5, column 20: found 'y', expected a value; no line above defines this name");
  EXPECT_EQ(error_of(program("    t0 = torch.exp(x  # f32[2, 3]\n")),
            "line 5, column 23: found the end of the line, expected ','");
  EXPECT_EQ(error_of(program("    t0 = torch.exq(x)  # f32[2, 3]\n")),
            "line 5, column 10: found 'torch.exq(x)', expected a call of an operator; there is no "
            "operator "
            "'torch.exq'");
  EXPECT_EQ(error_of(program("    t0 = torch.exp(x)\n")),
            "line 5, column 22: found no type in the comment, expected the type of 't0'");
  EXPECT_EQ(error_of(program("    t0 = torch.exp(x)  # f33[2, 3]\n")),
            "line 5, column 26: found 'f33[2, 3]', expected a type such as f32[2, 3] or a location "
            "such as "
            "model.py:7");
  EXPECT_EQ(error_of(program("    x = torch.exp(x)  # f32[2, 3]\n")),
            "line 5, column 5: found a second definition of 'x', expected a new name: every value "
            "is defined "
            "once");
  EXPECT_EQ(error_of(program("    t0, t1 = torch.exp(x)  # f32[2, 3] x2\n")),
            "line 5, column 5: found 2 results, expected 1 of aten.exp");
  EXPECT_EQ(error_of(program("    t0 = torch.sum(x, 'a')  # f32[2, 3]\n")),
            "line 5, column 10: found 'torch.sum(x, 'a')', expected a call of an operator; no "
            "overload of "
            "torch.sum takes these arguments");
  EXPECT_EQ(error_of(program("    t0 = torch.ops.aten.sum.default(x, dtypo=6)  # f32[2, 3]\n")),
            "line 5, column 10: found 'torch.ops.aten.sum.default(x, dtypo=6)', expected a call of "
            "an operator; "
            "aten.sum has no argument 'dtypo'");
  EXPECT_EQ(error_of(program("    # end\n")),
            "line 5, column 1: found '# end', expected no end: no region is open");
  EXPECT_EQ(error_of(program("    # region t0 = torch.exp(x)\n")),
            "line 6, column 5: found 'return', expected '# end' of a region");
  EXPECT_EQ(error_of(program("    while True:\n")),
            "line 5, column 5: found 'while', expected a value; no line above defines this name");
}

TEST(ParseErrors, SayWhatRuleTheProgramBreaks) {
  std::string text = program("    x.mul_(2)\n");
  EXPECT_EQ(error_of(text), "no error");
  text.erase(text.find(", not functional"), 16);
  text.insert(text.find("def "), "@torch.no_grad()\n");
  EXPECT_NE(error_of(text).find(
                "no valid trace: the trace of 'f' after pass 'record' is broken: the mutable "
                "operator aten.mul_.Tensor stands in the functional part"),
            std::string::npos)
      << error_of(text);
}

}  // namespace
}  // namespace fulgurite::ir
