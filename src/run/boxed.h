// The boxed side of an instruction: operands onto the stack, results into the frame.
#pragma once

#include "run/plan.h"

namespace fulgurite::run {

void push_operands(const Instruction& in, const Frame& frame, std::vector<c10::IValue>& stack);
// Takes the results, one per return of the schema, off the stack. Throws ValueGuardFailed if a list
// has another length than recorded.
void store_results(const Instruction& in, Frame& frame, std::vector<c10::IValue>& stack);

}  // namespace fulgurite::run
