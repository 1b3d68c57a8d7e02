// The C++ API against eager: values, gradients, in-place effects, refusals.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fulgurite/fulgurite.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <atomic>
#include <sstream>
#include <thread>

namespace {

using at::Tensor;

Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(true); }

TEST(Jit, GivesEagersValuesAndGradients) {
  auto fn = [](const Tensor& x, const Tensor& w) { return at::gelu(at::matmul(x, w)).sum(); };
  auto f = fulgurite::jit(fn);
  for (int i = 0; i < 3; ++i) {
    Tensor x = leaf({4, 3}), w = leaf({3, 5});
    Tensor x2 = x.detach().clone().requires_grad_(true),
           w2 = w.detach().clone().requires_grad_(true);
    Tensor loss = f(x, w), expected = fn(x2, w2);
    EXPECT_TRUE(at::equal(loss, expected));
    loss.backward();
    expected.backward();
    EXPECT_TRUE(at::allclose(x.grad(), x2.grad()));
    EXPECT_TRUE(at::allclose(w.grad(), w2.grad()));
  }
  EXPECT_EQ(fulgurite::cache_hits(f), 2u);
  EXPECT_EQ(fulgurite::cache_misses(f), 1u);
  EXPECT_TRUE(fulgurite::fallbacks(f).empty()) << fulgurite::explain(f);
}

TEST(Jit, KeepsEveryStageReadable) {
  auto f = fulgurite::jit([](const Tensor& x) { return x.sin().sum(); }, {.name = "waves"});
  EXPECT_THROW(fulgurite::last_traces(f), std::runtime_error);
  f(leaf({3}));
  std::ostringstream text;
  text << fulgurite::last_traces(f).front();
  EXPECT_NE(text.str().find("torch.sin(x0)"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("# waves"), std::string::npos) << text.str();
  EXPECT_NE(text.str().find("jit_test.cpp"), std::string::npos) << text.str();
  EXPECT_NE(fulgurite::last_backward_traces(f).back().python().find("torch.cos"),
            std::string::npos);
  EXPECT_NE(fulgurite::last_traces(f).back().cpp().find("at::"), std::string::npos);
  EXPECT_NE(fulgurite::last_prologue(f).find("Float[3]"), std::string::npos)
      << fulgurite::last_prologue(f);
  EXPECT_NE(fulgurite::explain(f).find("waves: 1 programs"), std::string::npos);
}

TEST(Jit, TakesAndGivesListsTuplesAndNothing) {
  auto sums = fulgurite::jit([](const std::vector<Tensor>& xs, const Tensor& y) {
    std::vector<Tensor> out;
    for (const Tensor& x : xs) out.push_back(x + y);
    return std::tuple(at::stack(out).sum(), out, xs[0]);
  });
  std::vector<Tensor> xs = {at::ones({2}), at::ones({2}) * 2};
  for (int i = 0; i < 2; ++i) {
    auto [total, each, first] = sums(xs, at::ones({2}));
    EXPECT_EQ(total.item<float>(), 10);
    ASSERT_EQ(each.size(), 2u);
    EXPECT_TRUE(at::equal(each[1], at::full({2}, 3.0)));
    EXPECT_TRUE(first.is_same(xs[0]));
  }
  EXPECT_EQ(fulgurite::cache_hits(sums), 1u) << fulgurite::explain(sums);
  xs.push_back(at::ones({2}));
  sums(xs, at::ones({2}));  // another length is another program
  EXPECT_EQ(fulgurite::cache_misses(sums), 2u);

  auto scale = fulgurite::jit([](const Tensor& x) { x.mul_(2); });
  Tensor x = at::ones({3});
  for (int i = 0; i < 3; ++i) scale(x);
  EXPECT_TRUE(at::equal(x, at::full({3}, 8.0)));
  EXPECT_EQ(fulgurite::cache_hits(scale), 2u) << fulgurite::explain(scale);

  auto pair = fulgurite::jit(
      [](const Tensor& a) { return std::make_pair(a + 1, std::vector<Tensor>{a * 2}); });
  pair(x);
  EXPECT_TRUE(at::equal(pair(x).second[0], at::full({3}, 16.0)));
}

TEST(Jit, RecordsAgainWhenAGuardFails) {
  auto f = fulgurite::jit([](const Tensor& x) { return x * 2; });
  f(at::ones({2}));
  f(at::ones({3}));
  f(at::ones({3}, at::kDouble));
  {
    c10::NoGradGuard off;
    f(at::ones({2}));
  }
  EXPECT_EQ(fulgurite::cache_misses(f), 4u);
  ASSERT_EQ(fulgurite::recompiles(f).size(), 3u);
  EXPECT_NE(fulgurite::recompiles(f)[2].find("grad mode is off"), std::string::npos)
      << fulgurite::recompiles(f)[2];
  f(at::ones({3}));
  EXPECT_EQ(fulgurite::cache_hits(f), 1u);
}

TEST(Jit, TellsAliasedArgumentsFromSeparateOnes) {
  auto fn = [](const Tensor& a, const Tensor& b) {
    a.add_(1);
    return a * b;
  };
  auto f = fulgurite::jit(fn);
  auto twice = [&](auto&& g) {
    Tensor x = at::ones({2}), y = at::ones({2});
    Tensor r1 = g(x, y), r2 = g(x, x), r3 = g(x, y), r4 = g(x, x);
    return at::stack({r1, r2, r3, r4, x});
  };
  EXPECT_TRUE(at::equal(twice(f), twice(fn)));
  EXPECT_EQ(fulgurite::cache_hits(f), 2u) << fulgurite::explain(f);
}

TEST(Jit, FollowsDataThatTheFunctionReads) {
  auto fn = [](const Tensor& x) { return x.sum().item<float>() > 0 ? x * 2 : x - 1; };
  auto f = fulgurite::jit(fn);
  for (float v : {1.f, -1.f, 2.f, 1.f, -1.f}) {
    Tensor x = at::full({2}, v);
    EXPECT_TRUE(at::equal(f(x), fn(x))) << v;
  }
  EXPECT_GE(fulgurite::cache_hits(f), 2u) << fulgurite::explain(f);
}

TEST(Jit, AllowsUndefinedTensors) {
  auto f = fulgurite::jit([](const Tensor& x, const Tensor& bias) {
    return std::tuple(bias.defined() ? x + bias : x * 3, Tensor());
  });
  Tensor x = at::ones({2}), none;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::equal(std::get<0>(f(x, none)), at::full({2}, 3.0)));
    EXPECT_TRUE(at::equal(std::get<0>(f(x, x)), at::full({2}, 2.0)));
    EXPECT_FALSE(std::get<1>(f(x, x)).defined());
  }
  EXPECT_GE(fulgurite::cache_hits(f), 3u) << fulgurite::explain(f);
}

