#include "api/serve.h"

#include <algorithm>

namespace fulgurite::api {

std::shared_ptr<run::Branch> Serving::candidate(std::size_t& i) {
  const std::size_t found = i++;
  return found < state_.entries.size() ? state_.entries[found] : nullptr;
}

bool Serving::is_kept(const run::Branch& branch) const {
  return std::any_of(state_.entries.begin(), state_.entries.end(),
                     [&](const auto& e) { return e.get() == &branch; });
}

// All guards are on the tensors of the call: they cost little.
bool Serving::check(run::Branch& branch, const run::Branch* /*held*/) {
  return static_cast<const Entry&>(branch).check(given_, now_, inputs_, scratch_);
}

bool Serving::execute(const run::Compiled& program, run::Interrupted& run,
                      const run::Handover* from) {
  return program.run(inputs_.data(), numbers_, outputs_, run, from);
}

}  // namespace fulgurite::api
