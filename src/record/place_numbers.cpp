#include "record/place_numbers.h"

#include <ATen/core/Tensor.h>

#include <unordered_map>

#include "ops/number_prims.h"
#include "ops/prims.h"

namespace fulgurite::record {
namespace {

using c10::IValue;
using ir::Arg;
using ir::kNoValue;
using ir::ValueId;
using ir::ValueList;

class Placer {
 public:
  Placer(Numbers& numbers, std::vector<PendingBind>& binds, const NewNumber& new_number)
      : numbers_(numbers), binds_(binds), new_number_(new_number) {}

  PlacedNumbers run() {
    for (const Numbers::Node& n : numbers_.nodes())
      if (n.kind == Numbers::Kind::Read && !n.fixed) binds_[n.expectation].dead = true;
    std::unordered_map<size_t, std::vector<const Numbers::Use*>> uses;
    for (const Numbers::Use& u : numbers_.uses())
      if (numbers_.is_free(u.node)) uses[u.bind].push_back(&u);
    for (size_t i = 0; i < binds_.size(); ++i) {
      place_checks(i);
      if (auto it = uses.find(i); it != uses.end() && !binds_[i].dead)
        place_uses(binds_[i].bind, it->second);
      out_.push_back(std::move(binds_[i]));
    }
    place_checks(SIZE_MAX);
    binds_ = std::move(out_);
    return std::move(placed_);
  }

 private:
  // The number as an argument; what it is calculated from goes to `out_` first.
  Arg argument(int node, int32_t region, int32_t location) {
    Numbers::Node& n = numbers_.nodes()[static_cast<size_t>(node)];
    if (!numbers_.is_free(node)) return Arg(n.value);
    if (n.id != kNoValue) return Arg(n.id);
    if (n.kind == Numbers::Kind::Input) {
      n.id = new_number_(n.value, ir::ValueKind::Input, n.name);
      placed_.inputs.push_back(node);
      placed_.ids.push_back(n.id);
      return Arg(n.id);
    }
    std::vector<Arg> args{argument(n.a, region, location)};
    if (n.b >= 0) args.push_back(argument(n.b, region, location));
    n.id = new_number_(n.value, ir::ValueKind::Result, "");
    out_.push_back({ir::Bind{*n.op, std::move(args), {n.id}, location, region, true}});
    return Arg(n.id);
  }

  // A list of numbers of which some are values: then all are.
  Arg list(const ir::Bind& bind, size_t index, const std::vector<const Numbers::Use*>& uses) {
    const IValue constant = std::get<IValue>(bind.args[index]);
    const auto items = constant.toListRef();
    ValueList values(items.size(), kNoValue);
    for (const Numbers::Use* u : uses)
      if (u->argument == index)
        values[static_cast<size_t>(u->element)] =
            std::get<ValueId>(argument(u->node, bind.region, bind.location));
    for (size_t k = 0; k < values.size(); ++k) {
      if (values[k] != kNoValue) continue;
      values[k] = new_number_(items[k], ir::ValueKind::Result, "");
      const ir::Op& op = items[k].isInt() ? prims::number_int() : prims::number_float();
      out_.push_back(
          {ir::Bind{op, {Arg(items[k])}, {values[k]}, bind.location, bind.region, true}});
    }
    return Arg(std::move(values));
  }

  void place_uses(ir::Bind& bind, const std::vector<const Numbers::Use*>& uses) {
    for (const Numbers::Use* u : uses) {
      if (!std::holds_alternative<IValue>(bind.args[u->argument])) continue;  // a list, done
      bind.args[u->argument] = u->element < 0 ? argument(u->node, bind.region, bind.location)
                                              : list(bind, u->argument, uses);
    }
  }

  // Comparisons that were made before this bind, with their outcomes.
  void place_checks(size_t before) {
    const auto& checks = numbers_.checks();
    for (; next_check_ < checks.size() && checks[next_check_].before <= before; ++next_check_) {
      const Numbers::Check& c = checks[next_check_];
      if (!numbers_.is_free(c.node)) continue;
      Arg found = argument(c.node, c.region, c.location);
      out_.push_back({ir::Bind{prims::expect_bool(),
                               {std::move(found), Arg(numbers_.value(c.node))},
                               {},
                               c.location,
                               c.region,
                               true}});
    }
  }

  Numbers& numbers_;
  std::vector<PendingBind>& binds_;
  const NewNumber& new_number_;
  std::vector<PendingBind> out_;
  PlacedNumbers placed_;
  size_t next_check_ = 0;
};

}  // namespace

PlacedNumbers place_numbers(Numbers& numbers, std::vector<PendingBind>& binds,
                            const NewNumber& new_number) {
  if (numbers.nodes().empty()) return {};
  return Placer(numbers, binds, new_number).run();
}

}  // namespace fulgurite::record
