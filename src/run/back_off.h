// When to record again after recordings that gave no program: each costs, and is worth it when the
// cause may go away (caches filled, state created).
#pragma once

#include <algorithm>
#include <cstdint>

namespace fulgurite::run {

class BackOff {
 public:
  uint64_t failures() const { return failures_; }  // in a row

  void count_failure() { ++failures_; }
  // The next calls are not recorded: none of them after less than three failures, then 1, 3, 7, ...
  void wait() {
    calls_ = failures_ < 3 ? 0 : (uint64_t{1} << std::min<uint64_t>(failures_ - 2, 10)) - 1;
  }
  void wait_long() {
    failures_ = std::max<uint64_t>(failures_ + 1, 6);
    wait();
  }
  void do_not_wait() { calls_ = 0; }
  void succeeded() { failures_ = 0; }
  void clear() { failures_ = calls_ = 0; }
  // Whether this call is one of those that are not recorded.
  bool passes() {
    if (calls_ == 0) return false;
    --calls_;
    return true;
  }

 private:
  uint64_t failures_ = 0;
  uint64_t calls_ = 0;  // that are not recorded, from now on
};

}  // namespace fulgurite::run
