// Gradient rules written in C++.
#include <ATen/ATen.h>
#include <fulgurite/fulgurite.h>
#include <gtest/gtest.h>

#include "ops/rules.h"

namespace {

using at::Tensor;
using c10::IValue;
namespace rules = fulgurite::rules;

class Rules : public testing::Test {
 protected:
  void TearDown() override {
    rules::set_joint(sin, nullptr);
    rules::set_augmented_forward(sin, nullptr);
    rules::set_backward(sin, nullptr);
  }
  const fulgurite::ir::Op sin = rules::op_by_id("aten.sin");
};

TEST_F(Rules, ABackwardIsUsedAtOnce) {
  auto f = fulgurite::jit([](const Tensor& x) { return x.sin(); });
  Tensor x = at::randn({3}).requires_grad_(true);
  const auto grad = [&] {
    Tensor leaf = x.detach().requires_grad_(true);
    f(leaf).sum().backward();
    return leaf.grad();
  };
  EXPECT_TRUE(at::allclose(grad(), x.detach().cos()));
  rules::set_backward(sin, [](const std::vector<IValue>& saved, const std::vector<Tensor>& g) {
    return std::vector<Tensor>{g.at(0) * saved.at(0).toTensor().cos() * 2};
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::allclose(grad(), x.detach().cos() * 2));
  rules::set_backward(sin, nullptr);
  EXPECT_EQ(rules::find(sin), nullptr);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::allclose(grad(), x.detach().cos()));
  EXPECT_EQ(fulgurite::cache_hits(f), 4u);
}

TEST_F(Rules, OneFunctionForBothHalves) {
  rules::set_joint(sin, [](const std::vector<IValue>& a, rules::Gradients& gradients) {
    const Tensor x = a.at(0).toTensor();
    const Tensor y = x.sin();
    gradients.put_grad(x, gradients.get_grad(y) * x);
    return std::vector<IValue>{y};
  });
  auto f = fulgurite::jit([](const Tensor& x) { return x.sin(); });
  for (int i = 0; i < 3; ++i) {
    Tensor x = at::randn({3}).requires_grad_(true);
    f(x).sum().backward();
    EXPECT_TRUE(at::allclose(x.grad(), x.detach()));
  }
}

TEST_F(Rules, AWrongRuleIsAnErrorThatNamesOperatorAndShapes) {
  rules::set_backward(
      sin,
      [](const std::vector<IValue>&, const std::vector<Tensor>& g) {
        return std::vector<Tensor>{g.at(0).sum()};
      },
      "mine");
  auto f = fulgurite::jit([](const Tensor& x) { return x.sin(); });
  try {
    f(at::randn({3}).requires_grad_(true));
    FAIL() << "no error";
  } catch (const std::exception& e) {
    const std::string text = e.what();
    for (const char* word : {"FG-324", "mine", "aten.sin", "f32[]", "f32[3]"})
      EXPECT_NE(text.find(word), std::string::npos) << text;
  }
}

TEST_F(Rules, UnknownOperatorsNameTheNearest) {
  EXPECT_THROW(rules::op_by_id("aten.sinn"), rules::RuleError);
  EXPECT_THROW(rules::set_backward(rules::op_by_id("aten.sin_"),
                                   [](const auto&, const auto& g) { return g; }),
               rules::RuleError);
}

}  // namespace
