#include "ir/spelling.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "ir/schema_args.h"

namespace fulgurite::ir {
namespace {

using c10::TypeKind;

struct PythonName {
  std::string_view aten;
  std::string_view python;
  std::string_view overloads;  // separated by spaces
};

constexpr PythonName kPythonNames[] = {
#include "ir/python_names.inc"
};

using NameIndex = std::unordered_map<std::string_view, const PythonName*>;

const NameIndex& by_aten_name() {
  static const NameIndex index = [] {
    NameIndex names;
    for (const PythonName& row : kPythonNames) names.emplace(row.aten, &row);
    return names;
  }();
  return index;
}

const NameIndex& by_python_name() {
  static const NameIndex index = [] {
    NameIndex names;
    for (const PythonName& row : kPythonNames) names.emplace(row.python, &row);
    return names;
  }();
  return index;
}

std::vector<Op> overloads_of(const PythonName& row) {
  std::vector<Op> ops;
  std::string_view rest = row.overloads;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    const std::string_view overload = rest.substr(0, space);
    rest.remove_prefix(std::min(space + 1, rest.size()));
    if (auto op = Op::find("aten::" + std::string(row.aten),
                           overload == "default" ? "" : std::string(overload)))
      ops.push_back(*op);
  }
  return ops;
}

// The bindings that take a Python number for a tensor. PyTorch's own list is longer.
bool takes_numbers_for_tensors(std::string_view aten) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"add", "add_", "div", "div_", "divide", "divide_", "floor_divide", "floor_divide_", "mul",
       "mul_", "multiply", "multiply_", "sub", "sub_", "subtract", "subtract_", "true_divide",
       "true_divide_"});
  return std::binary_search(kNames.begin(), kNames.end(), aten);
}

// ---- the choice of Python's binding
// ----------------------------------------------------------------

class Binding {
 public:
  Binding(const PythonName& row, const std::vector<Value>& values) : row_(row), values_(values) {}

  // True if the binding takes the call with this signature.
  bool accepts(const Call& call, const c10::FunctionSchema& schema) const {
    const auto& formal = schema.arguments();
    size_t positional = 0;
    while (positional < formal.size() && !formal[positional].kwarg_only()) ++positional;
    if (call.positional.size() > positional) return false;
    size_t used = 0;
    for (size_t i = 0; i < formal.size(); ++i) {
      const Literal* given = nullptr;
      if (i < call.positional.size()) given = &call.positional[i];
      for (const auto& [name, literal] : call.keywords)
        if (name == formal[i].name() && given == nullptr) {
          given = &literal;
          ++used;
        }
      if (given == nullptr) {
        // The bindings have defaults for optional keyword-only arguments, as the schemas do.
        if (!formal[i].default_value()) return false;
      } else if (!admits(*given, formal[i], i == 0)) {
        return false;
      }
    }
    return used == call.keywords.size();
  }

 private:
  bool admits(const Literal& literal, const c10::Argument& argument, bool is_first) const {
    const c10::TypePtr& full = full_type(argument);
    if (literal.kind == LiteralKind::None) return full->kind() == TypeKind::OptionalType;
    const c10::TypePtr type = strip_optional(full);
    if (type->kind() == TypeKind::TensorType) {
      if (is_tensor(literal)) return true;
      return !is_first && is_number(literal) && takes_numbers_for_tensors(row_.aten);
    }
    if (const auto* list = type->castRaw<c10::ListType>()) {
      const c10::TypePtr element = list->getElementType();
      if (literal.kind != LiteralKind::List) {
        const TypeKind kind = strip_optional(element)->kind();
        return argument.N() && (kind == TypeKind::IntType || kind == TypeKind::SymIntType) &&
               admits_scalar(literal, TypeKind::IntType);
      }
      if (is_tensor_type(element))
        return std::all_of(literal.items.begin(), literal.items.end(),
                           [&](const Literal& item) { return is_tensor(item); });
      const TypeKind kind = strip_optional(element)->kind();
      return std::all_of(literal.items.begin(), literal.items.end(),
                         [&](const Literal& item) { return admits_scalar(item, kind); });
    }
    return admits_scalar(literal, type->kind());
  }

