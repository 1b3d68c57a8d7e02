#include "exec/groups.h"

#include "ir/builder.h"
#include "ops/traits.h"

namespace fulgurite::exec {
namespace {

// Collects one group at a time; what depends on it waits until it is closed.
class Grouping {
 public:
  Grouping(const std::vector<const ir::Bind*>& binds, size_t values)
      : binds_(binds), made_here_(values, false), waits_(values, false) {}

  void outside(size_t index) {
    const ir::Bind& b = *binds_[index];
    if (ops::is_random(b.op) || ops::has_effect(b.op) || ops::is_mutable(b.op)) {
      close();
      return plain(index);
    }
    bool depends = false;
    for_each_arg(b, [&](ir::ValueId id) { depends |= made_here_[id] || waits_[id]; });
    if (!depends) return plain(index);
    for_each_result(b, [&](ir::ValueId id) { waits_[id] = true; });
    waiting_.push_back(index);
  }

  void member(size_t index) {
    const ir::Bind& b = *binds_[index];
    bool waits = false;
    for_each_arg(b, [&](ir::ValueId id) { waits |= waits_[id]; });
    if (waits || ops::is_random(b.op)) close();
    for_each_result(b, [&](ir::ValueId id) { made_here_[id] = true; });
    open_.push_back(index);
  }

  std::vector<Piece> finish() {
    close();
    return std::move(pieces_);
  }

 private:
  void plain(size_t index) {
    if (pieces_.empty() || pieces_.back().is_group) pieces_.push_back({{}, false});
    pieces_.back().binds.push_back(index);
  }

  void close() {
    for (const auto* list : {&open_, &waiting_})
      for (size_t i : *list)
        for_each_result(*binds_[i], [&](ir::ValueId id) { made_here_[id] = waits_[id] = false; });
    if (!open_.empty()) pieces_.push_back({std::move(open_), true});
    open_.clear();
    for (size_t i : waiting_) plain(i);
    waiting_.clear();
  }

  const std::vector<const ir::Bind*>& binds_;
  std::vector<bool> made_here_, waits_;  // by value: result of the open group, or needs one
  std::vector<size_t> open_, waiting_;
  std::vector<Piece> pieces_;
};

}  // namespace

std::vector<Piece> group(const std::vector<const ir::Bind*>& binds, size_t values,
                         const std::vector<bool>& is_member) {
  Grouping grouping(binds, values);
  for (size_t i = 0; i < binds.size(); ++i) {
    if (is_member[i])
      grouping.member(i);
    else
      grouping.outside(i);
  }
  return grouping.finish();
}

GroupTrace extract(const std::vector<const ir::Bind*>& binds, const ir::Trace& from,
                   const std::vector<bool>& read_later) {
  GroupTrace g;
  ir::TraceBuilder b(from.name + "_group", "group");
  b.trace().functional = true;
  std::vector<ir::ValueId> ids(from.values.size(), ir::kNoValue);
  std::vector<int32_t> locations(from.locations.size(), -1);
  std::vector<bool> made(from.values.size(), false);
  for (const ir::Bind* each : binds)
    for_each_result(*each, [&](ir::ValueId id) { made[id] = true; });
  auto copy_of = [&](ir::ValueId id) {
    ir::Value v = from.value(id);
    v.storage = -1;
    return v;
  };
  // Inputs first, in the order in which they are read.
  for (const ir::Bind* each : binds)
    for_each_arg(*each, [&](ir::ValueId id) {
      if (made[id] || ids[id] != ir::kNoValue) return;
      ir::Value v = copy_of(id);
      v.kind = ir::ValueKind::Input;
      v.constant = at::Tensor();
      ids[id] = b.add_input(std::move(v));
      g.inputs.push_back(id);
    });
  auto mapped = [&](auto item) {
    if (auto* id = std::get_if<ir::ValueId>(&item); id != nullptr && *id != ir::kNoValue)
      *id = ids[*id];
    if (auto* list = std::get_if<ir::ValueList>(&item))
      for (ir::ValueId& id : *list)
        if (id != ir::kNoValue) id = ids[id];
    return item;
  };
  for (const ir::Bind* each : binds) {
    const ir::Bind& bind = *each;
    ir::Bind copy{bind.op, {}, {}, -1, -1, bind.grad_mode};
    if (bind.location >= 0) {
      int32_t& at = locations[static_cast<size_t>(bind.location)];
      if (at < 0) at = b.add_location(from.locations[static_cast<size_t>(bind.location)]);
      copy.location = at;
    }
    for_each_result(bind, [&](ir::ValueId id) { ids[id] = b.add_value(copy_of(id)); });
    for (const ir::Arg& a : bind.args) copy.args.push_back(mapped(a));
    for (const ir::Result& r : bind.results) copy.results.push_back(mapped(r));
    b.add_bind(std::move(copy));
    for_each_result(bind, [&](ir::ValueId id) {
      if (!read_later[id]) return;
      g.outputs.push_back(id);
      b.trace().outputs.push_back(ids[id]);
    });
  }
  b.begin_epilogue();
  g.trace = b.finish();
  return g;
}

}  // namespace fulgurite::exec
