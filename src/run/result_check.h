// Option `check_results`: a plan that compares what each step gives with the type that the trace
// declares. A gradient rule or a copy that declares other strides than it gets makes a later step
// read elements that are not there; here it is an error that names the step.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/errors.h"
#include "run/plan.h"

namespace fulgurite::run {

class WrongResult : public Error {
 public:
  explicit WrongResult(const std::string& message) : Error("FG-902", message) {}
};

// What registers must hold.
struct DeclaredTypes {
  struct Register {
    int32_t index;
    std::string name;
    std::variant<ir::TensorType, ir::ScalarKind> type;
    bool any_shape;  // as the data want it: a value guard follows
  };
  std::vector<Register> registers;
  std::string trace;  // "f, after reinplace"

  explicit DeclaredTypes(const ir::Trace& t);
  void add(const ir::Trace& t, ir::ValueId id, bool any_shape = false);
  // Throws WrongResult, where `who` gave what the frame has. `may_be_empty`: not all need to be
  // there.
  void check(const Frame& frame, const std::string& who, bool may_be_empty) const;
};

// What a step of a plan declares.
struct ResultCheck {
  Execute execute;  // of the step itself
  DeclaredTypes results;
  std::string who;  // "aten.sin, train.py:6"
  bool below_autograd;
};

// Of the registers that hold something when the plan begins: inputs, constants, what another plan
// left.
DeclaredTypes declared_types(const ir::Trace& trace);

std::shared_ptr<const ResultCheck> result_check(const ir::Trace& trace, const ir::Bind& bind,
                                                Execute execute, bool below_autograd);
// Runs the step, and looks at its results.
void run_checked(const Instruction& in, Frame& frame, std::vector<c10::IValue>& stack);

// The same for a bind that no plan runs.
void check_results(const ir::Trace& trace, const ir::Bind& bind, const Frame& frame);

}  // namespace fulgurite::run
