#include "exec/transform.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "exec/offers.h"
#include "ir/stack.h"
#include "ops/traits.h"
#include "passes/functionalize.h"
#include "passes/infer.h"
#include "passes/simplify.h"
#include "record/recorder.h"

namespace fulgurite::exec {

Expansion expand(const std::string& executor, const Implementation& transform,
                 const Candidate& candidate) {
  const ir::Trace& t = candidate.trace;
  auto fail = [&](const std::string& what, std::exception_ptr cause = nullptr) {
    throw ExecutorError("FG-414", who(executor, candidate) + ": the execution_transform " + what,
                        cause);
  };
  Expansion e;
  const ir::Bind bind{candidate.op, candidate.args, candidate.results, -1, -1, false};
  record::Recorder recorder("transform");
  std::vector<c10::IValue> env(t.values.size());
  std::vector<c10::IValue> stack;
  std::vector<at::Tensor> results;
  const passes::KeepRandomState keep_random_state;
  {
    const record::Pause pause;
    for_each_arg(bind, [&](ir::ValueId id) {
      if (!t.value(id).is_tensor())
        fail("would get a number that the program reads out of a tensor");
      if (!env[id].isNone()) return;
      at::Tensor x = passes::sample(t.value(id).tensor());
      recorder.add_input(x, t.value(id).name);
      env[id] = std::move(x);
      e.inputs.push_back(id);
    });
    ir::push_arguments(bind, env, stack);
  }
  try {
    const c10::AutoGradMode no_grad(false);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const record::Recorder::Scope scope(recorder);
    transform.run(stack);
  } catch (const std::exception& x) {
    fail(std::string("raised ") + x.what(), std::current_exception());
  }
  for (const c10::IValue& v : stack) {
    if (v.isTensor())
      results.push_back(v.toTensor());
    else if (v.isTensorList())
      for (const at::Tensor& x : v.toTensorVector()) results.push_back(x);
    else
      fail("returned something else than tensors");
  }
  for (const ir::Result& r : candidate.results) {
    if (const auto* id = std::get_if<ir::ValueId>(&r))
      e.results.push_back(*id);
    else
      for (ir::ValueId each : std::get<ir::ValueList>(r)) e.results.push_back(each);
  }
  if (results.size() != e.results.size())
    fail("returned " + std::to_string(results.size()) + " tensors, the program has " +
         std::to_string(e.results.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    if (e.results[i] == ir::kNoValue) {
      results[i] = at::Tensor();
      continue;
    }
    const ir::TensorType& type = t.value(e.results[i]).tensor();
    if (results[i].defined() && results[i].scalar_type() == type.dtype &&
        results[i].sizes() == at::IntArrayRef(type.sizes) && results[i].device() == type.device)
      continue;
    fail("returned another tensor than the program has as result " + std::to_string(i));
  }
  record::Recording recording = recorder.finish(results, "");
  if (recording.refusal) fail("cannot be recorded: " + recording.refusal->message());
  if (!recording.externals.empty())
    fail("uses a tensor that is none of its arguments; pass it as an argument of an operator");
  e.trace = recording.trace;
  if (std::any_of(e.trace->binds.begin(), e.trace->binds.end(),
                  [](const ir::Bind& b) { return ops::is_mutable(b.op); }))
    e.trace = passes::functionalize(*e.trace).trace;
  if (e.trace->epilogue < e.trace->binds.size()) fail("writes its arguments");
  for (const ir::Value& v : e.trace->values)
    if (!v.is_tensor()) fail("reads numbers out of tensors");
  e.trace = passes::simplify(e.trace);
  return e;
}

}  // namespace fulgurite::exec
