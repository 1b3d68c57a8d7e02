// Executors without Python: registration, claims of binds and groups, what a plan makes of them.
#include "exec/claim.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "exec/operators.h"
#include "exec/registry.h"
#include "ir/traces.h"
#include "run/plan.h"

namespace fulgurite::exec {
namespace {

using ir::testing::add;
using ir::testing::aten;
using ir::testing::f32;
using ir::testing::named;
using Stack = std::vector<c10::IValue>;

ImplementationPtr unary(std::function<at::Tensor(const at::Tensor&)> f) {
  return implementation([f = std::move(f)](Stack& stack) {
    at::Tensor result = f(stack.at(0).toTensor());
    stack.clear();
    stack.emplace_back(std::move(result));
  });
}

ImplementationPtr like_first() {
  return unary([](const at::Tensor& x) { return at::empty_like(x); });
}

// cos(sin(x)) * sin(x)
ir::TracePtr program() {
  ir::TraceBuilder b("f", "simplify");
  b.trace().functional = true;
  const ir::ValueId x = b.add_input(named("x", f32({3})));
  const int32_t at = b.add_location({"/somewhere/train.py", 6});
  const ir::ValueId t0 = add(b, aten("sin"), {x}, {named("", f32({3}))}, at)[0];
  const ir::ValueId t1 = add(b, aten("cos"), {t0}, {named("", f32({3}))}, at)[0];
  const ir::ValueId t2 = add(b, aten("mul", "Tensor"), {t1, t0}, {named("", f32({3}))}, at)[0];
  b.trace().outputs = {t2};
  b.begin_epilogue();
  return b.finish();
}

at::Tensor run(const ir::Trace& t, const at::Tensor& x) {
  const run::Plan plan(t, 0, t.epilogue, t.outputs, /*check_results=*/true);
  run::Frame frame(plan.registers());
  frame[t.inputs[0]] = x;
  plan.run(frame);
  return frame[t.outputs[0]].toTensor();
}

passes::Claimed claim(const ExecutorList& list, const ir::TracePtr& trace) {
  return claimer(completed(list))(trace, {});
}

std::string code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return "";
}

TEST(Claim, TheFirstWillingExecutorTakesAnOperator) {
  auto first = std::make_shared<Executor>("claim_first", "1");
  auto second = std::make_shared<Executor>("claim_second", "1");
  for (const auto& e : {first, second}) {
    const ir::Op op =
        define_operator(*e, "sin", "(Tensor x) -> Tensor",
                        unary([](const at::Tensor& x) { return x * 10; }), like_first());
    const bool takes = e == second;
    e->implement(aten("sin"), {op, nullptr, [takes](const Candidate& c) {
                                 return Verdict{takes, "not today, " + c.op.id()};
                               }});
  }
  const passes::Claimed claimed = claim({first, second}, program());
  EXPECT_EQ(claimed.trace->binds[0].op.id(), "claim_second.sin");
  EXPECT_EQ(claimed.trace->binds[1].op.id(), "aten.cos");
  ASSERT_EQ(claimed.claims.size(), 3U);
  EXPECT_EQ(claimed.claims[0].executor, "claim_second");
  EXPECT_EQ(claimed.claims[0].place, "train.py:6");
  ASSERT_EQ(claimed.claims[0].declined.size(), 1U);
  EXPECT_EQ(claimed.claims[0].declined[0].first, "claim_first");
  EXPECT_EQ(claimed.claims[0].declined[0].second, "not today, aten.sin");
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(run(*claimed.trace, x).allclose((x * 10).cos() * (x * 10)));
}

TEST(Claim, AChangeOfAnExecutorIsSeen) {
  auto e = std::make_shared<Executor>("claim_generation", "1");
  const uint64_t all = generation(), own = generation_of({e, exec::aten()});
  register_executor(e);
  EXPECT_GT(generation(), all);
  EXPECT_GT(generation_of({e, exec::aten()}), own);
  EXPECT_EQ(find_executor("claim_generation"), e);
  deregister_executor("claim_generation");
  EXPECT_EQ(find_executor("claim_generation"), nullptr);
  EXPECT_FALSE(e->is_active());
}

TEST(Claim, AGroupIsRunInOnePiece) {
  auto e = std::make_shared<Executor>("claim_fuser", "1");
  std::vector<std::string> groups;
  e->fuse_with([&groups](const ir::TracePtr& group, std::string&) {
    std::string ids;
    for (const ir::Bind& b : group->binds) ids += b.op.id() + " ";
    groups.push_back(ids);
    return implementation([group](Stack& stack) {
      c10::List<at::Tensor> results;
      results.push_back(run(*group, stack.at(0).toTensorVector().at(0)));
      stack.clear();
      stack.emplace_back(std::move(results));
    });
  });
  for (const auto& op : {aten("sin"), aten("cos"), aten("mul", "Tensor")}) e->support(op, {});
  const passes::Claimed claimed = claim({e}, program());
  EXPECT_EQ(groups, std::vector<std::string>{"aten.sin aten.cos aten.mul.Tensor "});
  ASSERT_EQ(claimed.trace->binds.size(), 1U);
  EXPECT_EQ(claimed.trace->binds[0].op.id(), "claim_fuser.fused");
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(run(*claimed.trace, x).equal(x.sin().cos() * x.sin()));
}

TEST(Claim, WhatSaysSomethingFalseIsAnError) {
  auto e = std::make_shared<Executor>("claim_errors", "1");
  const auto identity = unary([](const at::Tensor& x) { return x; });
  const auto longer = unary([](const at::Tensor& x) { return x.new_empty({7}); });
  const auto raises =
      unary([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("no"); });
  auto offer = [&](const char* name, ImplementationPtr fn, ImplementationPtr meta,
                   Checker checker) {
    e->implement(aten("sin"),
                 {define_operator(*e, name, "(Tensor x) -> Tensor", std::move(fn), std::move(meta)),
                  nullptr, std::move(checker)});
  };
  const auto compile = [&] { claim({e}, program()); };
  const at::Tensor x = at::ones({3});
  const auto run_it = [&] { run(*claim({e}, program()).trace, x); };

  offer("a", identity, longer, {});
  EXPECT_EQ(code_of(compile), "FG-413");
  offer("b", longer, like_first(), {});
  EXPECT_EQ(code_of(run_it), "FG-412");
  offer("c", raises, like_first(), {});
  EXPECT_EQ(code_of(run_it), "FG-411");
  offer("d", identity, like_first(),
        [](const Candidate&) -> Verdict { throw std::runtime_error("no"); });
  EXPECT_EQ(code_of(compile), "FG-410");
  EXPECT_EQ(code_of([] { Executor("not a name", ""); }), "FG-401");
  EXPECT_EQ(code_of([&] { define_operator(*e, "f", "(Tenser x) -> Tensor", identity, identity); }),
            "FG-403");
  const ir::Op two =
      define_operator(*e, "two", "(Tensor x) -> (Tensor, Tensor)", identity, identity);
  EXPECT_EQ(code_of([&] { e->implement(aten("sin"), {two, nullptr, {}}); }), "FG-405");
}

TEST(Claim, AResultThatIsAnArgumentBecomesATensorOfItsOwn) {
  auto e = std::make_shared<Executor>("claim_alias", "1");
  const auto identity = unary([](const at::Tensor& x) { return x; });
  for (const char* name : {"sin", "cos"})
    e->implement(
        aten(name),
        {define_operator(*e, name, "(Tensor x) -> Tensor", identity, like_first()), nullptr, {}});
  e->implement(aten("mul", "Tensor"), {define_operator(*e, "mul", "(Tensor x, Tensor y) -> Tensor",
                                                       identity, like_first()),
                                       nullptr,
                                       {}});
  const at::Tensor x = at::ones({3});
  const at::Tensor y = run(*claim({e}, program()).trace, x);
  EXPECT_TRUE(y.equal(x));
  EXPECT_FALSE(y.is_alias_of(x));
}

}  // namespace
}  // namespace fulgurite::exec
