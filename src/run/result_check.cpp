#include "run/result_check.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "ir/text.h"
#include "ops/traits.h"
#include "run/layout.h"

namespace fulgurite::run {
namespace {

std::string text(const std::variant<ir::TensorType, ir::ScalarKind>& type) {
  ir::Value v;
  v.type = type;
  if (v.is_tensor())
    std::get<ir::TensorType>(v.type).requires_grad = false;  // it says nothing here
  return ir::type_text(v);
}

std::string text(const c10::IValue& v) {
  if (!v.isTensor()) return "a value of type " + v.tagKind();
  const at::Tensor& t = v.toTensor();
  if (!t.defined()) return "no tensor";
  return t.layout() == at::kStrided ? text(ir::type_of(t)) : "a tensor that is not strided";
}

bool fits(const at::Tensor& t, const ir::TensorType& type, bool any_shape) {
  return t.defined() && t.layout() == at::kStrided && t.scalar_type() == type.dtype &&
         t.device() == type.device &&
         (any_shape || (t.sizes() == at::IntArrayRef(type.sizes) && has_strides(t, type.strides)));
}

bool fits(const c10::IValue& v, ir::ScalarKind kind) {
  switch (kind) {
    case ir::ScalarKind::Int:
      return v.isInt();
    case ir::ScalarKind::Float:
      return v.isDouble();
    case ir::ScalarKind::Bool:
      return v.isBool();
    case ir::ScalarKind::Complex:
      return v.isComplexDouble();
  }
  return false;
}

bool fits(const c10::IValue& v, const DeclaredTypes::Register& r) {
  if (const auto* kind = std::get_if<ir::ScalarKind>(&r.type)) return fits(v, *kind);
  return v.isTensor() && fits(v.toTensor(), std::get<ir::TensorType>(r.type), r.any_shape);
}

// Below autograd a history can only come with a tensor that was given.
void check_history(const ResultCheck& c, const Frame& frame) {
  for (const DeclaredTypes::Register& r : c.results.registers) {
    const c10::IValue& found = frame[static_cast<size_t>(r.index)];
    if (!found.isTensor() || !found.toTensor().requires_grad()) continue;
    const bool was_given = std::any_of(frame.begin(), frame.end(), [&](const c10::IValue& other) {
      return &other != &found && other.isTensor() && other.toTensor().is_same(found.toTensor());
    });
    if (!was_given)
      throw WrongResult(c.who + " gave " + r.name + " a history of its own, in " + c.results.trace);
  }
}

}  // namespace

DeclaredTypes::DeclaredTypes(const ir::Trace& t) : trace(t.name + ", after " + t.stage) {}

void DeclaredTypes::add(const ir::Trace& t, ir::ValueId id, bool any_shape) {
  registers.push_back({id, t.value(id).name, t.value(id).type, any_shape});
}

void DeclaredTypes::check(const Frame& frame, const std::string& who, bool may_be_empty) const {
  for (const Register& r : registers) {
    const c10::IValue& found = frame[static_cast<size_t>(r.index)];
    if (may_be_empty && found.isNone()) continue;
    if (fits(found, r)) continue;
    throw WrongResult(who + ": " + r.name + " is " + text(found) + ", declared is " + text(r.type) +
                      " (" + trace + "); please report this, with the program");
  }
}

DeclaredTypes declared_types(const ir::Trace& trace) {
  DeclaredTypes types(trace);
  for (size_t id = 0; id < trace.values.size(); ++id)
    types.add(trace, static_cast<ir::ValueId>(id));
  return types;
}

namespace {

ResultCheck declared_by(const ir::Trace& trace, const ir::Bind& bind, Execute execute,
                        bool below_autograd) {
  ResultCheck check{execute, DeclaredTypes(trace), bind.op.id(), below_autograd};
  if (bind.location >= 0) {
    const auto& at = trace.locations[static_cast<size_t>(bind.location)];
    check.who += ", " + at.file + ":" + std::to_string(at.line);
  }
  const bool any_shape = ops::has_data_dependent_shape(bind.op);
  for_each_result(bind, [&](ir::ValueId id) { check.results.add(trace, id, any_shape); });
  if (ops::is_value_guard(bind.op))
    for_each_arg(bind, [&](ir::ValueId id) { check.results.add(trace, id); });
  return check;
}

}  // namespace

std::shared_ptr<const ResultCheck> result_check(const ir::Trace& trace, const ir::Bind& bind,
                                                Execute execute, bool below_autograd) {
  return std::make_shared<const ResultCheck>(declared_by(trace, bind, execute, below_autograd));
}

void check_results(const ir::Trace& trace, const ir::Bind& bind, const Frame& frame) {
  const ResultCheck c = declared_by(trace, bind, nullptr, false);
  c.results.check(frame, c.who, /*may_be_empty=*/false);
}

void run_checked(const Instruction& in, Frame& frame, std::vector<c10::IValue>& stack) {
  const ResultCheck& c = *in.check;
  c.execute(in, frame, stack);
  c.results.check(frame, c.who, /*may_be_empty=*/false);
  if (c.below_autograd) check_history(c, frame);
}

}  // namespace fulgurite::run