  bool admits_scalar(const Literal& literal, TypeKind kind) const {
    switch (kind) {
      case TypeKind::NumberType:
        return is_number(literal) || is_number_like_tensor(literal);
      case TypeKind::FloatType:
        return is_real(literal) || literal.kind == LiteralKind::Bool ||
               is_number_like_tensor(literal);
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        return (literal.kind == LiteralKind::Int && !literal.as_tensor) ||
               is_value_of(literal, ScalarKind::Int) || is_number_like_tensor(literal);
      case TypeKind::ComplexType:
        return is_number(literal);
      case TypeKind::BoolType:
        return literal.kind == LiteralKind::Bool || is_value_of(literal, ScalarKind::Bool);
      case TypeKind::StringType:
        return literal.kind == LiteralKind::String;
      case TypeKind::ScalarTypeType:
        return literal.kind == LiteralKind::Dtype;
      case TypeKind::LayoutType:
        return literal.kind == LiteralKind::Layout;
      case TypeKind::MemoryFormatType:
        return literal.kind == LiteralKind::MemoryFormat;
      case TypeKind::DeviceObjType:
        return literal.kind == LiteralKind::Device || literal.kind == LiteralKind::String;
      case TypeKind::GeneratorType:
        return literal.kind == LiteralKind::Generator;
      default:
        return false;
    }
  }

  const Value* value_of(const Literal& literal) const {
    if (literal.kind != LiteralKind::Value) return nullptr;
    return &values_.at(static_cast<size_t>(literal.value));
  }
  bool is_tensor(const Literal& literal) const {
    const Value* value = value_of(literal);
    return literal.as_tensor || (value != nullptr && value->is_tensor());
  }
  bool is_value_of(const Literal& literal, ScalarKind kind) const {
    const Value* value = value_of(literal);
    return value != nullptr && !value->is_tensor() && std::get<ScalarKind>(value->type) == kind;
  }
  bool is_real(const Literal& literal) const {
    if (literal.as_tensor) return false;
    return literal.kind == LiteralKind::Int || literal.kind == LiteralKind::Float ||
           is_value_of(literal, ScalarKind::Int) || is_value_of(literal, ScalarKind::Float);
  }
  bool is_number(const Literal& literal) const {
    if (literal.as_tensor) return false;
    const Value* value = value_of(literal);
    return is_real(literal) || literal.kind == LiteralKind::Bool ||
           literal.kind == LiteralKind::Complex || (value != nullptr && !value->is_tensor());
  }
  // The bindings take a tensor of one element for a number if it needs no gradient.
  bool is_number_like_tensor(const Literal& literal) const {
    const Value* value = value_of(literal);
    return literal.as_tensor || (value != nullptr && value->is_tensor() &&
                                 value->tensor().sizes.empty() && !value->tensor().requires_grad);
  }

  const PythonName& row_;
  const std::vector<Value>& values_;
};

// ---- from a call to the schema's arguments
// ---------------------------------------------------------

std::string plural(size_t count, const char* word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

std::variant<ResolvedCall, std::string> bind_to(const Op& op, const Call& call,
                                                const std::vector<Value>& values) {
  const auto& formal = op.schema().arguments();
  if (call.positional.size() > formal.size())
    return op.id() + " takes at most " + plural(formal.size(), "argument") + ", not " +
           std::to_string(call.positional.size());
  std::vector<const Literal*> given(formal.size(), nullptr);
  for (size_t i = 0; i < call.positional.size(); ++i) given[i] = &call.positional[i];
  for (const auto& [name, literal] : call.keywords) {
    size_t i = 0;
    while (i < formal.size() && formal[i].name() != name) ++i;
    if (i == formal.size()) return op.id() + " has no argument '" + name + "'";
    if (given[i] != nullptr) return op.id() + " is given the argument '" + name + "' twice";
    given[i] = &literal;
  }
  std::vector<Arg> args;
  for (size_t i = 0; i < formal.size(); ++i) {
    if (given[i] == nullptr) {
      if (!formal[i].default_value())
        return op.id() + " lacks the argument '" + formal[i].name() + "'";
      args.push_back(normalized(Arg(*formal[i].default_value()), formal[i]));
      continue;
    }
    auto arg = arg_of(*given[i], formal[i]);
    if (!arg)
      return op.id() + ": the argument '" + formal[i].name() + "' cannot be " +
             literal_text(*given[i], values) + "; the schema wants " + full_type(formal[i])->str();
    if (std::string why = misfit(*arg, formal[i], values); !why.empty())
      return op.id() + ": " + why;
    args.push_back(std::move(*arg));
  }
  return ResolvedCall{op, std::move(args)};
}

constexpr std::string_view kExact = "torch.ops.";
constexpr std::string_view kPrims = "fulgurite.prims.";

std::variant<ResolvedCall, std::string> no_such(const Call& call) {
  return "there is no operator '" + call.callee + "'";
}

// "aten.add.Tensor" after "torch.ops."
std::variant<ResolvedCall, std::string> resolve_exact(const Call& call,
                                                      const std::vector<Value>& values) {
  const std::string path = call.callee.substr(kExact.size());
  const size_t first = path.find('.');
  const size_t last = path.rfind('.');
  if (first == std::string::npos || first == last) return no_such(call);
  const std::string overload = path.substr(last + 1);
  auto op = Op::find(path.substr(0, first) + "::" + path.substr(first + 1, last - first - 1),
                     overload == "default" ? "" : overload);
  return op ? bind_to(*op, call, values) : no_such(call);
}

bool same_args(const std::vector<Arg>& a, const std::vector<Arg>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_arg);
}

