#include "run/branch_tree.h"

#include <algorithm>

#include "ir/stack.h"
#include "ir/text.h"

namespace fulgurite::run {
namespace {

void drop_dead(std::vector<std::weak_ptr<Branch>>& list) {
  std::erase_if(list, [](const auto& b) { return b.expired(); });
}

std::vector<std::shared_ptr<Branch>> alive(const std::vector<std::weak_ptr<Branch>>& list) {
  std::vector<std::shared_ptr<Branch>> out;
  for (const auto& weak : list)
    if (auto b = weak.lock()) out.push_back(std::move(b));
  return out;
}

}  // namespace

void BranchTree::plant(const std::shared_ptr<Branch>& branch, const Branch* left,
                       const std::vector<std::string>& places) {
  if (!branch->program->core().has_value_guards()) return;
  const bool joins = left != nullptr && left->tree_ != nullptr && !left->tree_->is_worn();
  const auto tree = joins ? left->tree_ : std::make_shared<BranchTree>();
  tree->add(branch, places, joins ? left : nullptr);
}

void BranchTree::add(const std::shared_ptr<Branch>& branch, const std::vector<std::string>& places,
                     const Branch* left) {
  drop_dead(branches_);
  branch->tree_ = shared_from_this();
  branch->serial_ = next_serial_++;
  const ir::Trace& trace = *branch->program->parts().forward;
  branch->steps_ = number_steps(trace, branch->program->core(), places, numbers_);
  for (const Decision& d : branch->steps_.decisions) {
    auto& list = by_answer_[{d.asks, d.answer}];
    drop_dead(list);
    list.push_back(branch);
  }
  branch->is_other_answer_ = left != nullptr && answers_yes_or_no_otherwise(*branch, *left);
  branches_.push_back(branch);
}

// Whether the first question that the two answer differently is one of yes or no.
bool BranchTree::answers_yes_or_no_otherwise(const Branch& b, const Branch& left) {
  const size_t both = std::min(b.steps_.decisions.size(), left.steps_.decisions.size());
  for (size_t i = 0; i < both; ++i) {
    const Decision& ours = b.steps_.decisions[i];
    const Decision& theirs = left.steps_.decisions[i];
    if (ours.is_answered_by(theirs.asks, theirs.answer)) continue;
    const ir::Bind& guard = b.program->parts().forward->binds[ours.step];
    return ours.asks == theirs.asks && std::get<c10::IValue>(guard.args[1]).isBool();
  }
  return false;
}

const Decision* BranchTree::decision_at(const Branch& b, size_t step) const {
  if (b.tree_.get() != this) return nullptr;
  for (const Decision& d : b.steps_.decisions)
    if (d.step == step) return &d;
  return nullptr;
}

BranchTree::Answer BranchTree::answer_of(const Branch& left, const Interrupted& run) {
  const Decision* d = run.at_value_guard ? decision_at(left, run.step) : nullptr;
  if (d == nullptr) return {nullptr, 0, 0};
  return {this, d->asks, run.found};
}

void BranchTree::remember(const Answer& answer, const std::shared_ptr<Branch>& served) {
  if (served->tree_.get() != this) return;
  for (const Decision& d : served->steps_.decisions)
    if (d.is_answered_by(answer.asks, answer.found)) return;  // it is there
  auto& list = by_answer_[{answer.asks, answer.found}];
  drop_dead(list);
  if (std::none_of(list.begin(), list.end(), [&](const auto& b) { return b.lock() == served; }))
    list.push_back(served);
}

bool BranchTree::Answer::excludes(const Branch& b) const {
  if (tree == nullptr || b.tree_.get() != tree) return false;
  for (const Decision& d : b.steps_.decisions)
    if (d.asks == asks) return d.answer != found;
  return false;
}

std::vector<std::shared_ptr<Branch>> BranchTree::next(const Branch& left, const Interrupted& run) {
  const Answer a = answer_of(left, run);
  const auto it = by_answer_.find({a.asks, a.found});
  if (a.tree == nullptr || it == by_answer_.end()) return {};
  std::vector<std::shared_ptr<Branch>> list = alive(it->second);
  std::sort(list.begin(), list.end(),
            [](const auto& x, const auto& y) { return x->last_used > y->last_used; });
  return list;
}

std::shared_ptr<const Handover> BranchTree::handover(const Branch& left, const Interrupted& run,
                                                     const Branch& to) {
  if (!run.at_value_guard || left.tree_.get() != this || to.tree_.get() != this) return nullptr;
  // Enough for each program of a full tree to be left for each other one a few times over.
  constexpr size_t kMost = 8192;
  if (handovers_.size() >= kMost) handovers_.clear();
  const auto key = std::tuple(left.serial_, run.step, to.serial_);
  if (const auto it = handovers_.find(key); it != handovers_.end()) return it->second;
  const auto numbered = [](const Branch& b) {
    return NumberedProgram{*b.program->parts().forward, b.program->core(), b.steps_};
  };
  return handovers_[key] = hand_over(numbered(left), run.step, numbered(to));
}

BranchTree::Room BranchTree::room_beside(const Branch& left, size_t most) {
  if (left.tree_ == nullptr) return {};
  BranchTree& tree = *left.tree_;
  drop_dead(tree.branches_);
  if (tree.branches_.size() < most) return {};
  if (++tree.turned_away_ % kPatience == 0) return {"", tree.used_longest_ago()};
  std::string asked;
  const std::vector<DecisionText> questions = describe(left);
  if (!questions.empty()) asked = " (" + questions.front().place + ")";
  return {"data take more than " + std::to_string(most) + " ways through the function" + asked +
              "; write what depends on data with torch.where, or raise max_branches",
          nullptr};
}

std::shared_ptr<Branch> BranchTree::used_longest_ago() const {
  const auto list = alive(branches_);
  const auto oldest = std::min_element(list.begin(), list.end(), [](const auto& x, const auto& y) {
    return x->last_used < y->last_used;
  });
  return oldest == list.end() ? nullptr : *oldest;
}

std::vector<DecisionText> BranchTree::describe(const Branch& b) {
  std::vector<DecisionText> lines;
  const ir::Trace& t = *b.program->parts().forward;
  for (const Decision& d : b.steps_.decisions) {
    const ir::Bind& guard = t.binds[d.step];
    DecisionText line{d.asks, {}, guard.op.base_name(), {}};
    const auto asked = std::get<ir::ValueId>(guard.args[0]);
    for (size_t i = 0; i < d.step; ++i)
      ir::for_each_result(t.binds[i], [&](ir::ValueId id) {
        if (id == asked) line.what = t.binds[i].op.base_name();
      });
    if (guard.location >= 0) {
      const ir::SourceLocation& at = t.locations[static_cast<size_t>(guard.location)];
      line.place = at.file + ":" + std::to_string(at.line);
    }
    line.answer = ir::constant_text(std::get<c10::IValue>(guard.args[1]),
                                    guard.op.schema().arguments()[1].real_type());
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace fulgurite::run
