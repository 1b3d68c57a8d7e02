#include <ATen/core/jit_type.h>
#include <gtest/gtest.h>

#include "ir/constants.h"
#include "traces.h"

namespace fulgurite::ir {
namespace {

using testing::add;
using testing::aten;
using testing::f32;
using testing::gelu_sum;
using testing::named;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PrintCpp, CallsOperatorsByTheirExactNames) {
  EXPECT_EQ(print_cpp(*gelu_sum()), R"(// f, after functionalize
#include <ATen/ATen.h>
#include <ATen/Operators.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <limits>
#include <vector>

std::vector<at::Tensor> computation(
        [[maybe_unused]] const at::Tensor& x,
        [[maybe_unused]] const at::Tensor& w) {
  at::NoGradGuard no_grad;
  at::Tensor t0 = at::_ops::mm::call(x, w);  // f32[32, 64]+g    train.py:6
  at::Tensor t1 = at::_ops::gelu::call(t0, "none");  // f32[32, 64]+g    train.py:6
  at::Tensor t2 = at::_ops::sum::call(t1, std::nullopt);  // f32[]+g    train.py:6
  return {t2};
}
)");
}

TEST(PrintCpp, RenamesValuesWhoseNamesBelongToCpp) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("default", f32({3})));
  add(b, aten("mul_", "Tensor"), {x, c10::IValue(2)}, {});
  const std::string text = print_cpp(*b.finish());
  EXPECT_TRUE(has(text,
                  "at::_ops::mul__Tensor::call(written(default_), "
                  "at::native::wrapped_scalar_tensor(int64_t(2)));"))
      << text;
}

TEST(PrintCpp, TakesListsTuplesAndConstantsApart) {
  TraceBuilder b("f", "record");
  const ValueId x = b.add_input(named("x", f32({4, 3})));
  Bind split{aten("split", "Tensor"), {x, c10::IValue(2)}, {}};
  split.results = {ValueList{b.add_value(named("p", f32({2, 3}))), kNoValue}};
  b.add_bind(std::move(split));
  const ValueId p = 1;
  add(b, aten("max", "dim"), {p, c10::IValue(0)}, {named("m", f32({3}))});
  const ValueId c = b.add_constant(make_constant(f32({2}), {0, 0, 128, 63, 0, 0, 128, 63}));
  add(b, aten("cat"), {ValueList{p, c}}, {named("k", f32({4, 3}))});
  const std::string text = print_cpp(*b.finish());
  EXPECT_TRUE(has(text,
                  "const auto list0 = at::_ops::split_Tensor::call(x, c10::SymInt(int64_t(2)), "
                  "int64_t(0));"))
      << text;
  EXPECT_TRUE(has(text, "  at::Tensor p = list0[0];\n")) << text;
  EXPECT_TRUE(has(text, "  at::Tensor m = std::get<0>(results1);\n")) << text;
  EXPECT_TRUE(has(text,
                  "static const at::Tensor c0 = constant(at::ScalarType::Float, "
                  "at::IntArrayRef({2}), at::IntArrayRef({1}), {0, 0, 128, 63});"))
      << text;
  EXPECT_TRUE(has(text, "at::_ops::cat::call(std::vector<at::Tensor>{p, c0}, int64_t(0));"))
      << text;
}

}  // namespace
}  // namespace fulgurite::ir
