// Groups of operators for executors that fuse.
//
//   t0 = torch.mul(x, 2)              group(x):                 t3 = torch.mm(y, y)
//   t3 = torch.mm(y, y)       =>        t0 = torch.mul(x, 2)    t1 = mine.fused([x], 0)
//   t1 = torch.sin(t0)                  t1 = torch.sin(t0)
//
// A group may be run in one piece: nothing outside it comes between its members, that is, depends
// on one and is needed by another. Operators with effects (random ones, value guards) end it, so
// that their order stays.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite::exec {

// The binds by index, in an order in which they may run, and which of them are groups.
struct Piece {
  std::vector<size_t> binds;
  bool is_group;
};
std::vector<Piece> group(const std::vector<const ir::Bind*>& binds, size_t values,
                         const std::vector<bool>& is_member);

// A group as a trace of its own: inputs are what it reads, outputs what is read of it later.
struct GroupTrace {
  ir::TracePtr trace;
  std::vector<ir::ValueId> inputs, outputs;  // ids of the program, in order
};
GroupTrace extract(const std::vector<const ir::Bind*>& binds, const ir::Trace& from,
                   const std::vector<bool>& read_later);

}  // namespace fulgurite::exec
