#include "ir/dtypes.h"

#include <array>

namespace fulgurite::ir {
namespace {

struct DtypeName {
  at::ScalarType dtype;
  std::string_view torch;
  std::string_view brief;
};

constexpr auto kDtypes = std::to_array<DtypeName>({
    {at::kFloat, "float32", "f32"},
    {at::kDouble, "float64", "f64"},
    {at::kHalf, "float16", "f16"},
    {at::kBFloat16, "bfloat16", "bf16"},
    {at::kLong, "int64", "i64"},
    {at::kInt, "int32", "i32"},
    {at::kShort, "int16", "i16"},
    {at::kChar, "int8", "i8"},
    {at::kByte, "uint8", "u8"},
    {at::kUInt16, "uint16", "u16"},
    {at::kUInt32, "uint32", "u32"},
    {at::kUInt64, "uint64", "u64"},
    {at::kBool, "bool", "bool"},
    {at::kComplexHalf, "complex32", "c32"},
    {at::kComplexFloat, "complex64", "c64"},
    {at::kComplexDouble, "complex128", "c128"},
    {at::kFloat8_e5m2, "float8_e5m2", "f8e5m2"},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", "f8e4m3fn"},
    {at::kFloat8_e5m2fnuz, "float8_e5m2fnuz", "f8e5m2fnuz"},
    {at::kFloat8_e4m3fnuz, "float8_e4m3fnuz", "f8e4m3fnuz"},
    {at::kQInt8, "qint8", "qi8"},
    {at::kQUInt8, "quint8", "qu8"},
    {at::kQInt32, "qint32", "qi32"},
});

struct LayoutName {
  at::Layout layout;
  std::string_view torch;
};
constexpr auto kLayouts = std::to_array<LayoutName>({
    {at::kStrided, "strided"},
    {at::kSparse, "sparse_coo"},
    {at::kSparseCsr, "sparse_csr"},
    {at::kSparseCsc, "sparse_csc"},
    {at::kSparseBsr, "sparse_bsr"},
    {at::kSparseBsc, "sparse_bsc"},
    {at::kMkldnn, "_mkldnn"},
    {at::kJagged, "jagged"},
});

struct FormatName {
  at::MemoryFormat format;
  std::string_view torch;
};
constexpr auto kFormats = std::to_array<FormatName>({
    {at::MemoryFormat::Contiguous, "contiguous_format"},
    {at::MemoryFormat::Preserve, "preserve_format"},
    {at::MemoryFormat::ChannelsLast, "channels_last"},
    {at::MemoryFormat::ChannelsLast3d, "channels_last_3d"},
});

}  // namespace

std::string torch_name(at::ScalarType dtype) {
  for (const auto& row : kDtypes)
    if (row.dtype == dtype) return std::string(row.torch);
  return c10::toString(dtype);
}

std::string short_name(at::ScalarType dtype) {
  for (const auto& row : kDtypes)
    if (row.dtype == dtype) return std::string(row.brief);
  return c10::toString(dtype);
}

std::optional<at::ScalarType> dtype_of_torch_name(std::string_view name) {
  for (const auto& row : kDtypes)
    if (row.torch == name) return row.dtype;
  return std::nullopt;
}

std::optional<at::ScalarType> dtype_of_short_name(std::string_view name) {
  for (const auto& row : kDtypes)
    if (row.brief == name) return row.dtype;
  return std::nullopt;
}

std::string torch_name(at::Layout layout) {
  for (const auto& row : kLayouts)
    if (row.layout == layout) return std::string(row.torch);
  return "strided";
}

std::optional<at::Layout> layout_of_torch_name(std::string_view name) {
  for (const auto& row : kLayouts)
    if (row.torch == name) return row.layout;
  return std::nullopt;
}

std::string torch_name(at::MemoryFormat format) {
  for (const auto& row : kFormats)
    if (row.format == format) return std::string(row.torch);
  return "contiguous_format";
}

std::optional<at::MemoryFormat> memory_format_of_torch_name(std::string_view name) {
  for (const auto& row : kFormats)
    if (row.torch == name) return row.format;
  return std::nullopt;
}

}  // namespace fulgurite::ir
