#include "exec/offers.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "exec/claim.h"
#include "exec/operators.h"
#include "ir/schema_args.h"
#include "ir/stack.h"
#include "ir/text.h"
#include "passes/infer.h"

namespace fulgurite::exec {
namespace {

// Results in the schema's order, lists opened.
std::vector<ir::ValueId> flat_results(const std::vector<ir::Result>& results) {
  std::vector<ir::ValueId> flat;
  for (const ir::Result& r : results) {
    if (const auto* id = std::get_if<ir::ValueId>(&r)) {
      flat.push_back(*id);
    } else {
      const auto& list = std::get<ir::ValueList>(r);
      flat.insert(flat.end(), list.begin(), list.end());
    }
  }
  return flat;
}

std::string shape_text(const at::Tensor& t) {
  ir::Value v;
  ir::TensorType type;
  type.dtype = t.scalar_type();
  type.sizes.assign(t.sizes().begin(), t.sizes().end());
  type.strides = ir::default_strides(type.sizes);
  v.type = std::move(type);
  return ir::type_text(v);
}

std::string shape_text(ir::Value v) {
  auto& type = std::get<ir::TensorType>(v.type);
  type.strides = ir::default_strides(type.sizes);
  type.device = c10::Device(c10::kCPU);
  type.requires_grad = false;
  return ir::type_text(v);
}

}  // namespace

std::string who(const std::string& executor, const Candidate& candidate) {
  std::string text = "executor " + executor + ", " + candidate.op.id();
  if (std::string at = place(candidate.trace, candidate.location); !at.empty()) text += ", " + at;
  return text;
}

Verdict ask(const Executor& executor, const Checker& checker, const Candidate& candidate) {
  if (!checker) return {};
  try {
    return checker(candidate);
  } catch (const std::exception& e) {
    throw ExecutorError("FG-410",
                        who(executor.name(), candidate) + ": the checker raised " + e.what() +
                            "; a checker returns whether it takes the operator",
                        std::current_exception());
  }
}

std::optional<std::vector<ir::Arg>> arguments_for(const ir::Op& as, const Candidate& candidate,
                                                  std::string* why_not) {
  const size_t count = as.schema().arguments().size();
  const auto& arguments = candidate.op.schema().arguments();
  auto is_none = [](const ir::Arg& a) {
    if (const auto* id = std::get_if<ir::ValueId>(&a)) return *id == ir::kNoValue;
    const auto* constant = std::get_if<c10::IValue>(&a);
    return constant != nullptr && constant->isNone();
  };
  for (size_t i = 0; i < count; ++i) {
    if (as.schema().arguments()[i].type()->kind() == c10::TypeKind::OptionalType ||
        arguments[i].type()->kind() != c10::TypeKind::OptionalType || !is_none(candidate.args[i]))
      continue;
    *why_not = as.id() + " takes no None as " + arguments[i].name();
    return std::nullopt;
  }
  for (size_t i = count; i < candidate.args.size(); ++i) {
    ir::Arg standard =
        ir::normalized(ir::Arg(arguments[i].default_value().value_or(c10::IValue())), arguments[i]);
    const auto* have = std::get_if<c10::IValue>(&candidate.args[i]);
    const auto* want = std::get_if<c10::IValue>(&standard);
    const auto& type = arguments[i].real_type();
    const bool same = have != nullptr && want != nullptr
                          ? ir::constant_text(*have, type) == ir::constant_text(*want, type)
                          : have == nullptr && want == nullptr && candidate.args[i] == standard;
    if (same) continue;
    *why_not = as.id() + " takes no " + arguments[i].name() +
               (have != nullptr ? ", which is " + ir::constant_text(*have, type) : "");
    return std::nullopt;
  }
  return std::vector<ir::Arg>(candidate.args.begin(),
                              candidate.args.begin() + static_cast<std::ptrdiff_t>(count));
}

void check_meta(const std::string& executor, const ir::Op& as, const std::vector<ir::Arg>& args,
                const Candidate& candidate) {
  const OperatorPtr known = find_operator(as);
  if (known == nullptr || known->calls_kernels) return;
  const ir::Trace& t = candidate.trace;
  const ir::Bind bind{as, args, candidate.results, candidate.location, -1, false};
  std::vector<c10::IValue> env(t.values.size());
  bool has_numbers = false;
  ir::for_each_arg(bind, [&](ir::ValueId id) {
    if (!t.value(id).is_tensor())
      has_numbers = true;
    else if (env[id].isNone())
      env[id] = passes::sample(t.value(id).tensor(), true);
  });
  if (has_numbers) return;  // the number is known when the program runs
  std::vector<c10::IValue> stack;
  {
    const passes::Aside aside;
    const c10::AutoGradMode no_grad(false);
    ir::push_arguments(bind, env, stack);
    try {
      known->meta->run(stack);
    } catch (const std::exception& e) {
      throw ExecutorError("FG-413",
                          who(executor, candidate) + ": the meta function of " + as.id() +
                              " raised " + e.what() +
                              "; it is called with tensors on the device meta, which have no data",
                          std::current_exception());
    }
  }
  std::vector<at::Tensor> found;
  for (const c10::IValue& v : stack) {
    if (v.isTensor())
      found.push_back(v.toTensor());
    else if (v.isTensorList())
      for (const at::Tensor& e : v.toTensorVector()) found.push_back(e);
    else
      found.emplace_back();
  }
  const std::vector<ir::ValueId> wanted = flat_results(candidate.results);
  auto fail = [&](const std::string& what) {
    throw ExecutorError("FG-413", who(executor, candidate) + ": the meta function of " + as.id() +
                                      " says " + what +
                                      "; correct the meta function, or decline "
                                      "such operators in the checker");
  };
  if (found.size() != wanted.size())
    fail(std::to_string(found.size()) + " results, the program has " +
         std::to_string(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == ir::kNoValue || !t.value(wanted[i]).is_tensor()) continue;
    const ir::TensorType& type = t.value(wanted[i]).tensor();
    if (found[i].defined() && found[i].scalar_type() == type.dtype &&
        found[i].sizes() == at::IntArrayRef(type.sizes))
      continue;
    fail("result " + std::to_string(i) + " is " +
         (found[i].defined() ? shape_text(found[i]) : "None") + ", the program has " +
         shape_text(t.value(wanted[i])));
  }
}

}  // namespace fulgurite::exec
