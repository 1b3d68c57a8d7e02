// How compiled programs serve a call from C++.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "api/state.h"
#include "run/serving.h"

namespace fulgurite::api {

class Serving : public run::Serving {
 public:
  Serving(JitFunction::State& state, const Given& given, const run::Modes& now,
          std::vector<at::Tensor>& outputs)
      : state_(state), given_(given), now_(now), outputs_(outputs) {}

  std::shared_ptr<Entry> entry() const { return std::static_pointer_cast<Entry>(branch()); }

 protected:
  std::shared_ptr<run::Branch> candidate(std::size_t& i) override;
  bool is_kept(const run::Branch& branch) const override;
  bool check(run::Branch& branch, const run::Branch* held) override;
  std::unique_lock<std::mutex> lock() override { return std::unique_lock(state_.mutex); }
  bool execute(const run::Compiled& program, run::Interrupted& run,
               const run::Handover* from) override;

 private:
  JitFunction::State& state_;
  const Given& given_;
  const run::Modes& now_;
  std::vector<at::Tensor>& outputs_;
  std::vector<at::Tensor> scratch_;
};

}  // namespace fulgurite::api
