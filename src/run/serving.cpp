#include "run/serving.h"

#include <algorithm>

#include "exec/executor.h"
#include "run/result_check.h"

namespace fulgurite::run {

Serving::Ended Serving::run() {
  while ((branch_ = next())) {
    while (branch_) {
      switch (run_program()) {
        case Ran::ToTheEnd:
          if (!answers_.empty()) remember();
          return Ended::Served;
        case Ran::Raised:
          return Ended::Raised;
        case Ran::Failed:
          return Ended::Failed;
        case Ran::DataLeftThePath:
          tried_.push_back(branch_);
          branch_ = next_in_tree();
      }
    }
    run_.put_back();
  }
  return Ended::Unserved;
}

// The next program, in the front end's order, whose guards hold.
std::shared_ptr<Branch> Serving::next() {
  const auto locked = lock();
  size_t i = 0;
  std::shared_ptr<Branch> b;
  while ((b = candidate(i)))
    if (may_serve(b) && holds(b, nullptr)) break;
  return b;
}

// The program that goes on where `branch_` was left; null if the data's way is not known.
std::shared_ptr<Branch> Serving::next_in_tree() {
  const auto locked = lock();
  const std::shared_ptr<BranchTree> tree = branch_->tree();
  from_ = nullptr;
  if (!tree || !run_.at_value_guard) return nullptr;
  left_ = branch_;
  answers_.push_back(tree->answer_of(*branch_, run_));
  for (const std::shared_ptr<Branch>& other : tree->next(*branch_, run_)) {
    if (!may_serve(other) || !is_kept(*other) || !holds(other, branch_.get())) continue;
    from_ = tree->handover(*branch_, run_, *other);
    if (from_ && !other->program->has_same_inputs(inputs_.data(), numbers_, run_, *from_))
      from_ = nullptr;
    if (from_) {
      tree->count_going_on();
    } else {
      run_.put_back();
    }
    return other;
  }
  return nullptr;
}

// The questions that this call has answered lead to the program that served it.
void Serving::remember() {
  const auto locked = lock();
  for (const BranchTree::Answer& a : answers_)
    if (a.tree != nullptr) a.tree->remember(a, branch_);
}

bool Serving::may_serve(const std::shared_ptr<Branch>& branch) const {
  if (std::find(tried_.begin(), tried_.end(), branch) != tried_.end()) return false;
  if (is_refused(*branch)) return false;
  return std::none_of(answers_.begin(), answers_.end(),
                      [&](const BranchTree::Answer& a) { return a.excludes(*branch); });
}

bool Serving::holds(const std::shared_ptr<Branch>& branch, const Branch* held) {
  inputs_.clear();
  numbers_.clear();
  if (check(*branch, held)) return true;
  tried_.push_back(branch);
  return false;
}

Serving::Ran Serving::run_program() {
  try {
    return execute(*branch_->program, run_, from_.get()) ? Ran::ToTheEnd : Ran::DataLeftThePath;
  } catch (const exec::ExecutorError&) {
    failure_ = std::current_exception();
    return Ran::Failed;
  } catch (const WrongResult&) {
    failure_ = std::current_exception();
    return Ran::Failed;
  } catch (const WriteBackFailed& e) {
    wrote_ = true;
    error_ = e.what();
  } catch (const c10::Error& e) {
    error_ = e.what_without_backtrace();
  } catch (const std::exception& e) {
    error_ = e.what();
  }
  return Ran::Raised;
}

}  // namespace fulgurite::run
