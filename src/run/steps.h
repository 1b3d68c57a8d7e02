// What the steps of a program compute, by number, so that programs which were recorded behind the
// same guards can be compared: where one leaves its path, another has what it needs of the way so
// far (run/handover.h).
//
// Numbers are given by one Numbers for all programs that are compared. Two values have the same
// number only if they are results of the same operator with the same constants, on the same inputs
// of the call, in the same grad mode; a program that computes the same twice has two numbers, so
// that what shares memory in one program does so in the other. An in-place operator computes what
// its functional variant does; other names of the memory that it writes get new numbers.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/trace.h"
#include "run/plan.h"

namespace fulgurite::run {

// Equal texts, equal numbers.
class Numbers {
 public:
  int32_t of(const std::string& text);
  int32_t unique() { return next_++; }
  size_t size() const { return numbers_.size(); }

 private:
  std::unordered_map<std::string, int32_t> numbers_;
  int32_t next_ = 0;
};

struct Step {
  int32_t computes;
  std::vector<std::pair<ir::ValueId, int32_t>> results;    // what registers hold after it
  std::vector<std::pair<ir::ValueId, int32_t>> rewritten;  // others, on memory that it writes
  bool draws;                                              // from a random generator, or may do so
  bool effect;  // it must run although nobody uses its results
};

// A value guard, in the order in which the program asks.
struct Decision {
  size_t step;
  int32_t asks;     // the same number: the same question after the same answers
  uint64_t answer;  // the hash of what is expected (ops/value_guard.h)
  bool is_answered_by(int32_t question, uint64_t found) const {
    return asks == question && answer == found;
  }
};

struct Steps {
  std::vector<std::pair<ir::ValueId, int32_t>> inputs;  // and constants: what they hold
  std::vector<Step> steps;
  std::vector<Decision> decisions;
  // By register: memory that some step writes, or that is kept under several names: all of it is
  // taken from another program, or nothing. -1: no such memory.
  std::vector<int32_t> memory;
  size_t first_input_write = 0;  // the step that first writes what the caller can see
};

// `places`: for each input of the trace, where the call has it from.
Steps number_steps(const ir::Trace& trace, const Plan& core, const std::vector<std::string>& places,
                   Numbers& numbers);

}  // namespace fulgurite::run
