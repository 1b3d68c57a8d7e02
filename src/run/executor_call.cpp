#include "run/executor_call.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "exec/claim.h"
#include "exec/offers.h"
#include "ir/text.h"
#include "run/boxed.h"
#include "run/layout.h"

namespace fulgurite::run {
namespace {

using exec::ExecutorError;

std::string text(const ir::TensorType& type) {
  ir::Value v;
  v.type = type;
  std::get<ir::TensorType>(v.type).strides = ir::default_strides(type.sizes);
  std::get<ir::TensorType>(v.type).requires_grad = false;
  return ir::type_text(v);
}

std::string text(const at::Tensor& t) { return t.defined() ? text(ir::type_of(t)) : "None"; }

// The storages of the tensor arguments, in two groups.
struct Given {
  c10::SmallVector<const c10::StorageImpl*, 8> aliasable, others;
  void add(const at::Tensor& t, bool may_alias) {
    if (!t.defined() || !t.has_storage()) return;
    (may_alias ? aliasable : others).push_back(t.storage().unsafeGetStorageImpl());
  }
  static bool has(const c10::SmallVector<const c10::StorageImpl*, 8>& list, const at::Tensor& t) {
    return std::find(list.begin(), list.end(), t.storage().unsafeGetStorageImpl()) != list.end();
  }
};

Given storages(const ExecutorCall& call, const std::vector<c10::IValue>& stack) {
  Given given;
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      given.add(stack[i].toTensor(), call.may_alias[i]);
    } else if (stack[i].isTensorList()) {
      for (const c10::IValue& e : stack[i].toListRef()) given.add(e.toTensor(), call.may_alias[i]);
    }
  }
  return given;
}

void check(const ExecutorCall& call, const at::Tensor& t, const ir::TensorType& type,
           size_t index) {
  if (t.defined() && t.layout() == at::kStrided && t.scalar_type() == type.dtype &&
      t.device() == type.device && t.sizes() == at::IntArrayRef(type.sizes))
    return;
  throw ExecutorError("FG-412", call.who + ": result " + std::to_string(index) + " is " + text(t) +
                                    ", the program and the meta function have " + text(type) +
                                    "; correct the implementation");
}

// A tensor that nobody else has, as the program has it there.
at::Tensor settled(const ExecutorCall& call, const at::Tensor& t, const ir::TensorType& type,
                   bool declared_alias, const Given& given) {
  const bool shares = t.has_storage() && (Given::has(given.others, t) ||
                                          (!declared_alias && Given::has(given.aliasable, t)));
  if (declared_alias && !shares && Given::has(given.aliasable, t)) return t;
  if (shares || !has_strides(t, type.strides)) return laid_out(t, type);
  // Somebody else holds it, or it has a history of its own: its data under a new identity.
  if (!call.in_epilogue && (t.use_count() > 1 || t.requires_grad())) return t.detach();
  return t;
}

}  // namespace

std::shared_ptr<const ExecutorCall> executor_call(const ir::Trace& trace, const ir::Bind& bind,
                                                  bool in_epilogue) {
  const exec::OperatorPtr op = exec::find_operator(bind.op);
  if (op == nullptr) return nullptr;
  auto call = std::make_shared<ExecutorCall>();
  call->implementation = op->implementation;
  call->in_epilogue = in_epilogue;
  call->who = exec::who(op->executor, {trace, bind.op, bind.args, bind.results, bind.location});
  if (op->calls_kernels) {
    call->by_number = true;
    call->implementation = exec::find_kernel(std::get<c10::IValue>(bind.args.back()).toInt());
  }
  for (const c10::Argument& a : bind.op.schema().arguments())
    call->may_alias.push_back(a.alias_info() != nullptr);
  for (const c10::Argument& r : bind.op.schema().returns())
    call->is_alias.push_back(r.alias_info() != nullptr);
  auto expect = [&](ir::ValueId id) {
    const bool is_used = id != ir::kNoValue && trace.value(id).is_tensor();
    call->types.push_back(is_used ? std::optional(trace.value(id).tensor()) : std::nullopt);
  };
  for (const ir::Result& r : bind.results) {
    if (const auto* id = std::get_if<ir::ValueId>(&r)) {
      expect(*id);
    } else {
      for (ir::ValueId each : std::get<ir::ValueList>(r)) expect(each);
    }
  }
  return call;
}

void run_executor_call(const Instruction& in, Frame& frame, std::vector<c10::IValue>& stack) {
  const ExecutorCall& call = *in.own;
  push_operands(in, frame, stack);
  if (call.by_number) stack.pop_back();
  const Given given = storages(call, stack);
  try {
    call.implementation->run(stack);
  } catch (const ExecutorError&) {
    throw;
  } catch (const std::exception& e) {
    throw ExecutorError("FG-411",
                        call.who + ": its implementation raised " + e.what() +
                            (call.in_epilogue ? " (while writing back what the caller can see: "
                                                "what was written before stays)"
                                              : " (nothing of the call has taken effect)"),
                        std::current_exception());
  }
  const size_t returns = in.results.size();
  if (stack.size() != returns)
    throw ExecutorError("FG-412", call.who + ": it returned " + std::to_string(stack.size()) +
                                      " results, its schema has " + std::to_string(returns));
  size_t flat = 0;
  auto settle = [&](const at::Tensor& t, size_t r) {
    const auto& type = call.types[flat++];
    if (!type) return t;
    check(call, t, *type, flat - 1);
    return settled(call, t, *type, call.is_alias[r], given);
  };
  for (size_t r = 0; r < returns; ++r) {
    if (!stack[r].isTensorList()) {
      if (flat < call.types.size() && !call.types[flat]) {
        ++flat;
      } else {
        stack[r] = settle(stack[r].isTensor() ? stack[r].toTensor() : at::Tensor(), r);
      }
      continue;
    }
    const std::vector<at::Tensor> list = stack[r].toTensorVector();
    if (flat + list.size() > call.types.size())
      throw ExecutorError("FG-412", call.who + ": it returned a list of " +
                                        std::to_string(list.size()) + " tensors, the program has " +
                                        std::to_string(call.types.size() - flat));
    c10::List<at::Tensor> own;
    for (const at::Tensor& t : list) own.push_back(settle(t, r));
    stack[r] = std::move(own);
  }
  if (flat != call.types.size())
    throw ExecutorError("FG-412", call.who + ": it returned " + std::to_string(flat) +
                                      " tensors, the program has " +
                                      std::to_string(call.types.size()));
  store_results(in, frame, stack);
}

}  // namespace fulgurite::run
