// The C++ side of executors: a thin mapping onto exec/.
#include "fulgurite/extend.h"

#include <stdexcept>

#include "exec/operators.h"
#include "exec/registry.h"
#include "ir/stack.h"
#include "passes/infer.h"

namespace fulgurite {
namespace {

// The user's mistakes, in the standard's terms: UserError is no part of the public API.
template <class F>
auto told(F&& f) {
  try {
    return f();
  } catch (const UserError& e) {
    throw std::invalid_argument(e.what());
  }
}

ir::Op operator_named(const std::string& full_name) {
  const size_t dot = full_name.find('.');
  const std::string overload = dot == std::string::npos ? "" : full_name.substr(dot + 1);
  if (auto op = ir::Op::find(full_name.substr(0, dot), overload)) return *op;
  throw UserError("FG-404", "there is no operator '" + full_name + "'");
}

exec::Checker checker_of(OperatorExecutor::Checker checker) {
  if (!checker) return {};
  return [checker = std::move(checker)](const exec::Candidate& c) {
    const ir::Bind bind{c.op, c.args, c.results, c.location, -1, false};
    std::vector<c10::IValue> env(c.trace.values.size());
    ir::for_each_arg(bind, [&](ir::ValueId id) {
      if (c.trace.value(id).is_tensor())
        env[id] = passes::sample(c.trace.value(id).tensor(), /*on_meta=*/true);
    });
    std::vector<c10::IValue> arguments;
    ir::push_arguments(bind, env, arguments);
    std::string reason = checker(arguments);
    return exec::Verdict{reason.empty(), std::move(reason)};
  };
}

}  // namespace

OperatorExecutor::OperatorExecutor(const std::string& name, const std::string& version)
    : executor_(told([&] { return std::make_shared<exec::Executor>(name, version); })) {
  exec::register_executor(executor_);
}

void OperatorExecutor::register_operator(const std::string& name, const std::string& schema,
                                         Function function, Function meta) const {
  told([&] {
    return exec::define_operator(*executor_, name, schema,
                                 exec::implementation(std::move(function)),
                                 exec::implementation(std::move(meta)));
  });
}

void OperatorExecutor::register_implementation(const std::string& op, const std::string& by,
                                               Checker checker) const {
  told([&] {
    exec::Offer offer;
    offer.as = operator_named(executor_->operator_namespace() + "::" + by);
    offer.checker = checker_of(std::move(checker));
    executor_->implement(operator_named(op), std::move(offer));
  });
}

void OperatorExecutor::deregister() const { exec::deregister_executor(executor_->name()); }

const std::string& OperatorExecutor::name() const { return executor_->name(); }

}  // namespace fulgurite
