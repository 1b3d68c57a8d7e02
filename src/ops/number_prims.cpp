#include "ops/number_prims.h"

#include <torch/library.h>

#include <cmath>
#include <cstdint>

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

}  // namespace

TORCH_LIBRARY_FRAGMENT(fulgurite, m) {
  m.def("number_float(float v) -> float");
  m.def("number_int(int v) -> int");
  m.def("float_of(int i) -> float");
  for (const char* two : {"add", "sub", "mul", "div", "pow"})
    m.def((std::string("float_") + two + "(float a, float b) -> float").c_str());
  for (const char* one : {"neg", "abs", "sqrt", "exp", "log", "sin", "cos"})
    m.def((std::string("float_") + one + "(float a) -> float").c_str());
  for (const char* two : {"add", "sub", "mul"})
    m.def((std::string("int_") + two + "(int a, int b) -> int").c_str());
  m.def("int_neg(int a) -> int");
  for (const char* compare : {"lt", "le", "eq"}) {
    m.def((std::string("float_") + compare + "(float a, float b) -> bool").c_str());
    m.def((std::string("int_") + compare + "(int a, int b) -> bool").c_str());
  }
}

TORCH_LIBRARY_IMPL(fulgurite, CatchAll, m) {
  m.impl("number_float", [](double v) { return v; });
  m.impl("number_int", [](int64_t v) { return v; });
  m.impl("float_of", float_of);
  m.impl("float_add", [](double a, double b) { return a + b; });
  m.impl("float_sub", [](double a, double b) { return a - b; });
  m.impl("float_mul", [](double a, double b) { return a * b; });
  m.impl("float_div", float_div);
  m.impl("float_pow", float_pow);
  m.impl("float_neg", [](double a) { return -a; });
  m.impl("float_abs", [](double a) { return std::fabs(a); });
  m.impl("float_sqrt", float_sqrt);
  m.impl("float_exp", float_exp);
  m.impl("float_log", float_log);
  m.impl("float_sin", [](double a) { return std::sin(finite(a)); });
  m.impl("float_cos", [](double a) { return std::cos(finite(a)); });
  m.impl("int_add", int_add);
  m.impl("int_sub", int_sub);
  m.impl("int_mul", int_mul);
  m.impl("int_neg", [](int64_t a) { return int_sub(0, a); });
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
std::optional<ir::Op> calculation(const std::string& name) {
  return ir::Op::find("fulgurite::" + name, "");
}

}  // namespace prims
}  // namespace fulgurite
