// Executors through the public headers alone.
#include "fulgurite/extend.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "fulgurite/fulgurite.h"

namespace {

using Stack = std::vector<c10::IValue>;

TEST(Extend, AnOperatorOfMineRunsInThePlaceOfSin) {
  const fulgurite::OperatorExecutor mine("api_mine", "0.1");
  int calls = 0;
  auto with_factor = [&calls](double factor) {
    return [&calls, factor](Stack& stack) {
      ++calls;
      stack.at(0) = stack.at(0).toTensor().sin() * factor;
    };
  };
  auto meta = [](Stack& stack) { stack.at(0) = at::empty_like(stack.at(0).toTensor()); };
  mine.register_operator("sine", "(Tensor x) -> Tensor", with_factor(1), meta);
  mine.register_implementation("aten::sin", "sine", [](const Stack& arguments) -> std::string {
    return arguments.at(0).toTensor().numel() < 3 ? "too small" : "";
  });
  fulgurite::Options options;
  options.executors = {"api_mine"};
  auto f = fulgurite::jit([](const at::Tensor& x) { return at::sin(x) + 1; }, options);
  const at::Tensor x = at::ones({4});
  f(x);
  EXPECT_TRUE(f(x).allclose(x.sin() + 1));
  EXPECT_EQ(calls, 1);
  f(at::ones({2}));
  f(at::ones({2}));
  EXPECT_EQ(calls, 1);  // its checker declines

  mine.register_operator("sine", "(Tensor x) -> Tensor", with_factor(2), meta);
  f(x);
  EXPECT_TRUE(f(x).allclose(x.sin() * 2 + 1));
  mine.register_operator(
      "sine", "(Tensor x) -> Tensor", [](Stack&) { throw std::runtime_error("on purpose"); }, meta);
  f(x);
  EXPECT_THROW(f(x), std::runtime_error);
  mine.deregister();
  f(x);
  EXPECT_TRUE(f(x).allclose(x.sin() + 1));
}

TEST(Extend, MistakesAreInvalidArguments) {
  const fulgurite::OperatorExecutor mine("api_mistakes");
  EXPECT_THROW(fulgurite::OperatorExecutor("aten"), std::invalid_argument);
  EXPECT_THROW(mine.register_implementation("aten::no_such", "sine"), std::invalid_argument);
  EXPECT_THROW(
      mine.register_operator("f", "nonsense", [](Stack&) {}, [](Stack&) {}), std::invalid_argument);
  fulgurite::Options options;
  options.executors = {"nobody"};
  EXPECT_THROW(fulgurite::jit([](const at::Tensor& x) { return x + 1; }, options),
               std::invalid_argument);
}

}  // namespace
