#include "passes/derive.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/errors.h"
#include "ir/schema_args.h"
#include "ir/stack.h"
#include "ir/text.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/cut_rule.h"
#include "passes/explicit_rules.h"
#include "passes/functionalize.h"
#include "passes/infer.h"
#include "passes/number_rules.h"
#include "record/recorder.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::ValueId;
using ir::ValueList;

namespace {

std::mutex cache_mutex;
std::unordered_map<std::string, std::shared_ptr<const Rule>>& cache() {
  static auto* c = new std::unordered_map<std::string, std::shared_ptr<const Rule>>();
  return *c;
}
DeriveStatistics statistics;

void type_key(std::ostringstream& key, const ir::TensorType& t) {
  key << static_cast<int>(t.dtype) << t.device << '[';
  for (auto s : t.sizes) key << s << ',';
  key << ';';
  for (auto s : t.strides) key << s << ',';
  key << ']';
}

std::string key_of(const Trace& trace, const Bind& bind,
                   const std::vector<const ir::TensorType*>& cotangents,
                   const std::vector<bool>& wanted) {
  std::ostringstream key;
  key << bind.op.id() << '(';
  size_t flat = 0;
  auto value = [&](ValueId id, const c10::TypePtr& type) {
    if (id == kNoValue) {
      key << '_';
    } else if (trace.value(id).is_tensor()) {
      type_key(key, trace.value(id).tensor());
      key << (trace.value(id).tensor().requires_grad ? 'g' : '-') << (wanted[flat] ? 'w' : '-');
    } else if (ir::is_tensor_type(type)) {
      key << 'n' << static_cast<int>(std::get<ir::ScalarKind>(trace.value(id).type));
    } else {
      throw Refusal("FG-171", bind.op.id() + ": differentiating an operator whose argument " +
                                  trace.value(id).name + " is a number that varies");
    }
    ++flat;
  };
  const auto& arguments = bind.op.schema().arguments();
  for (size_t i = 0; i < bind.args.size(); ++i) {
    if (const auto* id = std::get_if<ValueId>(&bind.args[i])) {
      value(*id, ir::full_type(arguments[i]));
    } else if (const auto* list = std::get_if<ValueList>(&bind.args[i])) {
      key << '{';
      for (ValueId e : *list) value(e, ir::full_type(arguments[i]));
      key << '}';
    } else {
      key << ir::constant_text(std::get<IValue>(bind.args[i]), arguments[i].real_type());
    }
    key << '|';
  }
  key << ")->";
  for (const auto* c : cotangents) {
    if (c != nullptr) type_key(key, *c);
    key << '|';
  }
  return key.str();
}

// A number as operators get it from Python.
at::Tensor sample_number(ir::ScalarKind kind) {
  const c10::Scalar s = kind == ir::ScalarKind::Float  ? c10::Scalar(0.5)
                        : kind == ir::ScalarKind::Bool ? c10::Scalar(true)
                                                       : c10::Scalar(int64_t{2});
  at::Tensor t = c10::scalar_to_tensor(s);
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

c10::Device device_of(const Trace& trace, const Bind& bind) {
  c10::Device device(c10::kCPU);
  for_each_arg(bind, [&](ValueId id) {
    if (trace.value(id).is_tensor()) device = trace.value(id).tensor().device;
  });
  return device;
}

// A trace that was recorded on the meta device, for `device`.
ir::TracePtr moved(const Trace& t, c10::Device device) {
  ir::TraceBuilder b(t, t.stage);
  for (ir::Value& v : b.trace().values)
    if (v.is_tensor()) std::get<ir::TensorType>(v.type).device = device;
  for (size_t i = 0; i < t.binds.size(); ++i) {
    if (i == t.epilogue) b.begin_epilogue();
    Bind copy = t.binds[i];
    for (Arg& a : copy.args)
      if (auto* c = std::get_if<IValue>(&a); c != nullptr && c->isDevice()) a = IValue(device);
    b.add_bind(std::move(copy));
  }
  if (t.epilogue == t.binds.size()) b.begin_epilogue();
  return b.finish();
}

// Does the operator run on the samples, and (where its shape depends on them) give the recorded
// shape?
bool suits(const Bind& separate, const std::vector<IValue>& samples, const ir::Dims* wanted) {
  torch::jit::Stack stack;
  ir::push_arguments(separate, samples, stack);
  try {
    separate.op.handle().callBoxed(&stack);
  } catch (const c10::Error&) {
    return false;
  }
  if (wanted == nullptr) return true;
  const auto sizes = stack.at(0).toTensor().sizes();
  return std::equal(sizes.begin(), sizes.end(), wanted->begin(), wanted->end());
}

// Sample masks are all false. Where shapes depend on them, that of the result (`x[mask]`) or that
// of another argument (`x[mask] = values`), as many elements are set as give the recorded one.
void fill_masks(const Trace& trace, const Bind& bind, const Bind& separate,
                const std::vector<IValue>& samples) {
  std::vector<at::Tensor> masks;
  ir::Dims counts;
  for (const IValue& v : samples) {
    const at::Tensor& t = v.toTensor();
    if (t.scalar_type() == at::kBool && t.is_cpu() && t.is_contiguous()) masks.push_back(t);
    counts.insert(counts.end(), t.sizes().begin(), t.sizes().end());
  }
  const auto results = tensor_results(trace, bind);
  if (masks.empty() || results.empty() || results[0] == kNoValue) return;
  const ir::Dims* wanted = nullptr;
  if (ops::has_data_dependent_shape(bind.op)) {
    wanted = &trace.value(results[0]).tensor().sizes;
    counts = *wanted;
  }
  at::NoGradGuard no_grad;
  if (suits(separate, samples, wanted)) return;
  for (const int64_t count : counts) {
    for (at::Tensor& mask : masks) mask.zero_().view(-1).slice(0, 0, count).fill_(true);
    if (suits(separate, samples, wanted)) return;
  }
}

std::shared_ptr<const Rule> derive_by_engine(
    const Trace& trace, const Bind& bind, const std::vector<const ir::TensorType*>& cotangent_types,
    const std::vector<bool>& wanted, bool on_meta) {
  KeepRandomState keep(ops::is_random(bind.op));
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  c10::InferenceMode no_inference(false);
  record::Recorder recorder("rule");
  std::vector<IValue> env(trace.values.size());
  std::vector<at::Tensor> leaves;
  std::vector<ValueId> args;
  size_t inputs_given = 0;
  std::vector<size_t> gradients_of;
  Bind separate = bind;  // an argument given twice gets a sample for each place
  std::vector<IValue> samples;
  {
    record::Pause pause;
    size_t flat = 0;
    auto one = [&](ValueId& id) {
      if (id == kNoValue) {
        args.push_back(kNoValue);
        ++flat;
        return;
      }
      const ir::Value& value = trace.value(id);
      at::Tensor t = value.is_tensor() ? sample(value.tensor(), on_meta)
                                       : sample_number(std::get<ir::ScalarKind>(value.type));
      const bool differentiable = wanted[flat] && value.is_tensor() && value.tensor().requires_grad;
      if (differentiable) {
        t.requires_grad_(true);
        leaves.push_back(t);
        gradients_of.push_back(flat);
      }
      recorder.add_input(t, "arg" + std::to_string(flat));
      args.push_back(
          static_cast<ValueId>(inputs_given++));  // position among the inputs; an id later
      samples.emplace_back(t);
      id = static_cast<ValueId>(samples.size() - 1);
      ++flat;
    };
    for (Arg& a : separate.args) {
      if (auto* id = std::get_if<ValueId>(&a)) one(*id);
      if (auto* list = std::get_if<ValueList>(&a))
        for (ValueId& id : *list) one(id);
    }
    fill_masks(trace, bind, separate, samples);
  }
  std::vector<at::Tensor> results;
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> seeds;
  std::vector<at::Tensor> seed_by_result;
  at::AutoGradMode grad_mode(true);
  torch::jit::Stack stack;
  ir::push_arguments(separate, samples, stack);
  torch::autograd::variable_list gradients;
  size_t formula_begin = 0, formula_end = 0;  // binds, as they are recorded
  try {
    record::Recorder::Scope scope(recorder);
    bind.op.handle().callBoxed(&stack);
    for (const IValue& v : stack) {
      if (v.isTensor()) results.push_back(v.toTensor());
      if (v.isTensorList())
        for (const IValue& e : v.toListRef()) results.push_back(e.toTensor());
    }
    {
      record::Pause pause;
      for (size_t i = 0; i < results.size(); ++i) {
        seed_by_result.emplace_back();
        if (i >= cotangent_types.size() || cotangent_types[i] == nullptr || !results[i].defined() ||
            !results[i].requires_grad())
          continue;
        at::Tensor seed = sample(*cotangent_types[i], on_meta);
        recorder.add_input(seed, "g" + std::to_string(i));
        outputs.push_back(results[i]);
        seeds.push_back(seed);
        seed_by_result.back() = seed;
      }
    }
    if (outputs.empty())
      throw Refusal("FG-174", bind.op.id() + " gave a result without history on sample tensors");
    formula_begin = recorder.mark().binds;
    gradients = torch::autograd::grad(outputs, leaves, seeds, /*retain_graph=*/false,
                                      /*create_graph=*/false,
                                      /*allow_unused=*/true);
    formula_end = recorder.mark().binds;
    // A conjugate or negative bit is no part of a type: the rule gives out plain values.
    for (at::Tensor& g : gradients)
      if (g.defined()) g = g.resolve_conj().resolve_neg();
  } catch (const c10::Error& e) {
    throw Refusal("FG-175", bind.op.id() +
                                ": its gradient could not be derived on sample tensors: " +
                                e.what_without_backtrace());
  }
  std::vector<at::Tensor> all = results;
  all.insert(all.end(), gradients.begin(), gradients.end());
  all.insert(all.end(), seed_by_result.begin(), seed_by_result.end());
  const size_t recorded = recorder.mark().binds;
  record::Recording recording = recorder.finish(all, "");
  if (recording.refusal)
    throw Refusal("FG-176", bind.op.id() + ": its gradient could not be recorded: " +
                                recording.refusal->message());
  ir::TracePtr joint = recording.trace;
  std::shared_ptr<const std::vector<Bind>> formula;
  if (joint->binds.size() == recorded) {  // none of them was left out
    const auto begin = joint->binds.begin();
    formula = std::make_shared<const std::vector<Bind>>(
        begin + static_cast<std::ptrdiff_t>(formula_begin),
        begin + static_cast<std::ptrdiff_t>(formula_end));
  }
  // Formulas may write in place into tensors of their own.
  for (const Bind& x : joint->binds) {
    if (!ops::is_mutable(x.op)) continue;
    joint = functionalize(*joint).trace;
    break;
  }
  if (on_meta) joint = moved(*joint, device_of(trace, bind));
  for (ValueId& id : args)
    if (id != kNoValue) id = joint->inputs[static_cast<size_t>(id)];
  const auto n = static_cast<std::ptrdiff_t>(results.size());
  const auto m = static_cast<std::ptrdiff_t>(gradients.size());
  const auto& o = joint->outputs;
  auto rule = std::make_shared<Rule>(*cut_rule(bind, JointRun{joint,
                                                              args,
                                                              {o.begin(), o.begin() + n},
                                                              {o.begin() + n + m, o.end()},
                                                              {},
                                                              {o.begin() + n, o.begin() + n + m},
                                                              gradients_of,
                                                              false}));
  rule->formula = std::move(formula);
  return rule;
}

}  // namespace

std::vector<ValueId> tensor_arguments(const Trace& trace, const Bind& bind) {
  std::vector<ValueId> flat;
  for (const Arg& a : bind.args) {
    if (const auto* id = std::get_if<ValueId>(&a)) flat.push_back(*id);
    if (const auto* list = std::get_if<ValueList>(&a))
      flat.insert(flat.end(), list->begin(), list->end());
  }
  (void)trace;
  return flat;
}

std::vector<ValueId> tensor_results(const Trace& trace, const Bind& bind) {
  std::vector<ValueId> flat;
  const auto& returns = bind.op.schema().returns();
  for (size_t i = 0; i < bind.results.size(); ++i) {
    if (const auto* id = std::get_if<ValueId>(&bind.results[i])) {
      if (returns[i].type()->kind() == c10::TypeKind::TensorType) flat.push_back(*id);
    } else {
      const auto& list = std::get<ValueList>(bind.results[i]);
      flat.insert(flat.end(), list.begin(), list.end());
    }
  }
  (void)trace;
  return flat;
}

std::shared_ptr<const Rule> derive(const Trace& trace, const Bind& bind,
                                   const std::vector<const ir::TensorType*>& cotangents,
                                   const std::vector<bool>& wanted) {
  if (has_varying_number(trace, bind)) return derive_with_numbers(trace, bind, cotangents, wanted);
  if (auto rule = explicit_rule(trace, bind, cotangents, wanted)) return rule;
  if (ops::gradient_checks_data(bind.op))
    throw Refusal("FG-178", bind.op.id() + ": its gradient formula checks the data");
  const std::string key = key_of(trace, bind, cotangents, wanted);
  {
    std::lock_guard lock(cache_mutex);
    auto it = cache().find(key);
    if (it != cache().end()) {
      ++statistics.reused;
      return it->second;
    }
  }
  std::shared_ptr<const Rule> rule;
  try {
    rule = derive_by_engine(trace, bind, cotangents, wanted, false);
  } catch (const Refusal& r) {
    // Formulas that look at the data, and operators that refuse the samples' data, have a form that
    // does not, for tensors without data.
    if (r.code() != "FG-173" && r.code() != "FG-175") throw;
    try {
      rule = derive_by_engine(trace, bind, cotangents, wanted, true);
    } catch (const std::exception&) {  // there is no such form; meta functions may be Python
      throw r;
    }
  }
  std::lock_guard lock(cache_mutex);
  ++statistics.derived;
  cache().emplace(key, rule);
  return rule;
}

DeriveStatistics derive_statistics() {
  std::lock_guard lock(cache_mutex);
  return statistics;
}

}  // namespace fulgurite::passes
