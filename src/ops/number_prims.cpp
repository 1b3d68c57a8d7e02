#include "ops/number_prims.h"

#include <ATen/Dispatch.h>
#include <torch/library.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/prims.h"

namespace fulgurite {
namespace {

using prims::ValueGuardFailed;

double finite(double v) {
  if (!std::isfinite(v)) throw ValueGuardFailed();
  return v;
}

double float_div(double a, double b) {
  if (b == 0) throw ValueGuardFailed();
  return a / b;
}

// CPython's float_pow outside its special cases.
double float_pow(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) throw ValueGuardFailed();
  if (a == 0 && b < 0) throw ValueGuardFailed();
  if (a < 0 && b != std::floor(b)) throw ValueGuardFailed();
  return finite(std::pow(a, b));
}

double float_sqrt(double a) {
  if (!(a >= 0)) throw ValueGuardFailed();
  return finite(std::sqrt(a));
}
double float_exp(double a) { return finite(std::exp(finite(a))); }
double float_log(double a) {
  if (!(a > 0)) throw ValueGuardFailed();
  return finite(std::log(finite(a)));
}

// Python's // and %: the remainder has the sign of the divisor (CPython's floatobject.c).
double float_mod(double a, double b) {
  if (b == 0) throw ValueGuardFailed();
  double mod = std::fmod(a, b);
  if (mod == 0) return std::copysign(0.0, b);
  if ((b < 0) != (mod < 0)) mod += b;
  return mod;
}
double float_floordiv(double a, double b) {
  if (b == 0) throw ValueGuardFailed();
  const double mod = std::fmod(a, b);
  double div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1.0;
  if (div == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(div);
  return div - floor > 0.5 ? floor + 1.0 : floor;
}
// round(a, digits): the nearest decimal with so many digits after the point, as CPython rounds.
double float_round_to(double a, int64_t digits) {
  constexpr int64_t kMostDigits = 323;  // a float has no more
  if (!std::isfinite(a) || digits > kMostDigits) return a;
  if (digits < 0) throw ValueGuardFailed();
  std::array<char, 700> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), a,
                                 std::chars_format::fixed, static_cast<int>(digits));
  double rounded = 0;
  std::from_chars(text.data(), end.ptr, rounded);
  return rounded;
}
double float_fmod(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b) || b == 0) throw ValueGuardFailed();
  return std::fmod(a, b);
}
int64_t to_int(double whole) {
  if (!(whole >= -0x1p63 && whole < 0x1p63)) throw ValueGuardFailed();
  return static_cast<int64_t>(whole);
}

// float(i), exactly or not at all.
double float_of(int64_t i) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (i > kExact || i < -kExact) throw ValueGuardFailed();
  return static_cast<double>(i);
}

