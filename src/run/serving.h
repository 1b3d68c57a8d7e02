// How the programs of a function serve a call: the part that both front ends have in common.
//
// Programs are tried in the front end's order. One whose guards hold runs; where its data leave the
// recorded path, the programs that share the way so far go on from there (run/branch_tree.h), and
// only if none of them knows the data's way does the call begin again with another program, or end
// unserved.
#pragma once

#include <c10/util/SmallVector.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "run/branch_tree.h"

namespace fulgurite::run {

class Serving {
 public:
  enum class Ended { Unserved, Served, Raised, Failed };

  Serving() = default;
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  virtual ~Serving() = default;

  // If the call stays unserved, nothing has happened.
  Ended run();

  // The program that served, or raised.
  const std::shared_ptr<Branch>& branch() const { return branch_; }
  const std::string& error() const { return error_; }
  // Of one that raised: it had begun to write what the caller can see.
  bool wrote() const { return wrote_; }
  // Of one that failed: what the caller must hear, since eager's result would hide it. What an
  // executor did (ExecutorError), or what `check_results` found (WrongResult).
  const std::exception_ptr& failure() const { return failure_; }
  // Of an unserved call: the last program that was left because of the data; null if there is none.
  const std::shared_ptr<Branch>& left() const { return left_; }

 protected:
  // The first of the function's programs at or after number `i`, which is then the next number;
  // null behind the last one.
  virtual std::shared_ptr<Branch> candidate(size_t& i) = 0;
  virtual bool is_kept(const Branch& branch) const = 0;  // it is one of them still
  // It is known that its guards do not hold.
  virtual bool is_refused(const Branch& /*branch*/) const { return false; }
  // Whether its guards hold; then its inputs are in `inputs_` and `numbers_`. `held`: one whose
  // guards have been found to hold.
  virtual bool check(Branch& branch, const Branch* held) = 0;
  // Held while programs are looked for, not while they run.
  virtual std::unique_lock<std::mutex> lock() { return {}; }
  // False if its data leave the recorded path.
  virtual bool execute(const Compiled& program, Interrupted& run, const Handover* from) = 0;

  std::vector<const at::Tensor*> inputs_;
  std::vector<c10::IValue> numbers_;

 private:
  enum class Ran { ToTheEnd, DataLeftThePath, Raised, Failed };

  std::shared_ptr<Branch> next();
  std::shared_ptr<Branch> next_in_tree();
  void remember();
  bool may_serve(const std::shared_ptr<Branch>& branch) const;
  bool holds(const std::shared_ptr<Branch>& branch, const Branch* held);
  Ran run_program();

  std::shared_ptr<Branch> branch_;
  Interrupted run_;
  std::shared_ptr<const Handover> from_;
  c10::SmallVector<std::shared_ptr<Branch>, 4> tried_;
  std::vector<BranchTree::Answer> answers_;
  std::shared_ptr<Branch> left_;
  std::string error_;
  bool wrote_ = false;
  std::exception_ptr failure_;
};

}  // namespace fulgurite::run
