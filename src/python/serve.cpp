#include "serve.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "python_function.h"
#include "without_gil.h"

namespace fulgurite::python {

PyObject* Serving::finish() {
  auto& entry = static_cast<Entry&>(*branch());
  ++state_.hits;
  ++entry.hits;
  PyObject* result = entry.finish(outputs_, call_.args, slots_, steps_);
  if (const size_t i = state_.entries.index_of(&entry); i < state_.entries.size())
    state_.entries.used(i);
  return result;
}

std::shared_ptr<run::Branch> Serving::candidate(size_t& i) {
  const size_t found = state_.entries.find(key_, i);
  i = found + 1;
  return found < state_.entries.size() ? state_.entries[found] : nullptr;
}

bool Serving::is_kept(const run::Branch& branch) const {
  return state_.entries.index_of(static_cast<const Entry*>(&branch)) < state_.entries.size();
}

// It has a fact that has just been found not to hold.
bool Serving::is_refused(const run::Branch& branch) const {
  const auto& facts = static_cast<const Entry&>(branch).python;
  return std::any_of(failed_facts_.begin(), failed_facts_.end(),
                     [&](uint32_t fact) { return facts.has_fact(fact); });
}

bool Serving::check(run::Branch& branch, const run::Branch* held) {
  auto& entry = static_cast<Entry&>(branch);
  scratch_.clear();
  slots_.clear();
  if (entry.check(call_.args, call_.nargs, call_.kwnames, now_, inputs_, scratch_, slots_,
                  static_cast<const Entry*>(held)))
    return entry.read_numbers(call_.args, slots_, numbers_);
  if (entry.refused_by() != 0) failed_facts_.push_back(entry.refused_by());
  return false;
}

bool Serving::execute(const run::Compiled& program, run::Interrupted& run,
                      const run::Handover* from) {
  steps_ = {};
  const CollectSteps collect(steps_);
  const WithoutGil no_gil;
  return program.run(inputs_.data(), numbers_, outputs_, run, from);
}

}  // namespace fulgurite::python