TEST(Jit, CompilesABackwardInsideTheFunction) {
  auto step = fulgurite::jit([](const Tensor& x, const Tensor& w) {
    Tensor loss = at::matmul(x, w).pow(2).mean();
    loss.backward();
    c10::NoGradGuard off;
    w.sub_(w.grad(), 0.1);
    w.mutable_grad().zero_();
    return loss.detach();
  });
  Tensor x = at::randn({8, 4}), w = leaf({4, 2});
  w.mutable_grad() = at::zeros_like(w);
  Tensor w2 = w.detach().clone().requires_grad_(true);
  for (int i = 0; i < 4; ++i) {
    Tensor loss = step(x, w);
    Tensor expected = at::matmul(x, w2).pow(2).mean();
    expected.backward();
    {
      c10::NoGradGuard off;
      w2.sub_(w2.grad(), 0.1);
    }
    w2.mutable_grad() = Tensor();
    EXPECT_TRUE(at::allclose(loss, expected)) << i;
    EXPECT_TRUE(at::allclose(w, w2)) << i;
    EXPECT_TRUE(w.grad().defined());
  }
  EXPECT_EQ(fulgurite::cache_hits(step), 3u) << fulgurite::explain(step);
}

TEST(Jit, RefusesCapturedTensors) {
  Tensor captured = at::ones({2});
  auto f = fulgurite::jit([&](const Tensor& x) { return x + captured; });
  EXPECT_TRUE(at::equal(f(at::ones({2})), at::full({2}, 2.0)));
  captured = at::zeros({2});
  EXPECT_TRUE(at::equal(f(at::ones({2})), at::ones({2})));
  ASSERT_FALSE(fulgurite::fallbacks(f).empty());
  EXPECT_EQ(fulgurite::fallbacks(f)[0].code, "FG-205");
  EXPECT_EQ(fulgurite::cache_hits(f), 0u);

  auto strict = fulgurite::jit([&](const Tensor& x) { return x + captured; }, {.fullgraph = true});
  EXPECT_THROW(strict(at::ones({2})), fulgurite::CompileError);
}

TEST(Jit, RefusesMemoryThatNoOperatorWrote) {
  float value = 1;
  auto literal = fulgurite::jit([&](const Tensor& x) { return x + at::tensor({value, value}); });
  auto pointer = fulgurite::jit([&](const Tensor& x) {
    Tensor t = at::empty({2});
    t.data_ptr<float>()[0] = t.data_ptr<float>()[1] = value;
    return x + t.view({1, 2});
  });
  auto fine = fulgurite::jit([](const Tensor& x) {
    Tensor t = at::empty({2});
    return x + t.fill_(1) + at::full({2}, 2.0) + at::arange(2) * 2 + at::zeros({2});
  });
  for (; value < 4; ++value) {
    EXPECT_EQ(literal(at::zeros({2}))[1].item<float>(), value);
    EXPECT_EQ(pointer(at::zeros({2}))[0][1].item<float>(), value);
    fine(at::zeros({2}));
  }
  EXPECT_EQ(fulgurite::cache_hits(literal), 0u);
  EXPECT_EQ(fulgurite::fallbacks(literal)[0].code, "FG-211") << fulgurite::explain(literal);
  EXPECT_EQ(fulgurite::fallbacks(pointer)[0].code, "FG-211") << fulgurite::explain(pointer);
  EXPECT_EQ(fulgurite::cache_hits(fine), 2u) << fulgurite::explain(fine);
}

