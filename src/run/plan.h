// A plan is the flat program that a call runs: instructions over registers, each a kernel call
// through the dispatcher's boxed or typed convention, with the registers that die after it.
// Everything that could be decided when the program was compiled was: no names, no look-ups, no
// types are inspected at run time.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::run {

// Registers of one run. Registers of values keep their ValueIds.
using Frame = std::vector<c10::IValue>;

struct Instruction;
struct ExecutorCall;   // run/executor_call.h
struct DeclaredTypes;  // run/result_check.h
struct ResultCheck;
// Runs one instruction; `stack` is scratch space.
using Execute = void (*)(const Instruction&, Frame&, std::vector<c10::IValue>& stack);

// An argument of an instruction.
struct Operand {
  // Number: a register that holds a number where the schema wants a Tensor.
  enum class Kind : uint8_t { Register, Number, Constant, List } kind;
  int32_t index;  // a register, an index into Plan::constants, or into Plan::lists
};

struct Instruction {
  Execute execute;
  c10::OperatorHandle op;
  const c10::IValue* constants;
  const std::vector<int32_t>* lists;
  std::vector<Operand> operands;
  std::vector<int32_t>
      results;  // one register or -1 per return; -2 - k: list number k of result_lists
  std::vector<std::vector<int32_t>> result_lists;
  std::vector<int32_t> frees;       // registers dead after it
  std::vector<c10::TypePtr> types;  // per operand, of lists and numbers only
  bool grad_mode;
  std::shared_ptr<const ExecutorCall> own = nullptr;   // set if an executor's operator is called
  std::shared_ptr<const ResultCheck> check = nullptr;  // set if results are checked
};

class Plan {
 public:
  // The binds [begin, end) of the trace. Values in `keep` are not freed; constants are the caller's
  // to load. `check_results`: against what the trace declares (run/result_check.h).
  Plan(const ir::Trace& trace, size_t begin, size_t end, const std::vector<ir::ValueId>& keep,
       bool check_results);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Runs in the caller's dispatch state (see below_autograd.h); sets GradMode per instruction where
  // it changes. Throws what operators throw, and prims::ValueGuardFailed.
  void run(Frame& frame) const;
  // From instruction `first` on; `at` is then the instruction that threw ValueGuardFailed.
  void run(Frame& frame, size_t first, size_t& at) const;
  // Some instructions only, in this order.
  void run(Frame& frame, const std::vector<size_t>& some) const;

  size_t registers() const { return registers_; }
  size_t size() const { return instructions_.size(); }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  bool draws_random_numbers() const { return random_; }
  bool has_value_guards() const { return value_guards_; }

 private:
  size_t registers_;
  std::vector<Instruction> instructions_;
  std::vector<c10::IValue> constants_;
  std::vector<std::vector<int32_t>> lists_;
  std::shared_ptr<const DeclaredTypes> declared_;  // set if results are checked
  bool random_ = false;
  bool value_guards_ = false;
  bool uniform_grad_mode_ = true;
};

}  // namespace fulgurite::run
