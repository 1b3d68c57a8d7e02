#include "run/plan.h"

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>

#include "ir/errors.h"
#include "ir/schema_args.h"
#include "ir/stack.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "run/boxed.h"
#include "run/executor_call.h"
#include "run/result_check.h"
#include "run/typed_calls.h"

namespace fulgurite::run {
namespace {

constexpr c10::TypeKind kTensor = c10::TypeKind::TensorType;

// Eager calls the kernel of a custom operator that has an autograd kernel of its own inside an
// autograd Function, where grad mode is off; those of PyTorch's operators see the caller's mode.
bool kernel_sees_grad_mode(const ir::Trace& trace, const ir::Bind& bind) {
  if (bind.op.ns() == "aten" || bind.op.ns() == "fulgurite") return true;
  const auto& handle = bind.op.handle();
  if (!handle.hasKernelForDispatchKey(c10::DispatchKey::Autograd) &&
      !handle.hasKernelForDispatchKey(c10::DispatchKey::AutogradCPU))
    return true;
  bool differentiated = false;
  for_each_arg(bind, [&](ir::ValueId id) {
    const ir::Value& v = trace.value(id);
    differentiated = differentiated || (v.is_tensor() && v.tensor().requires_grad);
  });
  return !differentiated;
}

void store_result(const Instruction& in, Frame& frame, size_t r, c10::IValue&& v) {
  const int32_t where = in.results[r];
  if (where >= 0) {
    frame[where] = std::move(v);
  } else if (where <= -2) {
    const auto& list = in.result_lists[static_cast<size_t>(-2 - where)];
    auto tensors = v.toTensorVector();
    if (tensors.size() != list.size())
      throw prims::ValueGuardFailed();  // another number of results than recorded
    for (size_t k = 0; k < list.size(); ++k)
      if (list[k] >= 0) frame[list[k]] = std::move(tensors[k]);
  }
}

void boxed_call(const Instruction& in, Frame& frame, std::vector<c10::IValue>& stack) {
  push_operands(in, frame, stack);
  in.op.callBoxed(&stack);
  store_results(in, frame, stack);
}

}  // namespace

void push_operands(const Instruction& in, const Frame& frame, std::vector<c10::IValue>& stack) {
  stack.clear();
  for (size_t i = 0; i < in.operands.size(); ++i) {
    const Operand& o = in.operands[i];
    switch (o.kind) {
      case Operand::Kind::Register:
        stack.push_back(frame[o.index]);
        break;
      case Operand::Kind::Constant:
        stack.push_back(in.constants[o.index]);
        break;
      case Operand::Kind::List: {
        std::vector<c10::IValue> items;
        for (int32_t r : in.lists[o.index]) items.push_back(r < 0 ? c10::IValue() : frame[r]);
        stack.push_back(ir::boxed_list(items, in.types[i]));
        break;
      }
      case Operand::Kind::Number:
        stack.push_back(ir::boxed_constant(frame[o.index], in.types[i]));
        break;
    }
  }
}

void store_results(const Instruction& in, Frame& frame, std::vector<c10::IValue>& stack) {
  for (size_t r = 0; r < in.results.size(); ++r) store_result(in, frame, r, std::move(stack[r]));
  stack.clear();
}

Plan::Plan(const ir::Trace& trace, size_t begin, size_t end, const std::vector<ir::ValueId>& keep,
           bool check_results)
    : registers_(trace.values.size()) {
  std::vector<bool> kept(registers_, false);
  for (ir::ValueId id : keep)
    if (id != ir::kNoValue) kept[id] = true;
  std::vector<size_t> last_use(registers_, 0);
  for (size_t i = begin; i < end; ++i) {
    for_each_arg(trace.binds[i], [&](ir::ValueId id) { last_use[id] = i; });
    for_each_result(trace.binds[i], [&](ir::ValueId id) { last_use[id] = i; });
  }
  instructions_.reserve(end - begin);
  for (size_t i = begin; i < end; ++i) {
    const ir::Bind& bind = trace.binds[i];
    const auto& arguments = bind.op.schema().arguments();
    const bool in_core = begin < trace.epilogue;
    const bool grad_mode = bind.grad_mode && (!in_core || kernel_sees_grad_mode(trace, bind));
    Instruction in{&boxed_call, bind.op.handle(), nullptr, nullptr, {}, {}, {}, {}, {}, grad_mode};
    in.types.resize(bind.args.size());
    for (size_t a = 0; a < bind.args.size(); ++a) {
      const auto& type = arguments[a].real_type();
      if (const auto* id = std::get_if<ir::ValueId>(&bind.args[a]);
          id != nullptr && *id != ir::kNoValue) {
        const bool wrapped =
            !trace.value(*id).is_tensor() && ir::strip_optional(type)->kind() == kTensor;
        in.operands.push_back({wrapped ? Operand::Kind::Number : Operand::Kind::Register, *id});
        if (wrapped) in.types[a] = type;
      } else if (const auto* list = std::get_if<ir::ValueList>(&bind.args[a])) {
        in.operands.push_back({Operand::Kind::List, static_cast<int32_t>(lists_.size())});
        in.types[a] = type;
        lists_.emplace_back(list->begin(), list->end());
      } else {
        const c10::IValue none;
        const auto* constant = std::get_if<c10::IValue>(&bind.args[a]);
        in.operands.push_back({Operand::Kind::Constant, static_cast<int32_t>(constants_.size())});
        constants_.push_back(ir::boxed_constant(constant != nullptr ? *constant : none, type));
      }
    }
    for (const ir::Result& r : bind.results) {
      if (const auto* id = std::get_if<ir::ValueId>(&r)) {
        in.results.push_back(*id);
      } else {
        const auto& list = std::get<ir::ValueList>(r);
        in.results.push_back(-2 - static_cast<int32_t>(in.result_lists.size()));
        in.result_lists.emplace_back(list.begin(), list.end());
      }
    }
    std::vector<bool> freed(0);
    auto free_if_dead = [&](ir::ValueId id) {
      if (kept[id] || last_use[id] != i) return;
      for (int32_t f : in.frees)
        if (f == id) return;
      in.frees.push_back(id);
    };
    for_each_arg(bind, free_if_dead);
    for_each_result(bind, free_if_dead);
    random_ = random_ || ops::is_random(bind.op);
    value_guards_ = value_guards_ || ops::is_value_guard(bind.op);
    in.own = executor_call(trace, bind, begin >= trace.epilogue);
    // An implementation may draw too, and fail after that.
    random_ = random_ || in.own != nullptr;
    instructions_.push_back(std::move(in));
    uniform_grad_mode_ = uniform_grad_mode_ && grad_mode == instructions_.front().grad_mode;
  }
  for (Instruction& in : instructions_) {
    in.constants = constants_.data();
    in.lists = lists_.data();
    if (in.own != nullptr)
      in.execute = &run_executor_call;
    else if (Execute typed = typed_call(in))
      in.execute = typed;
  }
  if (!check_results) return;
  declared_ = std::make_shared<const DeclaredTypes>(declared_types(trace));
  for (size_t i = begin; i < end; ++i) {
    Instruction& in = instructions_[i - begin];
    in.check = result_check(trace, trace.binds[i], in.execute, begin < trace.epilogue);
    in.execute = &run_checked;
  }
}

void Plan::run(Frame& frame) const {
  size_t at = 0;
  run(frame, 0, at);
}

void Plan::run(Frame& frame, size_t first, size_t& at) const {
  if (declared_ != nullptr) declared_->check(frame, "at the start", /*may_be_empty=*/true);
  if (first >= instructions_.size()) return;
  std::vector<c10::IValue> stack;
  c10::AutoGradMode restore(instructions_[first].grad_mode);
  size_t i = first;
  try {
    for (; i < instructions_.size(); ++i) {
      const Instruction& in = instructions_[i];
      if (!uniform_grad_mode_) c10::GradMode::set_enabled(in.grad_mode);
      in.execute(in, frame, stack);
      for (int32_t r : in.frees) frame[r] = c10::IValue();
    }
  } catch (const prims::ValueGuardFailed&) {
    at = i;
    throw;
  }
}

void Plan::run(Frame& frame, const std::vector<size_t>& some) const {
  if (some.empty()) return;
  std::vector<c10::IValue> stack;
  c10::AutoGradMode restore(true);
  for (size_t i : some) {
    const Instruction& in = instructions_[i];
    c10::GradMode::set_enabled(in.grad_mode);
    in.execute(in, frame, stack);
    for (int32_t r : in.frees) frame[r] = c10::IValue();
  }
}

}  // namespace fulgurite::run
