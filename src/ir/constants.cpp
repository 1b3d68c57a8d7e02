#include "ir/constants.h"

#include <ATen/ops/empty_strided.h>
#include <c10/util/complex.h>

#include <array>
#include <charconv>
#include <cstring>

#include "ir/dtypes.h"
#include "ir/errors.h"

namespace fulgurite::ir {
namespace {

constexpr int64_t kMaxInline = 16;

template <class T>
T read(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void append(T value, std::vector<uint8_t>& bytes) {
  const size_t old = bytes.size();
  bytes.resize(old + sizeof value);
  std::memcpy(bytes.data() + old, &value, sizeof value);
}

// The shortest text that gives the same float; torch.tensor rounds it from double.
std::string float32_text(float value) {
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  double parsed = 0;
  std::from_chars(buffer.data(), end, parsed);
  if (static_cast<float>(parsed) != value) return float_text(static_cast<double>(value));
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string any_float_text(double value, bool single) {
  const bool finite = value - value == 0;
  return single && finite ? float32_text(static_cast<float>(value)) : float_text(value);
}

// "" if the dtype has no literals.
std::string element_text(at::ScalarType dtype, const uint8_t* at) {
  auto complex_text = [](double re, double im, bool single) {
    return "complex(" + any_float_text(re, single) + ", " + any_float_text(im, single) + ")";
  };
  switch (dtype) {
    case at::kFloat:
      return any_float_text(read<float>(at), true);
    case at::kDouble:
      return float_text(read<double>(at));
    case at::kHalf:
      return float_text(static_cast<float>(read<at::Half>(at)));
    case at::kBFloat16:
      return float_text(static_cast<float>(read<at::BFloat16>(at)));
    case at::kLong:
      return std::to_string(read<int64_t>(at));
    case at::kInt:
      return std::to_string(read<int32_t>(at));
    case at::kShort:
      return std::to_string(read<int16_t>(at));
    case at::kChar:
      return std::to_string(read<int8_t>(at));
    case at::kByte:
      return std::to_string(read<uint8_t>(at));
    case at::kBool:
      return read<uint8_t>(at) != 0 ? "True" : "False";
    case at::kComplexFloat:
      return complex_text(read<float>(at), read<float>(at + sizeof(float)), true);
    case at::kComplexDouble:
      return complex_text(read<double>(at), read<double>(at + sizeof(double)), false);
    default:
      return "";
  }
}

Literal number_literal(at::ScalarType dtype, const uint8_t* at) {
  Literal literal;
  auto real = [&](double value) {
    literal.kind = LiteralKind::Float;
    literal.real = value;
  };
  auto complex = [&](double re, double im) {
    real(re);
    literal.kind = LiteralKind::Complex;
    literal.imaginary = im;
  };
  switch (dtype) {
    case at::kFloat:
      real(read<float>(at));
      break;
    case at::kDouble:
      real(read<double>(at));
      break;
    case at::kHalf:
      real(static_cast<float>(read<at::Half>(at)));
      break;
    case at::kBFloat16:
      real(static_cast<float>(read<at::BFloat16>(at)));
      break;
    case at::kComplexFloat:
      complex(read<float>(at), read<float>(at + sizeof(float)));
      break;
    case at::kComplexDouble:
      complex(read<double>(at), read<double>(at + sizeof(double)));
      break;
    default:
      break;
  }
  return literal;
}

// False for a NaN with a payload, which no literal gives.
bool has_literal(at::ScalarType dtype, const uint8_t* at, size_t size) {
  if (element_text(dtype, at).empty()) return false;
  const Literal literal = number_literal(dtype, at);
  if (literal.kind == LiteralKind::None) return true;  // integers
  std::vector<uint8_t> again;
  // What is printed for NaN is float('nan').
  Literal printed = literal;
  if (printed.real != printed.real) printed.real = std::numeric_limits<double>::quiet_NaN();
  if (printed.imaginary != printed.imaginary)
    printed.imaginary = std::numeric_limits<double>::quiet_NaN();
  append_element(printed, dtype, again);
  return again.size() == size && std::memcmp(again.data(), at, size) == 0;
}

std::string dims_text(c10::IntArrayRef dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

struct Contents {
  std::vector<uint8_t> bytes;
  size_t item = 0;
  enum { Nested, Full, Empty, Base64 } form = Base64;
};

Contents contents_of(const at::Tensor& constant) {
  Contents c;
  c.bytes = constant_bytes(constant);
  c.item = constant.element_size();
  const at::ScalarType dtype = constant.scalar_type();
  if (c.bytes.empty()) {
    c.form = Contents::Empty;
    return c;
  }
  const bool equal =
      std::memcmp(c.bytes.data(), c.bytes.data() + c.item, c.bytes.size() - c.item) == 0;
  if (equal && constant.numel() > 1 && has_literal(dtype, c.bytes.data(), c.item)) {
    c.form = Contents::Full;
    return c;
  }
  if (constant.numel() > kMaxInline) return c;
  for (size_t at = 0; at < c.bytes.size(); at += c.item)
    if (!has_literal(dtype, c.bytes.data() + at, c.item)) return c;
  c.form = Contents::Nested;
  return c;
}

std::string nested_text(const Contents& c, at::ScalarType dtype, c10::IntArrayRef sizes, size_t dim,
                        size_t& at) {
  if (dim == sizes.size()) {
    std::string text = element_text(dtype, c.bytes.data() + at);
    at += c.item;
    return text;
  }
  std::string text = "[";
  for (int64_t i = 0; i < sizes[dim]; ++i)
    text += (i > 0 ? ", " : "") + nested_text(c, dtype, sizes, dim + 1, at);
  return text + "]";
}

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string constant_expression(const at::Tensor& constant, bool elide) {
  const at::ScalarType dtype = constant.scalar_type();
  const std::string dtype_text = "dtype=torch." + torch_name(dtype);
  const Contents c = contents_of(constant);
  std::string text;
  switch (c.form) {
    case Contents::Nested: {
      size_t at = 0;
      text = "torch.tensor(" + nested_text(c, dtype, constant.sizes(), 0, at) + ", " + dtype_text +
             ")";
      break;
    }
    case Contents::Full:
      text = "torch.full(" + dims_text(constant.sizes()) + ", " +
             element_text(dtype, c.bytes.data()) + ", " + dtype_text + ")";
      break;
    case Contents::Empty:
      text = "torch.empty(" + dims_text(constant.sizes()) + ", " + dtype_text + ")";
      break;
    case Contents::Base64:
      if (elide) return "...";
      text = "torch.frombuffer(bytearray(base64.b64decode('" + base64_encode(c.bytes) + "')), " +
             dtype_text + ").reshape(" + dims_text(constant.sizes()) + ")";
      break;
  }
  Dims sizes(constant.sizes().begin(), constant.sizes().end());
  const Dims strides(constant.strides().begin(), constant.strides().end());
  if (strides != default_strides(sizes))
    text = "torch.empty_strided(" + dims_text(constant.sizes()) + ", " +
           dims_text(constant.strides()) + ", " + dtype_text + ").copy_(" + text + ")";
  if (!constant.device().is_cpu()) text += ".to('" + constant.device().str() + "')";
  if (constant.requires_grad()) text += ".requires_grad_()";
  return text;
}

bool prints_as_base64(const at::Tensor& constant) {
  return contents_of(constant).form == Contents::Base64;
}

std::vector<uint8_t> constant_bytes(const at::Tensor& constant) {
  const at::Tensor flat = constant.detach().cpu().contiguous();
  std::vector<uint8_t> bytes(static_cast<size_t>(flat.numel()) * flat.element_size());
  if (!bytes.empty()) std::memcpy(bytes.data(), flat.const_data_ptr(), bytes.size());
  return bytes;
}

at::Tensor make_constant(const TensorType& type, const std::vector<uint8_t>& bytes) {
  const auto options = at::TensorOptions().dtype(type.dtype);
  const at::Tensor flat = at::empty_strided(c10::IntArrayRef(type.sizes.data(), type.sizes.size()),
                                            c10::IntArrayRef(default_strides(type.sizes)), options);
  const size_t size = static_cast<size_t>(flat.numel()) * flat.element_size();
  if (size != bytes.size())
    throw InternalError("a constant of " + std::to_string(size) + " bytes was given " +
                        std::to_string(bytes.size()));
  if (size > 0) std::memcpy(flat.mutable_data_ptr(), bytes.data(), size);
  at::Tensor result = flat;
  if (type.strides != default_strides(type.sizes)) {
    result = at::empty_strided(c10::IntArrayRef(type.sizes.data(), type.sizes.size()),
                               c10::IntArrayRef(type.strides.data(), type.strides.size()), options);
    result.copy_(flat);
  }
  if (!type.device.is_cpu()) result = result.to(type.device);
  if (type.requires_grad) result.requires_grad_();
  return result;
}

bool append_element(const Literal& literal, at::ScalarType dtype, std::vector<uint8_t>& bytes) {
  const bool is_int = literal.kind == LiteralKind::Int || literal.kind == LiteralKind::Bool;
  const bool is_float = literal.kind == LiteralKind::Float;
  const double real = is_int ? static_cast<double>(literal.integer) : literal.real;
  if (is_int || is_float) {
    switch (dtype) {
      case at::kFloat:
        append(static_cast<float>(real), bytes);
        return true;
      case at::kDouble:
        append(real, bytes);
        return true;
      case at::kHalf:
        append(at::Half(static_cast<float>(real)), bytes);
        return true;
      case at::kBFloat16:
        append(at::BFloat16(static_cast<float>(real)), bytes);
        return true;
      default:
        break;
    }
  }
  if (is_int) {
    switch (dtype) {
      case at::kLong:
        append(literal.integer, bytes);
        return true;
      case at::kInt:
        append(static_cast<int32_t>(literal.integer), bytes);
        return true;
      case at::kShort:
        append(static_cast<int16_t>(literal.integer), bytes);
        return true;
      case at::kChar:
        append(static_cast<int8_t>(literal.integer), bytes);
        return true;
      case at::kByte:
        append(static_cast<uint8_t>(literal.integer), bytes);
        return true;
      case at::kBool:
        append(static_cast<uint8_t>(literal.integer != 0), bytes);
        return true;
      default:
        break;
    }
  }
  const double imaginary = literal.kind == LiteralKind::Complex ? literal.imaginary : 0;
  if (dtype == at::kComplexFloat) {
    append(static_cast<float>(real), bytes);
    append(static_cast<float>(imaginary), bytes);
    return true;
  }
  if (dtype == at::kComplexDouble) {
    append(real, bytes);
    append(imaginary, bytes);
    return true;
  }
  return false;
}

std::string base64_encode(const std::vector<uint8_t>& bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = static_cast<uint32_t>(bytes[i]) << 16;
    if (i + 1 < bytes.size()) group |= static_cast<uint32_t>(bytes[i + 1]) << 8;
    if (i + 2 < bytes.size()) group |= bytes[i + 2];
    text += kAlphabet[group >> 18];
    text += kAlphabet[(group >> 12) & 63];
    text += i + 1 < bytes.size() ? kAlphabet[(group >> 6) & 63] : '=';
    text += i + 2 < bytes.size() ? kAlphabet[group & 63] : '=';
  }
  return text;
}

bool base64_decode(const std::string& text, std::vector<uint8_t>& bytes) {
  uint32_t group = 0;
  int bits = 0;
  for (char c : text) {
    if (c == '=') break;
    const size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) return false;
    group = (group << 6) | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<uint8_t>(group >> bits));
    }
  }
  return text.size() % 4 == 0;
}

}  // namespace fulgurite::ir
