// Programs of one function behind the same guards, which go different ways because the data do: a
// tree, whose inner nodes are value guards (questions about data) and whose leaves are programs.
//
// A program that fails at a value guard says what the guard found. The programs that ask the same
// there, after the same answers, and go on with what was found, are those that can serve the call;
// they start with what was computed so far (run/handover.h). If there are none, the data go a way
// that is not known yet.
//
// A tree is not thread-safe: whoever has it locks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "run/compiled.h"

namespace fulgurite::run {

class BranchTree;

// What both front ends' entries are.
class Branch {
 public:
  std::shared_ptr<const Compiled> program;
  uint64_t hits = 0;
  uint64_t last_used = 0;           // by the front end's clock
  double record_milliseconds = 0;   // the recorded call
  double compile_milliseconds = 0;  // passes and plan

  // Null for a program without value guards.
  const std::shared_ptr<BranchTree>& tree() const { return tree_; }
  // It was recorded because a yes-or-no question of another one was answered differently.
  bool is_other_answer() const { return is_other_answer_; }

 private:
  friend class BranchTree;
  std::shared_ptr<BranchTree> tree_;
  Steps steps_;
  uint64_t serial_ = 0;
  bool is_other_answer_ = false;
};

// A question on the way to a program, for people.
struct DecisionText {
  int32_t asks;       // the same number: the same node of the tree
  std::string place;  // "train.py:12", "" if unknown
  std::string what;   // the operator that made the value
  std::string answer;
};

class BranchTree : public std::enable_shared_from_this<BranchTree> {
 public:
  // `left`: the program that was left because of the data, null for the first of a tree. `places`:
  // for each input of the program, where a call has it from: the same text, the same place.
  static void plant(const std::shared_ptr<Branch>& branch, const Branch* left,
                    const std::vector<std::string>& places);

  // The programs that may go on where `left` was interrupted, those used last first.
  std::vector<std::shared_ptr<Branch>> next(const Branch& left, const Interrupted& run);
  // How; null if `to` has to begin at its start.
  std::shared_ptr<const Handover> handover(const Branch& left, const Interrupted& run,
                                           const Branch& to);

  // Questions that a call has answered otherwise than a program expects: that program is not for
  // it.
  struct Answer {
    BranchTree* tree;
    int32_t asks;
    uint64_t found;
    bool excludes(const Branch& b) const;
  };
  Answer answer_of(const Branch& left, const Interrupted& run);
  // A program that does not ask this (passes may make two programs of one beginning) and served the
  // call all the same: it comes next when the answer comes again.
  void remember(const Answer& answer, const std::shared_ptr<Branch>& served);

  // So many different steps have been numbered that another tree should be begun.
  bool is_worn() const { return numbers_.size() > kMostNumbers; }

  // Whether one more program may be recorded beside `left`, where there may be `most`. A tree that
  // is full turns most calls away, but not all, so that it follows what the data do.
  struct Room {
    std::string refusal;           // why not; "" if it may
    std::shared_ptr<Branch> goes;  // has to make room, if it is not null
  };
  static Room room_beside(const Branch& left, size_t most);

  uint64_t went_on() const { return went_on_; }  // runs that began with what another had computed
  void count_going_on() { ++went_on_; }

  static std::vector<DecisionText> describe(const Branch& b);

 private:
  void add(const std::shared_ptr<Branch>& branch, const std::vector<std::string>& places,
           const Branch* left);
  static bool answers_yes_or_no_otherwise(const Branch& b, const Branch& left);

  static constexpr uint64_t kPatience = 64;
  static constexpr size_t kMostNumbers = 200000;
  std::shared_ptr<Branch> used_longest_ago() const;
  const Decision* decision_at(const Branch& b, size_t step) const;

  Numbers numbers_;
  uint64_t next_serial_ = 1;
  uint64_t turned_away_ = 0;
  uint64_t went_on_ = 0;
  std::vector<std::weak_ptr<Branch>> branches_;
  std::map<std::pair<int32_t, uint64_t>, std::vector<std::weak_ptr<Branch>>> by_answer_;
  // By serial number and step of the program left, serial number of the other.
  std::map<std::tuple<uint64_t, size_t, uint64_t>, std::shared_ptr<const Handover>> handovers_;
};

}  // namespace fulgurite::run
