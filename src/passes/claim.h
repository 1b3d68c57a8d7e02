// claim: each operator is given to the first executor of the list that will have it.
//
//   t0 = torch.mm(x, w)           t0 = torch.ops.mine.mm(x, w)
//   t1 = torch.sin(t0)       =>   t1 = torch.sin(t0)
//
// What is claimed is called by the executor's own operator from then on. Executors are a layer
// above the passes (exec/claim.h): this is what the pipeline knows of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::passes {

// Who took an operator, and why executors that had an offer for it did not.
struct Claim {
  std::string op;        // id of the operator as the program has it; of a region: of the composite
  std::string executor;  // "": a composite that nobody took as a whole, so that its parts followed
  std::string place;     // "train.py:6", "" if unknown
  size_t operators = 1;  // how many binds it stood for
  std::vector<std::pair<std::string, std::string>> declined;  // executor, reason
};

struct Claimed {
  ir::TracePtr trace;
  std::vector<Claim> claims;
  std::vector<std::shared_ptr<const void>> kept;  // kernels that live as long as the program
};

// `keep` are values that are read after the trace, beside its outputs. An empty function leaves
// everything to ATen.
using Claimer =
    std::function<Claimed(const ir::TracePtr& trace, const std::vector<ir::ValueId>& keep)>;

}  // namespace fulgurite::passes
