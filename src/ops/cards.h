// Op cards: what has to be said about an operator that its schema and tags do not say. An operator
// without a card is described by its schema. Cards are data: `cards.cpp` is the list.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/op.h"

namespace fulgurite::ops {

enum Trait : uint32_t {
  kNone = 0,
  kReadsMetadata = 1 << 0,  // returns numbers that depend on shapes, dtypes and modes only
  kUninitialised = 1 << 1,  // allocates without writing
  kLiftsConstant = 1 << 2,
  kCutsGradient = 1 << 3,  // gradients do not pass
  kIdentity = 1 << 4,      // a view with the geometry of argument 0 itself
  kEffect = 1 << 5,        // must run although nobody uses its results
  kDataDependentShape = 1 << 6,
  kCopies = 1 << 7,          // copy_
  kOwnInverse = 1 << 8,      // a permutation of dimensions that undoes itself
  kReadsIntegers = 1 << 10,  // a composite that reads an integer tensor without an operator for it
  kNoVersionBump = 1 << 11,  // writes arguments without bumping their versions
  kGradientChecksData = 1 << 12,  // and raises for some
  kPermutes = 1 << 9,             // a permutation of dimensions by argument 1
  kShapeByMasks = 1 << 13,    // of those with a data-dependent shape: only if an index is a mask
  kKeepsTensors = 1 << 14,    // may hold on to its arguments and results
  kValueGuard = 1 << 15,      // abandons the run unless a value is the one that was recorded
  kKeepsOffset = 1 << 16,     // the result has the storage offset of argument 0
  kSharesMemory = 1 << 17,    // results are on the memory of argument 0, unknown to autograd
  kOwnHistory = 1 << 18,      // results get their history from a step of the call, not from a rule
  kHandsOnNumbers = 1 << 19,  // a composite that only gives its floats to a part, by their names
  kAnyContents = 1 << 20,     // raises for no contents of its tensors, without a tag that says so
  kChecksContents = 1 << 21,  // a pointwise operator that raises for some
  kChecksIntegers = 1 << 22,  // ... for some integers: it divides by them
  kChecksNumbers = 1 << 23,   // a pointwise operator that raises for some numbers
  kTakesNoConjugate = 1 << 24,
};

struct Card {
  const char* name;  // "aten::detach"; every overload
  uint32_t traits;
  // Operators whose schema hides a write: the arguments written (when argument `only_if` is true,
  // -1: always), and the operator that returns the new contents after its ordinary results instead.
  std::vector<int> hidden_writes = {};
  int only_if = -1;
  const char* functional = nullptr;
  // For a view: the operator that writes a new value of the view back into its base; it takes
  // (base, new value of the view, the view's other arguments).
  const char* scatter = nullptr;
  // For a view that shows other values than its base has: the operator that inverts it.
  const char* inverse = nullptr;
  // The operator that computes the same of the first arguments, and has a gradient for all dtypes.
  const char* differentiable = nullptr;
};

// nullptr if the operator has none.
const Card* card_of(const ir::Op& op);
// The card of the view that this operator writes back; nullptr if it is no scatter.
const Card* card_by_scatter(const std::string& name);

// For operators that are defined while the program runs (those of executors): before their first
// use. All overloads of `name` get these traits.
void add_card(const std::string& name, uint32_t traits);

}  // namespace fulgurite::ops
