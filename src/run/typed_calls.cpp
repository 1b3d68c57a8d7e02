#include "run/typed_calls.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace fulgurite::run {
namespace {

using Tk = c10::TypeKind;

bool is(const c10::TypePtr& t, Tk kind) { return t->kind() == kind; }
bool is_optional(const c10::TypePtr& t, Tk kind) {
  auto o = t->cast<c10::OptionalType>();
  return o && o->getElementType()->kind() == kind;
}
bool is_list(const c10::TypePtr& t, Tk kind) {
  auto l = t->cast<c10::ListType>();
  return l && l->getElementType()->kind() == kind;
}
bool is_optional_list(const c10::TypePtr& t, Tk kind) {
  auto o = t->cast<c10::OptionalType>();
  return o && is_list(o->getElementType(), kind);
}

// How a parameter type of a kernel reads its operand. `Storage` lives for the time of the call.
template <class T>
struct Read;

const c10::IValue& value_of(const Instruction& in, const Frame& frame, const Operand& operand) {
  return operand.kind == Operand::Kind::Register ? frame[operand.index]
                                                 : in.constants[operand.index];
}

template <>
struct Read<const at::Tensor&> {
  static bool accepts(const c10::TypePtr& t) { return is(t, Tk::TensorType); }
  const at::Tensor& t;
  explicit Read(const c10::IValue& v) : t(v.toTensor()) {}
  const at::Tensor& get() { return t; }
};
template <>
struct Read<const std::optional<at::Tensor>&> {
  static bool accepts(const c10::TypePtr& t) { return is_optional(t, Tk::TensorType); }
  std::optional<at::Tensor> t;
  explicit Read(const c10::IValue& v)
      : t(v.isNone() ? std::nullopt : std::optional<at::Tensor>(v.toTensor())) {}
  const std::optional<at::Tensor>& get() { return t; }
};
template <>
struct Read<const c10::Scalar&> {
  static bool accepts(const c10::TypePtr& t) { return is(t, Tk::NumberType); }
  c10::Scalar s;
  explicit Read(const c10::IValue& v) : s(v.toScalar()) {}
  const c10::Scalar& get() { return s; }
};
template <>
struct Read<int64_t> {
  static bool accepts(const c10::TypePtr& t) { return is(t, Tk::IntType); }
  int64_t i;
  explicit Read(const c10::IValue& v) : i(v.toInt()) {}
  int64_t get() { return i; }
};
template <>
struct Read<c10::SymInt> {
  static bool accepts(const c10::TypePtr& t) { return is(t, Tk::SymIntType); }
  int64_t i;
  explicit Read(const c10::IValue& v) : i(v.toInt()) {}
  c10::SymInt get() { return c10::SymInt(i); }
};
template <>
struct Read<std::optional<c10::SymInt>> {
  static bool accepts(const c10::TypePtr& t) { return is_optional(t, Tk::SymIntType); }
  std::optional<c10::SymInt> i;
  explicit Read(const c10::IValue& v)
      : i(v.isNone() ? std::nullopt : std::optional<c10::SymInt>(v.toInt())) {}
  std::optional<c10::SymInt> get() { return i; }
};
template <>
struct Read<std::optional<int64_t>> {
  static bool accepts(const c10::TypePtr& t) { return is_optional(t, Tk::IntType); }
  std::optional<int64_t> i;
  explicit Read(const c10::IValue& v)
      : i(v.isNone() ? std::nullopt : std::optional<int64_t>(v.toInt())) {}
  std::optional<int64_t> get() { return i; }
};
template <>
struct Read<bool> {
  static bool accepts(const c10::TypePtr& t) { return is(t, Tk::BoolType); }
  bool b;
  explicit Read(const c10::IValue& v) : b(v.toBool()) {}
  bool get() { return b; }
};
template <>
struct Read<double> {
  static bool accepts(const c10::TypePtr& t) { return is(t, Tk::FloatType); }
  double d;
  explicit Read(const c10::IValue& v) : d(v.toDouble()) {}
  double get() { return d; }
};
template <>
struct Read<std::optional<double>> {
  static bool accepts(const c10::TypePtr& t) { return is_optional(t, Tk::FloatType); }
  std::optional<double> d;
  explicit Read(const c10::IValue& v)
      : d(v.isNone() ? std::nullopt : std::optional<double>(v.toDouble())) {}
  std::optional<double> get() { return d; }
};
template <>
struct Read<std::optional<at::ScalarType>> {
  static bool accepts(const c10::TypePtr& t) { return is_optional(t, Tk::ScalarTypeType); }
  std::optional<at::ScalarType> d;
  explicit Read(const c10::IValue& v)
      : d(v.isNone() ? std::nullopt : std::optional<at::ScalarType>(v.toScalarType())) {}
  std::optional<at::ScalarType> get() { return d; }
};
template <>
struct Read<at::ScalarType> {
  static bool accepts(const c10::TypePtr& t) { return is(t, Tk::ScalarTypeType); }
  at::ScalarType d;
  explicit Read(const c10::IValue& v) : d(v.toScalarType()) {}
  at::ScalarType get() { return d; }
};
template <>
struct Read<c10::IntArrayRef> {
  static bool accepts(const c10::TypePtr& t) { return is_list(t, Tk::IntType); }
  c10::DimVector dims;
  explicit Read(const c10::IValue& v) {
    for (const c10::IValue& e : v.toListRef()) dims.push_back(e.toInt());
  }
  c10::IntArrayRef get() { return dims; }
};
template <>
struct Read<c10::OptionalIntArrayRef> {
  static bool accepts(const c10::TypePtr& t) { return is_optional_list(t, Tk::IntType); }
  c10::DimVector dims;
  bool present;
  explicit Read(const c10::IValue& v) : present(!v.isNone()) {
    if (present)
      for (const c10::IValue& e : v.toListRef()) dims.push_back(e.toInt());
  }
  c10::OptionalIntArrayRef get() {
    return present ? c10::OptionalIntArrayRef(dims) : c10::OptionalIntArrayRef();
  }
};
template <>
struct Read<c10::SymIntArrayRef> {
  static bool accepts(const c10::TypePtr& t) { return is_list(t, Tk::SymIntType); }
  c10::SmallVector<c10::SymInt, 5> dims;
  explicit Read(const c10::IValue& v) {
    for (const c10::IValue& e : v.toListRef()) dims.emplace_back(e.toInt());
  }
  c10::SymIntArrayRef get() { return dims; }
};

template <class Return>
void store(const Instruction& in, Frame& frame, Return&& r) {
  if constexpr (std::is_same_v<std::decay_t<Return>, at::Tensor>) {
    if (in.results[0] >= 0) frame[in.results[0]] = c10::IValue(std::forward<Return>(r));
  } else {
    size_t k = 0;
    std::apply(
        [&](auto&&... e) {
          auto one = [&](auto&& t) {
            if (in.results[k] >= 0) frame[in.results[k]] = c10::IValue(std::move(t));
            ++k;
          };
          (one(std::forward<decltype(e)>(e)), ...);
        },
        std::forward<Return>(r));
  }
}

template <class R>
constexpr size_t count_of = 1;
template <class... R>
constexpr size_t count_of<std::tuple<R...>> = sizeof...(R);

template <class Signature>
struct Caller;
template <class R, class... Args>
struct Caller<R(Args...)> {
  template <size_t... I>
  static void call(const Instruction& in, Frame& frame, std::index_sequence<I...>) {
    std::tuple<Read<Args>...> read{Read<Args>(value_of(in, frame, in.operands[I]))...};
    auto handle = in.op.template typed<R(Args...)>();
    store(in, frame, handle.call(std::get<I>(read).get()...));
  }
  static void run(const Instruction& in, Frame& frame, std::vector<c10::IValue>& /*stack*/) {
    call(in, frame, std::index_sequence_for<Args...>());
  }
  static constexpr size_t arity = sizeof...(Args);
  template <size_t... I>
  static bool accepted(const std::vector<c10::Argument>& arguments, std::index_sequence<I...>) {
    return (Read<Args>::accepts(arguments[I].real_type()) && ...);
  }
  static bool fits(const Instruction& in) {
    const auto& arguments = in.op.schema().arguments();
    if (arguments.size() != arity || !accepted(arguments, std::index_sequence_for<Args...>()))
      return false;
    // `typed` does not check operators that have no kernel in C++.
    if (in.op.schema().returns().size() != count_of<R>) return false;
    for (const Operand& o : in.operands)
      if (o.kind == Operand::Kind::List || o.kind == Operand::Kind::Number) return false;
    for (int32_t r : in.results)
      if (r < -1) return false;
    try {
      (void)in.op.template typed<R(Args...)>();  // throws if the kernel has another signature
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  }
};

using T = at::Tensor;
using CT = const at::Tensor&;
using OT = const std::optional<at::Tensor>&;
using S = const c10::Scalar&;
using I = int64_t;
using SI = c10::SymInt;
using OSI = std::optional<c10::SymInt>;
using B = bool;
using D = double;
using OD = std::optional<double>;
using IL = c10::IntArrayRef;
using OIL = c10::OptionalIntArrayRef;
using SL = c10::SymIntArrayRef;
using Dt = std::optional<at::ScalarType>;
using T2 = std::tuple<T, T>;
using T3 = std::tuple<T, T, T>;

template <class... Signatures>
Execute first_fitting(const Instruction& in) {
  Execute found = nullptr;
  ((found == nullptr && Caller<Signatures>::fits(in) ? (void)(found = &Caller<Signatures>::run)
                                                     : (void)0),
   ...);
  return found;
}

}  // namespace

Execute typed_call(const Instruction& in) {
  if (in.op.schema().is_mutable()) return nullptr;
  for (const auto& r : in.op.schema().returns())
    if (r.type()->kind() != c10::TypeKind::TensorType) return nullptr;
  const size_t n = in.operands.size();
  switch (n) {
    case 1:
      return first_fitting<T(CT)>(in);
    case 2:
      return first_fitting<T(CT, CT), T(CT, S), T(CT, SL), T(CT, IL), T(CT, I), T(CT, Dt),
                           T(CT, B)>(in);
    case 3:
      return first_fitting<T(CT, CT, S), T(CT, I, I), T(CT, CT, I), T(CT, I, B), T(CT, I, SI),
                           T(CT, CT, CT), T(CT, CT, D), T(CT, S, S), T(CT, SL, B), T(CT, I, Dt),
                           T(CT, CT, B), T(CT, SL, SL), T(CT, CT, IL)>(in);
    case 4:
      return first_fitting<T(CT, OIL, B, Dt), T(CT, CT, I, at::ScalarType), T(CT, CT, CT, S),
                           T(CT, I, B, Dt), T(CT, CT, I, B), T(CT, SL, SL, OSI)>(in);
    case 5:
      return first_fitting<T(CT, I, OSI, OSI, SI), T(CT, CT, CT, S, S), T3(CT, SL, OT, OT, D),
                           T(CT, CT, SI, B, B), T(CT, CT, SI, SI, B), T2(CT, CT, OT, I, SI)>(in);
    default:
      return nullptr;
  }
}

}  // namespace fulgurite::run
