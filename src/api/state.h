// What a jitted C++ function remembers: its compiled programs, each with its guards, and counters.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "fulgurite/fulgurite.h"
#include "run/back_off.h"
#include "run/branch_tree.h"
#include "run/modes.h"
#include "run/tensor_guard.h"

namespace fulgurite::api {

// The arguments of a call without those that are undefined tensors.
struct Given {
  explicit Given(const detail::Arguments& arguments);
  c10::SmallVector<std::int64_t, 8>
      layout;  // of the arguments, then the index of each undefined tensor
  c10::SmallVector<const at::Tensor*, 8> tensors;
};

// Whether `t` is a leaf that has a .grad (to ask another tensor for it is a warning of PyTorch's).
bool has_grad(const at::Tensor& t);

// A tensor input that is the .grad of another input.
struct GradInput {
  std::size_t of;  // index of that input
};

// One compiled specialisation. Its inputs are the distinct tensors given, then .grad's of some of
// these.
class Entry : public run::Branch {
 public:
  run::Modes modes;
  c10::SmallVector<std::int64_t, 8> layout;
  std::vector<run::TensorGuard> tensors;  // those given, then the .grad's
  std::vector<std::size_t> distinct;      // which of those given are inputs
  run::AliasGuard aliases;
  bool check_aliases = false;
  std::vector<GradInput> grad_inputs;
  bool touches_grad = false;
  std::vector<bool> grad_defined;  // per distinct tensor, if the program touches .grad
  std::vector<std::int64_t> result_lengths;

  // Whether the call may be served; then `inputs` are the program's, and `scratch` keeps them
  // alive.
  bool check(const Given& given, const run::Modes& now, std::vector<const at::Tensor*>& inputs,
             std::vector<at::Tensor>& scratch) const;
  // The first guard that fails, in words; "" if all hold.
  std::string explain_failure(const Given& given, const run::Modes& now) const;
  std::vector<std::string> guard_lines() const;
  // Where each input of the program comes from.
  std::vector<std::string> places() const;
};

}  // namespace fulgurite::api

namespace fulgurite {

struct JitFunction::State {
  std::string name;
  Options options;
  std::string file;
  int line = 0;
  exec::ExecutorList executors;

  std::mutex mutex;  // for all below; held while guards are checked, never while a program runs
  std::vector<std::shared_ptr<api::Entry>> entries;  // most recently used first
  std::uint64_t clock = 0;                           // of Entry::last_used
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::vector<Fallback> fallbacks;
  std::vector<std::string> recompiles;
  run::BackOff back_off;
  // What was registered with executors when the entries were made: of all, and of ours.
  std::atomic<std::uint64_t> seen_generation = 0;
  std::uint64_t executors_generation = 0;

  // Drops the programs if an executor of ours has changed since they were made.
  void follow_executors();

  void fall_back(const std::string& code, const std::string& reason);
};

}  // namespace fulgurite
