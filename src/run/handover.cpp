#include "run/handover.h"

#include <unordered_map>
#include <unordered_set>

namespace fulgurite::run {
namespace {

using ir::ValueId;

// What a program has when it is at `step`: by register, the number of what it holds.
std::unordered_map<ValueId, int32_t> registers_at(const NumberedProgram& p, size_t step) {
  std::unordered_map<ValueId, int32_t> holds(p.steps.inputs.begin(), p.steps.inputs.end());
  for (size_t i = 0; i < step; ++i) {
    for (const auto& [id, number] : p.steps.steps[i].rewritten)
      if (const auto it = holds.find(id); it != holds.end()) it->second = number;
    for (const auto& [id, number] : p.steps.steps[i].results) holds[id] = number;
    for (int32_t r : p.core.instructions()[i].frees) holds.erase(r);
  }
  return holds;
}

std::vector<int32_t> drawn(const Steps& s, size_t end) {
  std::vector<int32_t> steps;
  for (size_t i = 0; i < end; ++i)
    if (s.steps[i].draws) steps.push_back(s.steps[i].computes);
  return steps;
}

class Planning {
 public:
  Planning(const NumberedProgram& from, size_t step, const NumberedProgram& to)
      : from_(from), step_(step), to_(to), made_by_(to.trace.values.size(), kNobody) {
    for (size_t i = 0; i < step; ++i) done_.insert(from.steps.steps[i].computes);
    for (const auto& [id, number] : registers_at(from, step)) has_.emplace(number, id);
    start_ = first_own_step();
    at_start_ = registers_at(to, start_);
    for (size_t i = 0; i < start_; ++i)
      for (const auto& [id, number] : to.steps.steps[i].results) made_by_[id] = i;
    random_again_ = drawn(from.steps, step) != drawn(to.steps, start_);
  }

  std::shared_ptr<const Handover> run() {
    // Nothing that the caller can see is written before the last question
    // (passes/functionalize.cpp).
    if (from_.steps.first_input_write < step_ || to_.steps.first_input_write < start_)
      return nullptr;
    do {
      changed_ = false;
      taken_.clear();
      again_.assign(start_, false);
      plan();
      // Something shared must be made again as a whole: what was decided before may not hold.
    } while (changed_);
    auto out = std::make_shared<Handover>();
    out->start = start_;
    out->random_again = random_again_;
    for (size_t i = 0; i < start_; ++i)
      if (again_[i]) out->again.push_back(i);
    for (const auto& [to, from] : taken_)
      if (!again_[made_by_[static_cast<size_t>(to)]]) out->taken.emplace_back(from, to);
    std::unordered_map<int32_t, ValueId> inputs;
    for (const auto& [id, number] : from_.steps.inputs) inputs.emplace(number, id);
    for (const auto& [id, number] : to_.steps.inputs)
      if (const auto it = inputs.find(number); it != inputs.end() && is_input(id))
        out->same_inputs.emplace_back(it->second, id);
    return out;
  }

 private:
  static constexpr size_t kNobody = static_cast<size_t>(-1);

  // The first value guard that the other program has not passed. All before it is in common, as far
  // as it is the same.
  size_t first_own_step() const {
    for (const Decision& d : to_.steps.decisions)
      if (done_.count(to_.steps.steps[d.step].computes) == 0) return d.step;
    return to_.steps.steps.size();
  }

  bool is_input(ValueId id) const { return to_.trace.value(id).kind == ir::ValueKind::Input; }

  void plan() {
    for (const auto& [id, number] : at_start_) need(id, start_);
    for (size_t i = 0; i < start_; ++i) {
      const Step& s = to_.steps.steps[i];
      if (s.effect && done_.count(s.computes) == 0) make_again(i);
      if (s.draws && random_again_) make_again(i);
      if (is_of_remade_memory(i)) make_again(i);
    }
    while (!waiting_.empty()) {
      const size_t i = waiting_.back();
      waiting_.pop_back();
      ir::for_each_arg(to_.trace.binds[i], [&](ValueId id) { need(id, i); });
    }
  }

  // The register must have, when step `at` runs, what it has there in a run from the beginning.
  void need(ValueId id, size_t at) {
    const size_t maker = made_by_[static_cast<size_t>(id)];
    if (maker == kNobody) return;  // an input or a constant
    const int32_t memory = to_.steps.memory[static_cast<size_t>(id)];
    if (memory < 0 || remade_.count(memory) == 0) {
      const int32_t number = held_at(id, at);
      const auto it = has_.find(number);
      const bool still = memory < 0 || number == held_at(id, start_);
      if (it != has_.end() && still) {
        taken_[id] = it->second;
        return;
      }
      remake(memory);
    }
    make_again(maker);
  }

  int32_t held_at(ValueId id, size_t at) const {
    int32_t number = -1;
    const size_t maker = made_by_[static_cast<size_t>(id)];
    for (const auto& [result, n] : to_.steps.steps[maker].results)
      if (result == id) number = n;
    if (to_.steps.memory[static_cast<size_t>(id)] < 0) return number;
    for (size_t i = maker + 1; i < at; ++i)
      for (const auto& [other, n] : to_.steps.steps[i].rewritten)
        if (other == id) number = n;
    return number;
  }

  void remake(int32_t memory) {
    if (memory >= 0 && remade_.insert(memory).second) changed_ = true;
  }

  void make_again(size_t i) {
    if (again_[i]) return;
    again_[i] = true;
    waiting_.push_back(i);
    const ir::Bind& b = to_.trace.binds[i];
    ir::for_each_result(b, [&](ValueId id) { remake(to_.steps.memory[static_cast<size_t>(id)]); });
    for (const auto& [id, number] : to_.steps.steps[i].rewritten)
      remake(to_.steps.memory[static_cast<size_t>(id)]);
    if (to_.steps.steps[i].draws && !random_again_) random_again_ = changed_ = true;
  }

  bool is_of_remade_memory(size_t i) const {
    if (remade_.empty()) return false;
    bool any = false;
    auto look = [&](ValueId id) {
      const int32_t memory = to_.steps.memory[static_cast<size_t>(id)];
      any = any || (memory >= 0 && remade_.count(memory) > 0);
    };
    ir::for_each_result(to_.trace.binds[i], look);
    for (const auto& [id, number] : to_.steps.steps[i].rewritten) look(id);
    return any;
  }

  const NumberedProgram& from_;
  size_t step_;
  const NumberedProgram& to_;
  std::unordered_set<int32_t> done_;          // what `from` has computed
  std::unordered_map<int32_t, ValueId> has_;  // where `from` has what it still has
  size_t start_ = 0;
  std::unordered_map<ValueId, int32_t> at_start_;  // what `to` has when it is at `start_`
  std::vector<size_t> made_by_;                    // by register of `to`: the step before `start_`
  std::unordered_map<ValueId, ValueId> taken_;     // register of `to`, of `from`
  std::vector<bool> again_;
  std::vector<size_t> waiting_;  // steps that run again, whose arguments have not been looked at
  std::unordered_set<int32_t> remade_;  // memory that is not taken
  bool random_again_ = false;
  bool changed_ = false;
};

}  // namespace

std::shared_ptr<const Handover> hand_over(const NumberedProgram& from, size_t step,
                                          const NumberedProgram& to) {
  return Planning(from, step, to).run();
}

}  // namespace fulgurite::run
