#include "record/numbers.h"

#include <ATen/core/Tensor.h>

#include <bit>

#include "ir/schema_args.h"

namespace fulgurite::record {

using c10::IValue;
using c10::TypeKind;
using ir::Arg;
using ir::Bind;
using ir::ValueId;

int Numbers::input(IValue value, std::string name) {
  Node n{Kind::Input, std::move(value), std::move(name)};
  nodes_.push_back(std::move(n));
  return static_cast<int>(nodes_.size()) - 1;
}

int Numbers::read(IValue value, ValueId id, size_t expectation) {
  Node n{Kind::Read, std::move(value), ""};
  n.id = id;
  n.expectation = expectation;
  nodes_.push_back(std::move(n));
  return static_cast<int>(nodes_.size()) - 1;
}

int Numbers::calculate(const ir::Op& op, int a, int b, IValue value) {
  Node n{Kind::Calculation, std::move(value), ""};
  n.op = op;
  n.a = a;
  n.b = b;
  nodes_.push_back(std::move(n));
  return static_cast<int>(nodes_.size()) - 1;
}

int Numbers::constant(IValue value) {
  nodes_.push_back({Kind::Constant, std::move(value), ""});
  return static_cast<int>(nodes_.size()) - 1;
}

void Numbers::check(int comparison, size_t before, int32_t region, int32_t location) {
  checks_.push_back({before, comparison, region, location});
}

void Numbers::use(size_t bind, size_t argument, int element, int node) {
  uses_.push_back({bind, argument, element, node});
}

void Numbers::fix(int node) {
  if (node < 0) return;
  Node& n = nodes_[static_cast<size_t>(node)];
  if (n.fixed) return;
  n.fixed = true;
  fix(n.a);
  fix(n.b);
}

void Numbers::fix_all_like(const IValue& value) {
  for (size_t n = 0; n < nodes_.size(); ++n)
    if (nodes_[n].value.isDouble() == value.isDouble() && same_number(nodes_[n].value, value))
      fix(static_cast<int>(n));
}

bool Numbers::is_free(int node) const {
  if (node < 0) return false;
  const Node& n = nodes_[static_cast<size_t>(node)];
  if (n.kind == Kind::Constant) return false;
  if (n.kind == Kind::Calculation) return is_free(n.a) || is_free(n.b);
  return !n.fixed;
}

bool same_number(const IValue& a, const IValue& b) {
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  return a.isDouble() && b.isDouble() &&
         std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
}

namespace {

TypeKind kind_of(const c10::TypePtr& type) { return ir::strip_optional(type)->kind(); }

bool is_number(const IValue& v) { return v.isInt() || v.isDouble() || v.isComplexDouble(); }

bool takes_numbers(TypeKind kind) {
  return kind == TypeKind::NumberType || kind == TypeKind::FloatType ||
         kind == TypeKind::TensorType;
}

c10::TypePtr element_type(const c10::TypePtr& type) {
  const c10::TypePtr inner = ir::strip_optional(type);
  return inner->kind() == TypeKind::ListType ? inner->castRaw<c10::ListType>()->getElementType()
                                             : nullptr;
}

// Whether the shapes of the results are fixed by other arguments than numbers.
bool has_shape_of_its_own(const Bind& bind) {
  bool tensor = false;
  for_each_arg(bind, [&](ValueId) { tensor = true; });
  for (const c10::Argument& a : bind.op.schema().arguments()) tensor = tensor || a.name() == "size";
  return tensor;
}

}  // namespace

namespace {
NumberHook hook_of_numbers = nullptr;
}
void set_number_hook(NumberHook hook) { hook_of_numbers = hook; }
NumberHook number_hook() { return hook_of_numbers; }

bool has_gradient(const Bind& bind, const std::vector<ir::Value>& values) {
  bool any = false;
  if (bind.grad_mode)
    for_each_result(bind, [&](ValueId id) {
      const ir::Value& v = values[static_cast<size_t>(id)];
      any = any || (v.is_tensor() && v.tensor().requires_grad);
    });
  return any;
}

bool has_constant_number(const Bind& bind) {
  const auto& formal = bind.op.schema().arguments();
  for (size_t i = 0; i < bind.args.size(); ++i) {
    const auto* c = std::get_if<IValue>(&bind.args[i]);
    if (c == nullptr) continue;
    const c10::TypePtr& type = ir::full_type(formal[i]);
    if (is_number(*c) && takes_numbers(kind_of(type))) return true;
    const c10::TypePtr element = element_type(type);
    if (element && c->isList() && takes_numbers(element->kind()) && !c->toListRef().empty())
      return true;
  }
  return false;
}

std::string name_of(const ir::Op& op, const NumberPlace& place) {
  const auto& formal = op.schema().arguments();
  if (place.is_operand || place.position < 0) return place.keyword;
  const auto k = static_cast<size_t>(place.position);
  return k < formal.size() ? formal[k].name() : "";
}

std::optional<size_t> argument_of(const Bind& bind, const std::vector<ir::Value>& values,
                                  const NumberPlace& place, const IValue& value) {
  const auto& formal = bind.op.schema().arguments();
  size_t k = formal.size();
  if (place.is_operand) {
    // x * n: one of the first two arguments is a tensor, the other one the number.
    for (size_t i = 0; i < 2 && i < bind.args.size(); ++i) {
      const auto* c = std::get_if<IValue>(&bind.args[i]);
      if (c != nullptr && is_number(*c) && bind.args.size() >= 2 &&
          std::holds_alternative<ValueId>(bind.args[1 - i]))
        k = i;
    }
  } else if (place.position >= 0) {
    k = static_cast<size_t>(place.position);
  } else {
    for (size_t i = 0; i < formal.size(); ++i)
      if (formal[i].name() == place.keyword) k = i;
  }
  if (k >= bind.args.size() || !has_shape_of_its_own(bind)) return std::nullopt;
  const auto* constant = std::get_if<IValue>(&bind.args[k]);
  if (constant == nullptr) return std::nullopt;
  const c10::TypePtr& type = ir::full_type(formal[k]);
  if (place.element < 0) {
    const TypeKind kind = kind_of(type);
    if (!takes_numbers(kind) || !same_number(*constant, value)) return std::nullopt;
    return k;
  }
  const c10::TypePtr element = element_type(type);
  if (!element || element->kind() != TypeKind::NumberType || !constant->isList())
    return std::nullopt;
  const auto items = constant->toListRef();
  if (static_cast<size_t>(place.element) >= items.size() ||
      !same_number(items[static_cast<size_t>(place.element)], value) || has_gradient(bind, values))
    return std::nullopt;
  return k;
}

}  // namespace fulgurite::record