TEST(Jit, RefusesModesThatStayChanged) {
  auto f = fulgurite::jit([](const Tensor& x) {
    c10::GradMode::set_enabled(false);
    return x * 2;
  });
  for (int i = 0; i < 2; ++i) {
    f(at::ones({2}));
    EXPECT_FALSE(c10::GradMode::is_enabled());
    c10::GradMode::set_enabled(true);
  }
  EXPECT_EQ(fulgurite::fallbacks(f).at(0).code, "FG-210");
}

TEST(Jit, PassesExceptionsThrough) {
  bool fail = true;
  auto f = fulgurite::jit([&](const Tensor& x) {
    if (fail) throw std::invalid_argument("no");
    return x + 1;
  });
  EXPECT_THROW(f(at::ones({2})), std::invalid_argument);
  EXPECT_EQ(fulgurite::fallbacks(f)[0].code, "FG-206");
  auto g = fulgurite::jit([](const Tensor& a, const Tensor& b) { return at::matmul(a, b); });
  EXPECT_THROW(g(at::ones({2, 3}), at::ones({2, 3})), c10::Error);
}

TEST(Jit, RunsSparseTensorsAsTheyStand) {
  auto f = fulgurite::jit([](const Tensor& x) { return x.to_dense() + 1; });
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(at::equal(f(at::eye(2).to_sparse()), at::eye(2) + 1));
  EXPECT_EQ(fulgurite::fallbacks(f)[0].code, "FG-110");
}

TEST(Jit, NestsAndCopies) {
  auto inner = fulgurite::jit([](const Tensor& x) { return x.sin(); });
  auto outer = fulgurite::jit([inner](const Tensor& x) { return inner(x) + 1; });
  auto copy = outer;
  Tensor x = at::ones({2});
  EXPECT_TRUE(at::equal(outer(x), x.sin() + 1));
  EXPECT_TRUE(at::equal(copy(x), x.sin() + 1));
  EXPECT_EQ(fulgurite::cache_hits(outer), 1u);
  EXPECT_EQ(fulgurite::cache_misses(inner), 0u);
}

TEST(Jit, ServesSeveralThreads) {
  auto f = fulgurite::jit(
      [](const Tensor& x, const Tensor& w) { return at::tanh(at::matmul(x, w)).sum(); });
  const Tensor w = at::randn({4, 4});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Tensor x = at::ones({t % 2 + 1, 4}).requires_grad_(true),
               x2 = at::ones({t % 2 + 1, 4}).requires_grad_(true);
        f(x, w).backward();
        at::tanh(at::matmul(x2, w)).sum().backward();
        if (!at::allclose(x.grad(), x2.grad())) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(fulgurite::cache_hits(f), 70u) << fulgurite::explain(f);
  EXPECT_EQ(fulgurite::cache_hits(f) + fulgurite::cache_misses(f), 80u);
}

TEST(Jit, DrawsTheSameRandomNumbers) {
  auto fn = [](const Tensor& x) { return at::dropout(x, 0.5, true); };
  auto f = fulgurite::jit(fn);
  for (int i = 0; i < 3; ++i) {
    at::manual_seed(i);
    Tensor a = f(at::ones({100}));
    Tensor after_a = at::rand({2});
    at::manual_seed(i);
    Tensor b = fn(at::ones({100}));
    EXPECT_TRUE(at::equal(a, b));
    EXPECT_TRUE(at::equal(after_a, at::rand({2})));
  }
  EXPECT_EQ(fulgurite::cache_hits(f), 2u) << fulgurite::explain(f);
}

bool is_moody = false;

TORCH_LIBRARY(fulgurite_jit_test, m) { m.def("moody(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(fulgurite_jit_test, CPU, m) {
  m.impl("moody", [](const Tensor& x) { return is_moody ? x.t().contiguous().t() : x.clone(); });
}

TEST(Jit, ComparesResultsWithDeclaredTypesIfAsked) {
  const auto moody = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("fulgurite_jit_test::moody", "")
                         .typed<Tensor(const Tensor&)>();
  for (const bool check : {false, true}) {
    fulgurite::Options options;
    options.check_results = check;
    auto f = fulgurite::jit([&](const Tensor& x) { return moody.call(x) + 1; }, options);
    const Tensor x = at::ones({3, 4});
    is_moody = false;
    f(x);
    EXPECT_TRUE(at::equal(f(x), x + 1));
    is_moody = true;
    if (check) {
      EXPECT_THROW(f(x), std::runtime_error);
    } else {
      EXPECT_TRUE(at::equal(f(x), x + 1));
    }
    EXPECT_EQ(fulgurite::cache_hits(f), check ? 1u : 2u) << fulgurite::explain(f);
  }
}

}  // namespace