// Positional arguments in order, defaults left out. After a default that is left out, and for
// keyword-only arguments, keywords; where Python cannot spell the keyword nothing is left out
// before it.
Call arrange(std::string callee, const Op& op, const std::vector<Arg>& args) {
  const auto& formal = op.schema().arguments();
  std::vector<bool> is_default(args.size(), false);
  size_t must_be_positional = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    // Some bindings have another default for the reduction of a loss than their schema.
    is_default[i] = formal[i].default_value() && formal[i].name() != "reduction" &&
                    same_arg(args[i], normalized(Arg(*formal[i].default_value()), formal[i]));
    const bool no_keyword = is_python_keyword(formal[i].name()) || formal[i].name() == "self";
    if (!is_default[i] && no_keyword) must_be_positional = i + 1;
  }
  Call call;
  call.callee = std::move(callee);
  bool left_out = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (is_default[i] && i >= must_be_positional) {
      left_out = true;
      continue;
    }
    Literal literal = literal_of(args[i], full_type(formal[i]));
    literal.as_tensor = is_tensor_type(full_type(formal[i])) && is_constant_number(literal) &&
                        !(op.ns() == "aten" && takes_numbers_for_tensors(op.base_name()));
    if (formal[i].kwarg_only() || left_out) {
      call.keywords.emplace_back(formal[i].name(), std::move(literal));
    } else {
      call.positional.push_back(std::move(literal));
    }
  }
  return call;
}

}  // namespace

Call spell(const Op& op, const std::vector<Arg>& args, const std::vector<Value>& values) {
  if (op.ns() == "fulgurite" && op.overload().empty())
    return arrange(std::string(kPrims) + op.base_name(), op, args);
  if (op.ns() == "aten") {
    const std::string name = op.base_name();
    if (auto row = by_aten_name().find(name); row != by_aten_name().end()) {
      Call call = arrange(std::string(row->second->python), op, args);
      const auto found = resolve(call, values);
      const auto* resolved = std::get_if<ResolvedCall>(&found);
      if (resolved != nullptr && resolved->op == op && same_args(resolved->args, args)) return call;
    }
  }
  return arrange(std::string(kExact) + op.ns() + "." + op.base_name() + "." +
                     (op.overload().empty() ? "default" : op.overload()),
                 op, args);
}

std::variant<ResolvedCall, std::string> resolve(const Call& call,
                                                const std::vector<Value>& values) {
  const std::string_view callee = call.callee;
  if (callee.starts_with(kExact)) return resolve_exact(call, values);
  if (callee.starts_with(kPrims)) {
    auto op = Op::find("fulgurite::" + call.callee.substr(kPrims.size()), "");
    return op ? bind_to(*op, call, values) : no_such(call);
  }
  const auto row = by_python_name().find(callee);
  if (row == by_python_name().end()) return no_such(call);
  const Binding binding(*row->second, values);
  for (const Op& op : overloads_of(*row->second))
    if (binding.accepts(call, op.schema())) return bind_to(op, call, values);
  return "no overload of " + call.callee + " takes these arguments";
}

std::string call_text(const Call& call, const std::vector<Value>& values) {
  std::string text = call.callee;
  size_t first = 0;
  if (text.starts_with('.')) {
    text = literal_text(call.positional.at(0), values) + text;
    first = 1;
  } else if (const size_t dot = text.rfind('.');
             dot != std::string::npos && is_python_keyword(text.substr(dot + 1))) {
    text = "getattr(" + text.substr(0, dot) + ", '" + text.substr(dot + 1) + "')";
  }
  text += "(";
  bool comma = false;
  for (size_t i = first; i < call.positional.size(); ++i, comma = true)
    text += (comma ? ", " : "") + literal_text(call.positional[i], values);
  for (const auto& [name, literal] : call.keywords) {
    text += (comma ? ", " : "") + name + "=" + literal_text(literal, values);
    comma = true;
  }
  return text + ")";
}

bool is_python_keyword(std::string_view word) {
  static constexpr auto kWords = std::to_array<std::string_view>(
      {"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
       "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
       "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
       "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"});
  return std::binary_search(kWords.begin(), kWords.end(), word);
}

}  // namespace fulgurite::ir
