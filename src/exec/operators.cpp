#include "exec/operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <shared_mutex>
#include <sstream>

#include "ops/cards.h"

namespace fulgurite::exec {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<ir::Op, OperatorPtr> operators;
  struct Kernel {
    std::weak_ptr<const Implementation> implementation;
    ir::TracePtr group;
  };
  std::unordered_map<int64_t, Kernel> kernels;
  int64_t next_kernel = 0;
  std::vector<std::unique_ptr<torch::Library>> libraries;  // registrations are for good
};
Table& table() {
  static auto* t = new Table();
  return *t;
}
std::atomic<size_t> how_many{0};

// What the dispatcher calls: whatever implementation the operator has now.
class Kernel : public c10::OperatorKernel {
 public:
  explicit Kernel(bool on_meta) : on_meta_(on_meta) {}
  void operator()(const c10::OperatorHandle& handle, c10::DispatchKeySet,
                  torch::jit::Stack* stack) {
    const OperatorPtr found = find_operator(ir::Op(handle));
    if (found == nullptr) throw InternalError(handle.schema().name() + " has no implementation");
    const size_t count = handle.schema().arguments().size();
    // Beneath the arguments on the stack may be values of others.
    std::vector<c10::IValue> own(std::make_move_iterator(stack->end() - count),
                                 std::make_move_iterator(stack->end()));
    stack->resize(stack->size() - count);
    (on_meta_ ? found->meta : found->implementation)->run(own);
    for (c10::IValue& v : own) stack->push_back(std::move(v));
  }

 private:
  bool on_meta_;
};

std::string text_of(const c10::FunctionSchema& schema) {
  std::ostringstream text;
  text << schema;
  return text.str();
}

c10::FunctionSchema parsed(const std::string& full_name, const std::string& schema) {
  try {
    return torch::jit::parseSchema(full_name + schema);
  } catch (const std::exception& e) {
    throw UserError("FG-403", "'" + full_name + schema + "' is no schema of an operator: " +
                                  std::string(e.what()).substr(0, 400));
  }
}

void define(Executor& executor, const std::string& name, c10::FunctionSchema schema,
            OperatorTraits traits) {
  using c10::DispatchKey;
  auto library = std::make_unique<torch::Library>(
      torch::Library::FRAGMENT, executor.operator_namespace(), std::nullopt, __FILE__, __LINE__);
  const std::vector<at::Tag> tags(traits.is_random ? 1 : 0, at::Tag::nondeterministic_seeded);
  library->def(std::move(schema), tags);
  auto kernel = [](bool on_meta) {
    return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(on_meta));
  };
  library->impl(name.c_str(),
                torch::dispatch(DispatchKey::CompositeExplicitAutograd, kernel(false)));
  library->impl(name.c_str(), torch::dispatch(DispatchKey::Meta, kernel(true)));
  // Without a gradient rule, backward through it is an error, as for PyTorch's own operators.
  library->impl(name.c_str(), torch::dispatch(DispatchKey::Autograd,
                                              torch::autograd::autogradNotImplementedFallback()));
  table().libraries.push_back(std::move(library));
}

}  // namespace

ir::Op define_operator(Executor& executor, const std::string& name, const std::string& schema,
                       ImplementationPtr implementation, ImplementationPtr meta,
                       OperatorTraits traits) {
  if (executor.takes_everything())
    throw UserError("FG-405",
                    "the executor aten has PyTorch's operators; register your own in an "
                    "executor of your own");
  const std::string full_name = executor.operator_namespace() + "::" + name;
  c10::FunctionSchema wanted = parsed(full_name, schema);
  uint32_t said = ops::kKeepsTensors;
  if (traits.has_effect) said |= ops::kEffect;
  ops::add_card(full_name, said);
  bool replaces = false;
  {
    const std::unique_lock lock(table().mutex);
    if (const auto there = ir::Op::find(full_name, "")) {
      if (text_of(there->schema()) != text_of(wanted))
        throw UserError("FG-403", "the operator " + there->id() + " is there already, as '" +
                                      text_of(there->schema()) + "', and cannot become '" +
                                      text_of(wanted) + "'; choose another name");
    } else {
      define(executor, name, std::move(wanted), traits);
    }
    const ir::Op op = ir::Op::get(full_name);
    replaces = table().operators.count(op) > 0;
    table().operators[op] = std::make_shared<const Operator>(Operator{
        op, executor.name(), std::move(implementation), std::move(meta), traits.calls_kernels});
    how_many = table().operators.size();
  }
  if (!traits.calls_kernels) executor.changed();
  // Programs that call it by its own name may have any list: aten is in every one.
  if (replaces) aten()->changed();
  return ir::Op::get(full_name);
}

bool any_operators() { return how_many.load(std::memory_order_acquire) > 0; }

OperatorPtr find_operator(const ir::Op& op) {
  if (!any_operators()) return nullptr;
  const std::shared_lock lock(table().mutex);
  const auto it = table().operators.find(op);
  return it == table().operators.end() ? nullptr : it->second;
}

int64_t add_kernel(const ImplementationPtr& kernel, ir::TracePtr group) {
  const std::unique_lock lock(table().mutex);
  std::erase_if(table().kernels,
                [](const auto& item) { return item.second.implementation.expired(); });
  table().kernels[table().next_kernel] = {kernel, std::move(group)};
  return table().next_kernel++;
}

ImplementationPtr find_kernel(int64_t number) {
  const std::shared_lock lock(table().mutex);
  const auto it = table().kernels.find(number);
  ImplementationPtr kernel =
      it == table().kernels.end() ? nullptr : it->second.implementation.lock();
  if (kernel == nullptr)
    throw ExecutorError("FG-416", "kernel " + std::to_string(number) +
                                      " is gone with the program that it was made for");
  return kernel;
}

ir::TracePtr group_of_kernel(int64_t number) {
  const std::shared_lock lock(table().mutex);
  const auto it = table().kernels.find(number);
  return it == table().kernels.end() ? nullptr : it->second.group;
}

ir::Op fused_operator(Executor& executor) {
  const std::string name = executor.operator_namespace() + "::fused";
  if (const auto there = ir::Op::find(name, "")) return *there;
  auto run = implementation([](std::vector<c10::IValue>& stack) {
    const int64_t number = stack.back().toInt();
    stack.pop_back();
    find_kernel(number)->run(stack);
  });
  auto meta = implementation([](std::vector<c10::IValue>&) {
    throw ExecutorError("FG-416", "kernels of groups do not run on meta tensors");
  });
  OperatorTraits traits;
  traits.calls_kernels = true;
  return define_operator(executor, "fused", "(Tensor[] inputs, int kernel) -> Tensor[]", run, meta,
                         traits);
}

}  // namespace fulgurite::exec
