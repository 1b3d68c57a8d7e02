#include "passes/functional/overlap.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

namespace fulgurite::passes {
namespace {

constexpr int64_t kFew = 4096;  // elements that are looked at one by one

struct Dim {
  int64_t stride, size;
};

// Dimensions with more than one element, the largest stride first.
std::vector<Dim> dims_of(const ir::TensorType& t) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.sizes[d] > 1) dims.push_back({t.strides[d], t.sizes[d]});
  std::sort(dims.begin(), dims.end(),
            [](const Dim& x, const Dim& y) { return x.stride > y.stride; });
  return dims;
}

std::vector<int64_t> places(const ir::Value& v) {
  std::vector<int64_t> all{v.offset};
  for (const Dim& d : dims_of(v.tensor())) {
    const size_t n = all.size();
    for (int64_t i = 1; i < d.size; ++i)
      for (size_t k = 0; k < n; ++k) all.push_back(all[k] + i * d.stride);
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool have_common(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  size_t i = 0, k = 0;
  while (i < a.size() && k < b.size()) {
    if (a[i] == b[k]) return true;
    (a[i] < b[k] ? i : k) += 1;
  }
  return false;
}

// Per stride (largest first, each a multiple of the next) the digits [first, last] that the
// elements of `v` have there; nothing if they carry from one digit into the next.
using Interval = std::pair<int64_t, int64_t>;
std::optional<std::vector<Interval>> digits(const ir::Value& v,
                                            const std::vector<int64_t>& strides) {
  std::vector<Interval> out;
  int64_t rest = v.offset;
  const std::vector<Dim> dims = dims_of(v.tensor());
  for (size_t k = 0; k < strides.size(); ++k) {
    int64_t size = 1;
    for (const Dim& d : dims)
      if (d.stride == strides[k]) size = size == 1 ? d.size : 0;  // 0: two dims of one stride
    if (size == 0) return std::nullopt;
    const int64_t first = rest / strides[k];
    rest %= strides[k];
    if (k > 0 && (first + size - 1) * strides[k] >= strides[k - 1]) return std::nullopt;
    out.emplace_back(first, first + size - 1);
  }
  out.emplace_back(rest, rest);
  return out;
}

std::optional<bool> overlap_by_digits(const ir::Value& a, const ir::Value& b) {
  std::vector<int64_t> strides;
  for (const ir::Value* v : {&a, &b})
    for (const Dim& d : dims_of(v->tensor())) strides.push_back(d.stride);
  std::sort(strides.begin(), strides.end(), std::greater<>());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  for (size_t k = 0; k < strides.size(); ++k)
    if (strides[k] <= 0 || (k > 0 && strides[k - 1] % strides[k] != 0)) return std::nullopt;
  const auto x = digits(a, strides);
  const auto y = digits(b, strides);
  if (!x || !y) return std::nullopt;
  for (size_t k = 0; k < x->size(); ++k)
    if ((*x)[k].second < (*y)[k].first || (*y)[k].second < (*x)[k].first) return false;
  return true;
}

bool share_bytes(const ir::Value& a, const ir::Value& b) {
  auto bytes = [](const ir::Value& v) {
    const auto [lo, hi] = extent(v);
    const auto size = static_cast<int64_t>(c10::elementSize(v.tensor().dtype));
    return std::pair(lo * size, hi * size);
  };
  const auto [lo, hi] = bytes(a);
  const auto [lo2, hi2] = bytes(b);
  return lo < hi2 && lo2 < hi;
}

}  // namespace

bool overlaps_itself(const ir::TensorType& t) {
  std::vector<Dim> dims = dims_of(t);
  std::reverse(dims.begin(), dims.end());
  int64_t reach = 0;
  for (const Dim& d : dims) {
    if (d.stride <= reach) return true;
    reach += d.stride * (d.size - 1);
  }
  return false;
}

std::pair<int64_t, int64_t> extent(const ir::Value& v) {
  int64_t last = v.offset;
  for (size_t d = 0; d < v.tensor().sizes.size(); ++d)
    last += (v.tensor().sizes[d] - 1) * v.tensor().strides[d];
  return {v.offset, last + 1};
}

bool may_overlap(const ir::Value& a, const ir::Value& b) {
  if (a.storage < 0 || a.storage != b.storage) return false;
  if (a.tensor().numel() == 0 || b.tensor().numel() == 0 || !share_bytes(a, b)) return false;
  if (a.tensor().dtype != b.tensor().dtype) return true;
  if (a.tensor().numel() <= kFew && b.tensor().numel() <= kFew)
    return have_common(places(a), places(b));
  return overlap_by_digits(a, b).value_or(true);
}

}  // namespace fulgurite::passes
