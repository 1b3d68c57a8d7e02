// C++ functions that go another way for other data: a call that leaves one program goes on in
// another one (src/run/branch_tree.h).
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <atomic>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "fulgurite/extend.h"
#include "fulgurite/fulgurite.h"

namespace {

using at::Tensor;

bool holds(const Tensor& condition) { return condition.item<bool>(); }

Tensor loop(Tensor x) {
  while (holds(x.abs().max() > 1)) x = x.sin() * 0.1 + x * 0.5;
  return x;
}

Tensor chain(const Tensor& x) {
  const Tensor y = x.erfc() * x;
  if (holds(x.sum() > 100)) throw std::out_of_range("too large");
  if (holds(x.sum() > 6)) return y + 1;
  if (holds(x.sum() > 3)) return y * at::rand({3});
  if (holds(x.sum() > 0)) {
    return y.mul(2).relu_();
  }
  return y - x.exp();
}

TEST(Branches, ALoopRunsEachRoundOnce) {
  const fulgurite::OperatorExecutor counting("cpp_counting");
  int runs = 0;
  counting.register_operator(
      "sine", "(Tensor x) -> Tensor",
      [&runs](std::vector<c10::IValue>& stack) {
        ++runs;
        stack.at(0) = stack.at(0).toTensor().sin();
      },
      [](std::vector<c10::IValue>& stack) {
        stack.at(0) = at::empty_like(stack.at(0).toTensor());
      });
  counting.register_implementation("aten::sin", "sine");
  fulgurite::Options options;
  options.executors = {"cpp_counting"};
  auto f = fulgurite::jit(loop, options);
  auto input = [](int i) { return at::full({3}, 1.5 * std::pow(1.9, i)); };
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 10; ++i) f(input(i));
  std::vector<int> rounds(10);
  for (int i = 0; i < 10; ++i)
    for (Tensor x = input(i); holds(x.abs().max() > 1); x = x.sin() * 0.1 + x * 0.5) ++rounds[i];
  const auto hits = fulgurite::cache_hits(f);
  for (int i : {4, 9, 0, 7, 2, 8, 1, 6, 3, 5}) {
    runs = 0;
    EXPECT_TRUE(at::equal(f(input(i)), loop(input(i))));
    EXPECT_EQ(runs, rounds[static_cast<size_t>(i)]) << i;
  }
  EXPECT_EQ(fulgurite::cache_hits(f), hits + 10) << fulgurite::explain(f);
  EXPECT_NE(fulgurite::explain(f).find("where "), std::string::npos) << fulgurite::explain(f);
  counting.deregister();
}

TEST(Branches, GiveEagersValuesGradientsAndRandomNumbers) {
  auto f = fulgurite::jit(chain);
  for (bool grad : {false, true}) {
    for (int i = 0; i < 40; ++i) {
      const double v = static_cast<double>(i * 7 % 9) / 2 - 1;
      std::vector<Tensor> found;
      for (bool compiled : {false, true}) {
        at::manual_seed(static_cast<uint64_t>(i));
        Tensor x = at::full({3}, v).requires_grad_(grad);
        const Tensor out = compiled ? f(x) : chain(x);
        found.push_back(out);
        found.push_back(grad ? torch::autograd::grad({out.sum()}, {x})[0] : out);
        found.push_back(at::rand({1}));
      }
      for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(at::equal(found[k], found[k + 3])) << i << k;
    }
  }
  EXPECT_GT(fulgurite::cache_hits(f), 65u) << fulgurite::explain(f);
  for (int i = 0; i < 3; ++i) EXPECT_THROW(f(at::full({3}, 100.0)), std::out_of_range);
}

TEST(Branches, AreBounded) {
  fulgurite::Options options;
  options.max_branches = 3;
  auto f = fulgurite::jit(loop, options);
  for (int i = 0; i < 60; ++i) {
    const Tensor x = at::full({3}, 1.5 * std::pow(1.9, i % 10));
    EXPECT_TRUE(at::equal(f(x), loop(x)));
  }
  const auto reasons = fulgurite::fallbacks(f);
  ASSERT_EQ(reasons.size(), 1u) << fulgurite::explain(f);
  EXPECT_EQ(reasons[0].code, "FG-213");
  EXPECT_NE(reasons[0].reason.find("max_branches"), std::string::npos);
}

TEST(Branches, ServeSeveralThreads) {
  auto f = fulgurite::jit(loop);
  for (int i = 0; i < 10; ++i) f(at::full({3}, 1.5 * std::pow(1.9, i)));
  std::atomic<int> wrong{0};
  auto work = [&](int seed) {
    for (int i = 0; i < 200; ++i) {
      const Tensor x = at::full({3}, 1.5 * std::pow(1.9, (i * 7 + seed * 3) % 10));
      if (!at::equal(f(x), loop(x))) ++wrong;
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(fulgurite::cache_hits(f), 400u) << fulgurite::explain(f);
}

}  // namespace
