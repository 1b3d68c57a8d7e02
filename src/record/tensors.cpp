#include "record/tensors.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>

namespace fulgurite::record {

using c10::DispatchKey;

c10::StorageImpl* storage_of(c10::TensorImpl* impl) {
  return impl->has_storage() ? impl->storage().unsafeGetStorageImpl() : nullptr;
}

const void* version_counter_of(c10::TensorImpl* impl) {
  if (impl->is_inference()) return nullptr;
  const c10::VariableVersion& version = impl->version_counter();
  const void* counter = nullptr;
  static_assert(sizeof(version) == sizeof(counter), "VariableVersion is one intrusive pointer");
  std::memcpy(&counter, &version, sizeof counter);
  return counter;
}

ir::Value describe(const at::Tensor& t) {
  ir::Value v;
  v.type = ir::type_of(t);
  v.offset = t.storage_offset();
  return v;
}

bool is_marked_leaf(const at::Tensor& t) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(t);
  return meta != nullptr && meta->requires_grad_ && meta->grad_fn_ == nullptr;
}

bool in_backward() { return torch::autograd::get_current_graph_task_id() >= 0; }

bool has_node(const at::Tensor& t) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(t);
  return meta != nullptr && meta->grad_fn_ != nullptr;
}

bool same_geometry(const ir::Value& v, const c10::TensorImpl* impl) {
  const ir::TensorType& type = v.tensor();
  const auto sizes = impl->sizes();
  const auto strides = impl->strides();
  return v.offset == impl->storage_offset() &&
         type.dtype == c10::typeMetaToScalarType(impl->dtype()) &&
         std::equal(sizes.begin(), sizes.end(), type.sizes.begin(), type.sizes.end()) &&
         std::equal(strides.begin(), strides.end(), type.strides.begin(), type.strides.end());
}

bool is_plain(const at::Tensor& t) {
  return t.layout() == at::kStrided && !t.is_nested() && !t.is_quantized() &&
         !t.key_set().has(DispatchKey::Python) &&
         !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

}  // namespace fulgurite::record
