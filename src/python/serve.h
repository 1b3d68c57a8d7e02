// How compiled programs serve a call from Python.
#pragma once

#include <Python.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <vector>

#include "jit_function.h"
#include "run/serving.h"

namespace fulgurite::python {

struct CallArguments {
  PyObject* const* args;
  size_t nargs;
  PyObject* kwnames;
};

class Serving : public run::Serving {
 public:
  Serving(JitState& state, uint64_t key, const CallArguments& call)
      : state_(state), key_(key), call_(call), now_(Modes::now()) {}

  // Of a call that was served: its result (new reference), or nullptr with an exception set.
  PyObject* finish();

 protected:
  std::shared_ptr<run::Branch> candidate(size_t& i) override;
  bool is_kept(const run::Branch& branch) const override;
  bool is_refused(const run::Branch& branch) const override;
  bool check(run::Branch& branch, const run::Branch* held) override;
  bool execute(const run::Compiled& program, run::Interrupted& run,
               const run::Handover* from) override;

 private:
  JitState& state_;
  uint64_t key_;
  CallArguments call_;
  Modes now_;
  std::vector<at::Tensor> scratch_, outputs_;
  std::vector<PyRef> slots_;
  StepsOfRun steps_;
  c10::SmallVector<uint32_t, 4> failed_facts_;
};

}  // namespace fulgurite::python
