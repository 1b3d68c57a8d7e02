// Which values of a trace are on one memory, as its operators say.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite::ops {

// Values that may share memory are of one group: where the schema of one of PyTorch's operators
// says which of its arguments and results do, these; of any other operator all.
class MemoryGroups {
 public:
  // As far as the binds [0, end) make them.
  MemoryGroups(const ir::Trace& t, size_t end);
  explicit MemoryGroups(const ir::Trace& t) : MemoryGroups(t, t.binds.size()) {}

  // One of the group, the same for all.
  ir::ValueId find(ir::ValueId id);

 private:
  void join(const ir::Bind& b);

  std::vector<ir::ValueId> parent_;
};

// What values are views of, and what they were before an operator wrote them in place.
class MemoryBases {
 public:
  explicit MemoryBases(const ir::Trace& t);

  // The value whose memory `id` has, in the end; itself if it has memory of its own.
  ir::ValueId base(ir::ValueId id) const;
  // Those on the way there with which it shares a version counter, as a view and its base do, the
  // nearest first; `.data` has its own.
  std::vector<ir::ValueId> counted_bases(ir::ValueId id) const;
  // The last of them; itself if there are none.
  ir::ValueId counter(ir::ValueId id) const;

 private:
  std::vector<ir::ValueId> above_;  // kNoValue: memory of its own
  std::vector<bool> counts_;        // with what is above
};

// By value: an input whose memory the trace writes.
std::vector<bool> overwritten_inputs(const ir::Trace& t);

}  // namespace fulgurite::ops
