#include "ir/trace.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace fulgurite::ir {

int64_t TensorType::numel() const {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

bool TensorType::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

bool TensorType::is_dense() const {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != 1) dims.emplace_back(strides[i], sizes[i]);
  if (numel() == 0) return true;
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

TensorType type_of(const at::Tensor& t) {
  TensorType type;
  type.dtype = t.scalar_type();
  type.device = t.device();
  type.sizes.assign(t.sizes().begin(), t.sizes().end());
  type.strides.assign(t.strides().begin(), t.strides().end());
  type.requires_grad = t.requires_grad();
  return type;
}

Dims default_strides(const Dims& sizes) {
  Dims strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return strides;
}

}  // namespace fulgurite::ir
