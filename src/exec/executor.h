// Executors run operators. An executor has a name, a version, and for each operator that it
// implements an *offer*: an operator of its own that runs in its place, or a transform that writes
// it in other operators; and a checker, which may decline. The pass claim (exec/claim.h) gives each
// operator of a program to the first executor of an ordered list that will have it. `aten`, the
// dispatcher's own kernels, takes everything.
//
// Nothing here knows Python: what Python registers is a std::function or an Implementation.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/errors.h"
#include "ir/op.h"
#include "ir/trace.h"

namespace fulgurite::exec {

// A function on the dispatcher's boxed convention: takes its arguments from the stack, leaves its
// results there. Called from any thread.
class Implementation {
 public:
  virtual ~Implementation() = default;
  virtual void run(std::vector<c10::IValue>& stack) const = 0;
};
using ImplementationPtr = std::shared_ptr<const Implementation>;
// For implementations written in C++.
ImplementationPtr implementation(std::function<void(std::vector<c10::IValue>&)> function);

// What an executor registered is at fault: its checker raised, its operator failed or returned
// something else than its meta function says. The message names executor, operator and line.
// Unlike a Refusal it is told to the user, since eager's result would hide it.
class ExecutorError : public Error {
 public:
  ExecutorError(std::string code, const std::string& message, std::exception_ptr from = nullptr)
      : Error(std::move(code), message), cause(std::move(from)) {}
  std::exception_ptr cause;
};

// One operator that is looking for an executor: a bind, or a region as a whole.
struct Candidate {
  const ir::Trace& trace;
  const ir::Op& op;
  const std::vector<ir::Arg>& args;
  const std::vector<ir::Result>& results;
  int32_t location;
};

struct Verdict {
  bool takes = true;
  std::string reason;  // for declining; may be empty
};
using Checker = std::function<Verdict(const Candidate&)>;  // an empty one takes everything

// How an executor runs an operator: one of `as` and `transform` is there.
struct Offer {
  std::optional<ir::Op> as;     // an operator of its own (exec/operators.h)
  ImplementationPtr transform;  // runs on sample tensors, and is recorded (exec/transform.h)
  Checker checker;
};

// Makes one kernel of a group of operators. Returns nullptr, with a reason, if it will not.
using Fuse = std::function<ImplementationPtr(const ir::TracePtr& group, std::string& reason)>;

class Executor {
 public:
  // Throws UserError FG-401 if the name cannot be one: it is also a namespace of operators.
  Executor(std::string name, std::string version);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  // The namespace of its operators: its name, numbered if another executor had that name before.
  const std::string& operator_namespace() const { return namespace_; }
  bool takes_everything() const { return takes_everything_; }

  // Offers to run `op`, in place of an earlier offer for it. Throws UserError FG-405 if `as` cannot
  // stand in its place.
  void implement(const ir::Op& op, Offer offer);
  std::shared_ptr<const Offer> offer(const ir::Op& op) const;  // nullptr: none
  std::vector<std::string> implemented() const;                // ids, sorted

  // For executors that fuse: which operators may be part of a group, and what makes a kernel of it.
  void fuse_with(Fuse fuse);
  void support(const ir::Op& op, Checker checker);
  std::shared_ptr<const Checker> supports(const ir::Op& op) const;  // nullptr: no
  Fuse fuse() const;

  // Until it is deregistered.
  bool is_active() const { return active_.load(std::memory_order_acquire); }
  void set_active(bool active) { active_.store(active, std::memory_order_release); }

  // Grows with every change; programs made before one are dropped.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  void changed();

 private:
  friend const std::shared_ptr<Executor>& aten();
  struct Aten {};
  explicit Executor(Aten) : name_("aten"), namespace_("aten"), takes_everything_(true) {}

  std::string name_, version_, namespace_;
  bool takes_everything_ = false;
  mutable std::mutex mutex_;
  std::unordered_map<ir::Op, std::shared_ptr<const Offer>> offers_;
  std::unordered_map<ir::Op, std::shared_ptr<const Checker>> supported_;
  Fuse fuse_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> active_{true};
};
using ExecutorPtr = std::shared_ptr<Executor>;
using ExecutorList = std::vector<ExecutorPtr>;

const ExecutorPtr& aten();

// Of everything that is registered: a program asks it in every call, and looks closer if it grew.
uint64_t generation();
// Of these executors alone.
uint64_t generation_of(const ExecutorList& list);

// Can a bind of `as` stand where one of `op` is? It must have the same results, and its arguments
// must be the first ones of `op`, in order; the rest must have defaults. Otherwise says why not.
bool can_stand_for(const ir::Op& as, const ir::Op& op, std::string* why_not);

}  // namespace fulgurite::exec
