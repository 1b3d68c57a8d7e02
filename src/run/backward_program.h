// The backward of a compiled program, and the parts of it that run when only some of the outputs
// take part, or only some gradients are wanted: eager does not run the nodes that it does not need,
// and what they need may be gone by then.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ir/trace.h"
#include "run/plan.h"

namespace fulgurite::run {

// Which cotangents are defined, and which gradients are wanted.
struct Asked {
  std::vector<bool> cotangents, gradients;
  auto operator<=>(const Asked&) const = default;
};

// `whole` without what `asked` does not need. What depends on undefined cotangents only is zero; a
// gradient that is zero becomes kNoValue. `linear`: every operator is linear in the cotangents.
// Inputs and their ids stay.
ir::TracePtr part_of(const ir::TracePtr& whole, const Asked& asked, bool linear);

struct BackwardPart {
  ir::TracePtr trace;
  std::unique_ptr<Plan> plan;
  std::vector<bool> takes;  // by input of the trace
  // The steps of the whole that are in it: binds that use both saved values and cotangents, as
  // nodes of eager's graph do that save something.
  std::vector<size_t> steps;
  bool raises = false;  // a value that it needs was overwritten in the call (prims.overwritten)
};

class BackwardProgram {
 public:
  // `whole`: after claim, before reinplace, which `reinplaced` may have been given. `unclaimed`:
  // the same before claim, whose operators say which gradient depends on which cotangent. `linear`
  // and `check_results` (run/plan.h) as above.
  BackwardProgram(ir::TracePtr whole, ir::TracePtr reinplaced, const ir::Trace& unclaimed,
                  bool linear, bool check_results);

  const BackwardPart& whole() const { return *whole_part_; }
  // Thread-safe; made when first asked for. Gradients that depend on undefined cotangents only are
  // undefined.
  std::shared_ptr<const BackwardPart> part(Asked asked) const;
  const ir::Trace& trace() const { return *whole_; }
  // Whether all steps that need a saved value are among `done` (by bind of the whole).
  bool is_spent(size_t slot, const std::vector<bool>& done) const;

 private:
  void find_steps();
  void find_dependencies(const ir::Trace& unclaimed);
  std::shared_ptr<BackwardPart> make(ir::TracePtr trace, ir::TracePtr runs) const;

  ir::TracePtr whole_;
  bool reinplace_, linear_, check_results_;
  std::vector<std::vector<bool>> depends_on_;       // by gradient: which cotangents
  std::vector<size_t> steps_;                       // in order
  std::vector<std::vector<size_t>> steps_of_slot_;  // by saved input
  std::shared_ptr<const BackwardPart> whole_part_;
  mutable std::mutex mutex_;
  mutable std::map<Asked, std::shared_ptr<const BackwardPart>> parts_;
};

}  // namespace fulgurite::run
