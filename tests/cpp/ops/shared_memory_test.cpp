// What shares memory with what, by what operators say.
#include "ops/shared_memory.h"

#include <gtest/gtest.h>

#include "ir/traces.h"
#include "ops/prims.h"

namespace fulgurite::ops {
namespace {

using ir::Op;
using ir::ValueId;
using ir::testing::add;
using ir::testing::aten;
using ir::testing::f32;
using ir::testing::named;

struct Program {
  ir::TraceBuilder b{"f", "recorded"};
  ValueId x = b.add_input(named("x", f32({2, 2})));
  ValueId y = b.add_input(named("y", f32({2, 2})));

  ValueId op(const Op& op, std::vector<ir::Arg> args) {
    return add(b, op, std::move(args), {named("", f32({2, 2}))})[0];
  }
};

TEST(SharedMemory, IsThatOfViewsAndOfWhatIsWrittenInPlace) {
  Program p;
  const ValueId fresh = p.op(aten("mul", "Tensor"), {p.x, p.y});
  const ValueId view = p.op(aten("t"), {fresh});
  const ValueId data = p.op(prims::data(), {view});
  const ValueId written = p.op(aten("mul_", "Tensor"), {data, p.y});
  const ValueId given = p.op(prims::copy_(), {written, p.x});
  const ir::TracePtr t = p.b.finish();

  MemoryGroups groups(*t);
  EXPECT_EQ(groups.find(view), groups.find(fresh));
  EXPECT_EQ(groups.find(written), groups.find(fresh));
  EXPECT_NE(groups.find(p.y), groups.find(fresh));  // what is only read
  EXPECT_EQ(groups.find(given), groups.find(p.x));
  MemoryGroups before(*t, 2);
  EXPECT_NE(before.find(data), before.find(fresh));

  const MemoryBases bases(*t);
  EXPECT_EQ(bases.base(written), fresh);
  EXPECT_EQ(bases.base(given), p.x);
  EXPECT_EQ(bases.base(fresh), fresh);
  EXPECT_EQ(bases.counter(written), data);  // .data has a counter of its own
  EXPECT_EQ(bases.counter(view), fresh);
  EXPECT_EQ(bases.counted_bases(written), std::vector<ValueId>{data});

  const std::vector<bool> overwritten = overwritten_inputs(*t);
  EXPECT_TRUE(overwritten[p.x]);
  EXPECT_FALSE(overwritten[p.y]);
}

TEST(SharedMemory, IsThatOfTheOutOfTheSameNumber) {
  Program p;
  const auto max = aten("max", "dim_max");
  const std::vector<ValueId> r = add(p.b, max, {p.x, c10::IValue(0), c10::IValue(false), p.y, p.x},
                                     {named("", f32({2, 2})), named("", f32({2, 2}))});
  const ir::TracePtr t = p.b.finish();
  const MemoryBases bases(*t);
  EXPECT_EQ(bases.base(r[0]), p.y);
  EXPECT_EQ(bases.base(r[1]), p.x);
}

}  // namespace
}  // namespace fulgurite::ops