int64_t int_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) throw ValueGuardFailed();
  return r;
}
int64_t int_sub(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_sub_overflow(a, b, &r)) throw ValueGuardFailed();
  return r;
}
int64_t int_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) throw ValueGuardFailed();
  return r;
}
int64_t int_mod(int64_t a, int64_t b) {
  if (b == 0) throw ValueGuardFailed();
  if (b == -1) return 0;
  const int64_t mod = a % b;
  return mod != 0 && (mod < 0) != (b < 0) ? mod + b : mod;
}
int64_t int_floordiv(int64_t a, int64_t b) {
  if (b == 0) throw ValueGuardFailed();
  if (b == -1) return int_sub(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t int_pow(int64_t a, int64_t b) {
  constexpr int64_t kMost = 64;
  if (b < 0 || (b > kMost && a != 0 && a != 1 && a != -1)) throw ValueGuardFailed();
  if (b > kMost) return a == -1 && b % 2 != 0 ? -1 : a * a;
  int64_t r = 1;
  for (int64_t i = 0; i < b; ++i) r = int_mul(r, a);
  return r;
}
int64_t int_lshift(int64_t a, int64_t b) {
  if (b < 0 || b > 62) throw ValueGuardFailed();
  return int_mul(a, int64_t{1} << b);
}
int64_t int_rshift(int64_t a, int64_t b) {
  if (b < 0) throw ValueGuardFailed();
  return a >> (b < 63 ? b : 63);
}

// at::Scalar::to raises beyond the largest number of a dtype, infinity excepted.
void expect_fits(const at::Scalar& v, at::ScalarType dtype) {
  double most = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, c10::toRealValueType(dtype), "expect_fits",
      [&] { most = static_cast<double>(std::numeric_limits<scalar_t>::max()); });
  const double n = v.toDouble();
  if (std::isfinite(n) && std::fabs(n) > most) throw ValueGuardFailed();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fulgurite, m) {
  m.def("expect_fits(Scalar v, ScalarType dtype) -> ()");
  m.def("number_float(float v) -> float");
  m.def("number_int(int v) -> int");
  m.def("float_of(int i) -> float");
  for (const char* two :
       {"add", "sub", "mul", "div", "pow", "floordiv", "mod", "fmod", "copysign", "min", "max"})
    m.def((std::string("float_") + two + "(float a, float b) -> float").c_str());
  for (const char* one :
       {"neg", "abs", "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tanh"})
    m.def((std::string("float_") + one + "(float a) -> float").c_str());
  for (const char* whole : {"floor", "ceil", "trunc", "round"})
    m.def((std::string("float_") + whole + "(float a) -> int").c_str());
  m.def("float_round_to(float a, int digits) -> float");
  for (const char* question : {"isnan", "isinf", "isfinite"})
    m.def((std::string("float_") + question + "(float a) -> bool").c_str());
  for (const char* two : {"add", "sub", "mul", "pow", "floordiv", "mod", "and", "or", "xor",
                          "lshift", "rshift", "min", "max"})
    m.def((std::string("int_") + two + "(int a, int b) -> int").c_str());
  for (const char* one : {"neg", "abs", "invert"})
    m.def((std::string("int_") + one + "(int a) -> int").c_str());
  for (const char* compare : {"lt", "le", "eq"}) {
    m.def((std::string("float_") + compare + "(float a, float b) -> bool").c_str());
    m.def((std::string("int_") + compare + "(int a, int b) -> bool").c_str());
  }
}

TORCH_LIBRARY_IMPL(fulgurite, CatchAll, m) {
  m.impl("expect_fits", expect_fits);
  m.impl("number_float", [](double v) { return v; });
  m.impl("number_int", [](int64_t v) { return v; });
  m.impl("float_of", float_of);
  m.impl("float_add", [](double a, double b) { return a + b; });
  m.impl("float_sub", [](double a, double b) { return a - b; });
  m.impl("float_mul", [](double a, double b) { return a * b; });
  m.impl("float_div", float_div);
  m.impl("float_pow", float_pow);
  // As Python's: the first one where neither is better.
  m.impl("float_min", [](double a, double b) { return b < a ? b : a; });
  m.impl("float_max", [](double a, double b) { return b > a ? b : a; });
  m.impl("int_min", [](int64_t a, int64_t b) { return b < a ? b : a; });
  m.impl("int_max", [](int64_t a, int64_t b) { return b > a ? b : a; });
  m.impl("float_floordiv", float_floordiv);
  m.impl("float_mod", float_mod);
  m.impl("float_fmod", float_fmod);
  m.impl("float_copysign", [](double a, double b) { return std::copysign(a, b); });
  m.impl("float_neg", [](double a) { return -a; });
  m.impl("float_abs", [](double a) { return std::fabs(a); });
  m.impl("float_sqrt", float_sqrt);
  m.impl("float_exp", float_exp);
  m.impl("float_log", float_log);
  m.impl("float_log2", [](double a) {
    if (!(a > 0)) throw ValueGuardFailed();
    return finite(std::log2(finite(a)));
  });
  m.impl("float_log10", [](double a) {
    if (!(a > 0)) throw ValueGuardFailed();
    return finite(std::log10(finite(a)));
  });
  m.impl("float_tanh", [](double a) { return std::tanh(a); });
  m.impl("float_floor", [](double a) { return to_int(std::floor(a)); });
  m.impl("float_ceil", [](double a) { return to_int(std::ceil(a)); });
  m.impl("float_trunc", [](double a) { return to_int(std::trunc(a)); });
  m.impl("float_round", [](double a) { return to_int(std::nearbyint(a)); });  // half to even
  m.impl("float_round_to", float_round_to);
  m.impl("float_isnan", [](double a) { return std::isnan(a); });
  m.impl("float_isinf", [](double a) { return std::isinf(a); });
  m.impl("float_isfinite", [](double a) { return std::isfinite(a); });
  m.impl("float_sin", [](double a) { return std::sin(finite(a)); });
  m.impl("float_cos", [](double a) { return std::cos(finite(a)); });
  m.impl("int_add", int_add);
  m.impl("int_sub", int_sub);
  m.impl("int_mul", int_mul);
  m.impl("int_pow", int_pow);
  m.impl("int_floordiv", int_floordiv);
  m.impl("int_mod", int_mod);
  m.impl("int_and", [](int64_t a, int64_t b) { return a & b; });
  m.impl("int_or", [](int64_t a, int64_t b) { return a | b; });
  m.impl("int_xor", [](int64_t a, int64_t b) { return a ^ b; });
  m.impl("int_lshift", int_lshift);
  m.impl("int_rshift", int_rshift);
  m.impl("int_neg", [](int64_t a) { return int_sub(0, a); });
  m.impl("int_abs", [](int64_t a) { return a < 0 ? int_sub(0, a) : a; });
  m.impl("int_invert", [](int64_t a) { return ~a; });
  m.impl("float_lt", [](double a, double b) { return a < b; });
  m.impl("float_le", [](double a, double b) { return a <= b; });
  m.impl("float_eq", [](double a, double b) { return a == b; });
  m.impl("int_lt", [](int64_t a, int64_t b) { return a < b; });
  m.impl("int_le", [](int64_t a, int64_t b) { return a <= b; });
  m.impl("int_eq", [](int64_t a, int64_t b) { return a == b; });
}

namespace prims {

const ir::Op& number_float() {
  static const ir::Op op = ir::Op::get("fulgurite::number_float");
  return op;
}
const ir::Op& number_int() {
  static const ir::Op op = ir::Op::get("fulgurite::number_int");
  return op;
}
const ir::Op& expect_fits() {
  static const ir::Op op = ir::Op::get("fulgurite::expect_fits");
  return op;
}
std::optional<ir::Op> calculation(const std::string& name) {
  return ir::Op::find("fulgurite::" + name, "");
}

}  // namespace prims
}  // namespace fulgurite
