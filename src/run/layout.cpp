#include "run/layout.h"

#include <ATen/ops/empty_strided.h>

namespace fulgurite::run {

bool has_strides(const at::Tensor& t, const ir::Dims& strides) {
  for (int64_t d = 0; d < t.dim(); ++d)
    if (t.size(d) > 1 && t.stride(d) != strides[static_cast<size_t>(d)]) return t.numel() == 0;
  return true;
}

at::Tensor laid_out(const at::Tensor& t, const ir::TensorType& type) {
  // Expanded dimensions have one element in memory.
  at::Tensor contents = t;
  ir::Dims sizes = type.sizes;
  for (int64_t d = 0; d < t.dim(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (type.strides[i] != 0 || sizes[i] <= 1) continue;
    contents = contents.narrow(d, 0, 1);
    sizes[i] = 1;
  }
  const at::Tensor memory =
      at::empty_strided(sizes, type.strides, t.options().requires_grad(false)).copy_(contents);
  return sizes == type.sizes ? memory : memory.expand(type.sizes);
}

}  // namespace fulgurite::run
