// Executors in C++: who runs an operator.
//
//     fulgurite::OperatorExecutor mine("mine", "0.1");
//     mine.register_operator("sine", "(Tensor x) -> Tensor", my_sine, my_sine_meta);
//     mine.register_implementation("aten::sin", "sine");
//     fulgurite::Options options;
//     options.executors = {"mine"};
//     auto f = fulgurite::jit(function, options);
//
// Each operator of a program goes to the first executor of the list that will have it; `aten` takes
// everything and is last. What is registered here serves programs of Python too, and the other way
// round. Mistakes are std::invalid_argument with a code of docs/errors.md (FG-40x); what an
// implementation does wrong in a call is an std::runtime_error (FG-41x).
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fulgurite {

namespace exec {
class Executor;
}

class OperatorExecutor {
 public:
  // On the dispatcher's boxed convention: takes all arguments from the stack, leaves the results.
  // Called from any thread.
  using Function = std::function<void(std::vector<c10::IValue>& stack)>;
  // Gets the arguments of the operator when a program is compiled: tensors on the device meta
  // (sizes, strides and dtype are those of the program), and constants. Returns "" to take the
  // operator, or the reason for declining it.
  using Checker = std::function<std::string(const std::vector<c10::IValue>& arguments)>;

  // Makes an executor, and makes it known by its name, in place of one that had the name before.
  explicit OperatorExecutor(const std::string& name, const std::string& version = "");

  // An operator "<name of the executor>::<name>" with this schema. `meta` gets tensors on the
  // device meta, and returns some like the results.
  void register_operator(const std::string& name, const std::string& schema, Function function,
                         Function meta) const;
  // Offers to run `op` ("aten::add.Tensor") by an operator of this executor.
  void register_implementation(const std::string& op, const std::string& by,
                               Checker checker = {}) const;
  void deregister() const;

  const std::string& name() const;

 private:
  std::shared_ptr<exec::Executor> executor_;
};

}  // namespace fulgurite
