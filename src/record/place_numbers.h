// Puts the numbers that are free into the binds that use them, and their calculations before those.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "record/numbers.h"

namespace fulgurite::record {

struct PendingBind {
  ir::Bind bind;
  bool dead = false;  // raised, or part of a composite that is kept whole
};

// The numbers that became inputs: their nodes and values, in the order of the inputs.
struct PlacedNumbers {
  std::vector<int> inputs;
  std::vector<ir::ValueId> ids;
};

// Makes a value of the trace for a number; an empty name stands for any.
using NewNumber = std::function<ir::ValueId(const c10::IValue&, ir::ValueKind, std::string)>;

PlacedNumbers place_numbers(Numbers& numbers, std::vector<PendingBind>& binds,
                            const NewNumber& new_number);

}  // namespace fulgurite::record
