// Numbers that Python holds while a program is recorded, and where they go.
//
// A number comes from outside (an argument, an attribute: an *input*), out of a tensor (a *read*),
// or from arithmetic on such numbers (a *calculation*). Whoever watches Python tells of each and of
// its uses. In the end a number whose uses are all understood is a value of the trace; one that
// went elsewhere is *fixed*: the trace has it as a constant, and a guard on its exact value holds.
// A number that is fixed never makes the numbers that were calculated from it wrong, since they are
// then calculated from the same constant.
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::record {

// How far a recording is.
struct Mark {
  size_t binds = 0;
  size_t regions = 0;
};

// Where a number stands in the call of an operator.
struct NumberPlace {
  int node;
  int position = -1;        // among the positional arguments, self included; -1: by keyword
  std::string keyword{};    // its name then
  int element = -1;         // in a list
  bool is_operand = false;  // of x * n or n * x: position 0 or 1, the other one is a tensor
};

class Numbers {
 public:
  // All return a node. Values are int64 or double (bool for comparisons).
  int input(c10::IValue value, std::string name);
  int read(c10::IValue value, ir::ValueId id, size_t expectation);  // expectation: its guard's bind
  int calculate(const ir::Op& op, int a, int b, c10::IValue value);  // b: -1 if unary
  int constant(c10::IValue value);

  // A comparison came out so: the program is made for that.
  void check(int comparison, size_t before, int32_t region, int32_t location);
  void use(size_t bind, size_t argument, int element, int node);
  void fix(int node);
  void fix_all_like(const c10::IValue& value);  // every number that has this value

  bool is_free(int node) const;
  bool is_fixed(int node) const { return !is_free(node); }
  const c10::IValue& value(int node) const { return nodes_[static_cast<size_t>(node)].value; }

  enum class Kind : uint8_t { Input, Read, Constant, Calculation };
  struct Node {
    Kind kind;
    c10::IValue value;
    std::string name;
    ir::ValueId id = ir::kNoValue;  // of a read; of others once they are in the trace
    size_t expectation = 0;
    std::optional<ir::Op> op{};
    int a = -1, b = -1;
    bool fixed = false;
  };
  struct Use {
    size_t bind, argument;
    int element, node;
  };
  struct Check {
    size_t before;  // the bind
    int node;
    int32_t region, location;
  };
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Use>& uses() const { return uses_; }
  const std::vector<Check>& checks() const { return checks_; }

 private:
  std::vector<Node> nodes_;
  std::vector<Use> uses_;
  std::vector<Check> checks_;
};

// A number that may vary although the gradient formula of its operator looks at it.
struct VaryingNumber {
  std::vector<c10::IValue> excluded;  // values that it must not have
  // The binds of the formula, run for some other number, and where that stands in them: bind and
  // argument. Null: not known.
  std::shared_ptr<const std::vector<ir::Bind>> steps;
  std::vector<std::pair<size_t, size_t>> places;
};
// Nothing if it cannot vary in the gradient of `bind` (passes/number_rules.h, which is a layer
// above).
using NumberHook = std::optional<VaryingNumber> (*)(const ir::Bind& bind,
                                                    const std::vector<ir::Value>& values,
                                                    size_t argument);
void set_number_hook(NumberHook hook);
NumberHook number_hook();
bool has_gradient(const ir::Bind& bind, const std::vector<ir::Value>& values);

// The argument of `bind` that the number at `place` became; nothing if that is not beyond doubt.
std::optional<size_t> argument_of(const ir::Bind& bind, const std::vector<ir::Value>& values,
                                  const NumberPlace& place, const c10::IValue& value);
// The name of the argument of `op` at that place; "" if there is none.
std::string name_of(const ir::Op& op, const NumberPlace& place);
// Whether an argument of the bind is a constant number (dtypes, sizes and the like are none).
bool has_constant_number(const ir::Bind& bind);
bool same_number(const c10::IValue& a, const c10::IValue& b);

}  // namespace fulgurite::record
