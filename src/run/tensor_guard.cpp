#include "run/tensor_guard.h"

#include <torch/csrc/autograd/variable.h>

#include <sstream>
#include <unordered_map>

#include "record/tensors.h"

namespace fulgurite::run {
namespace {

// Keys that say what a tensor is; the others follow from requires_grad and the mode it was made in.
c10::DispatchKeySet relevant(c10::DispatchKeySet keys) { return keys; }

const void* storage_of(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  return impl->has_storage() ? static_cast<const void*>(impl->storage().unsafeGetStorageImpl())
                             : impl;
}

std::string list(const int64_t* begin, size_t n) {
  std::string s = "[";
  for (size_t i = 0; i < n; ++i) s += (i ? ", " : "") + std::to_string(begin[i]);
  return s + "]";
}

}  // namespace

TensorGuard::TensorGuard(const at::Tensor& t)
    : keys_(relevant(t.key_set())),
      dtype_(t.scalar_type()),
      device_(t.device()),
      requires_grad_(t.requires_grad()),
      is_leaf_(t.is_leaf()) {
  dims_.append(t.sizes().begin(), t.sizes().end());
  dims_.append(t.strides().begin(), t.strides().end());
}

bool TensorGuard::check(const at::Tensor& t) const {
  auto* impl = t.unsafeGetTensorImpl();
  if (!(relevant(impl->key_set()) == keys_) || c10::typeMetaToScalarType(impl->dtype()) != dtype_)
    return false;
  const size_t rank = dims_.size() / 2;
  const auto sizes = impl->sizes();
  if (sizes.size() != rank) return false;
  if (impl->layout() != at::kStrided) return false;
  const auto strides = impl->strides();
  for (size_t i = 0; i < rank; ++i)
    if (sizes[i] != dims_[i] || strides[i] != dims_[rank + i]) return false;
  if (impl->device() != device_) return false;
  if (const auto* meta = torch::autograd::impl::get_autograd_meta(t);
      meta != nullptr && meta->is_view_) {
    if (t._fw_grad(0).defined()) return false;  // a dual tensor of forward-mode AD
  }
  if (any_requires_grad_) return true;
  const bool requires_grad = t.requires_grad();
  return requires_grad == requires_grad_ && (!requires_grad || t.is_leaf() == is_leaf_);
}

std::string TensorGuard::describe() const {
  const size_t rank = dims_.size() / 2;
  std::string s = std::string(c10::toString(dtype_)) + list(dims_.data(), rank) + ", strides " +
                  list(dims_.data() + rank, rank) + ", " + device_.str();
  if (requires_grad_ && !any_requires_grad_)
    s += is_leaf_ ? ", a leaf that requires grad" : ", requires grad";
  return s;
}

std::string TensorGuard::difference(const at::Tensor& t) const {
  TensorGuard now(t);
  now.any_requires_grad_ = any_requires_grad_;
  if (now.describe() != describe()) return "recorded " + describe() + "; given " + now.describe();
  std::ostringstream s;
  s << "recorded dispatch keys " << keys_ << "; given " << now.keys_;
  return s.str();
}

ViewFacts ViewFacts::of(const at::Tensor& t, const at::Tensor& first,
                        const at::Tensor* const* tensors, size_t count) {
  ViewFacts f;
  const auto counter = [](const at::Tensor& x) {
    return record::version_counter_of(x.unsafeGetTensorImpl());
  };
  f.own_version = counter(t) != counter(first);
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(t);
  if (meta == nullptr || !meta->has_bw_view()) return f;
  f.creation = static_cast<uint8_t>(1 + static_cast<int>(meta->get_creation_meta()));
  const at::Tensor& base = meta->get_backward_view().base_;
  for (size_t i = 0; i < count && f.base < 0; ++i)
    if (tensors[i]->is_same(base)) f.base = static_cast<int32_t>(i);
  return f;
}

AliasGuard::AliasGuard(const std::vector<const at::Tensor*>& tensors,
                       const std::vector<bool>& views) {
  std::unordered_map<const void*, int32_t> first;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int32_t f = first.emplace(storage_of(*tensors[i]), static_cast<int32_t>(i)).first->second;
    first_.push_back(f);
    distance_.push_back(tensors[i]->storage_offset() - tensors[f]->storage_offset());
    same_impl_.push_back(tensors[i]->is_same(*tensors[f]));
    any_ = any_ || f != static_cast<int32_t>(i);
  }
  shared_.assign(tensors.size(), false);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (first_[i] != static_cast<int32_t>(i)) shared_[i] = shared_[first_[i]] = true;
  for (size_t i = 0; i < views.size() && i < tensors.size(); ++i) {
    if (views[i]) shared_[i] = true;
    any_view_ = any_view_ || views[i];
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    views_.push_back(
        shared_[i] ? ViewFacts::of(*tensors[i], *tensors[first_[i]], tensors.data(), tensors.size())
                   : ViewFacts());
}

bool AliasGuard::check(const at::Tensor* const* tensors) const {
  const size_t n = first_.size();
  if (n <= 12) {
    for (size_t i = 0; i < n; ++i) {
      const void* s = storage_of(*tensors[i]);
      size_t f = 0;
      while (storage_of(*tensors[f]) != s) ++f;
      if (static_cast<int32_t>(f) != first_[i]) return false;
    }
  } else {
    std::unordered_map<const void*, int32_t> first;
    first.reserve(2 * n);
    for (size_t i = 0; i < n; ++i)
      if (first.emplace(storage_of(*tensors[i]), static_cast<int32_t>(i)).first->second !=
          first_[i])
        return false;
  }
  if (!any_ && !any_view_) return true;
  for (size_t i = 0; i < n; ++i) {
    const auto f = static_cast<size_t>(first_[i]);
    if (shared_[i] && !(ViewFacts::of(*tensors[i], *tensors[f], tensors, n) == views_[i]))
      return false;
    if (f == i) continue;
    if (tensors[i]->storage_offset() - tensors[f]->storage_offset() != distance_[i] ||
        tensors[i]->is_same(*tensors[f]) != same_impl_[i])
      return false;
  }
  return true;
}

std::string AliasGuard::describe() const {
  if (!any_) return "no two inputs share memory";
  std::string s;
  for (size_t i = 0; i < first_.size(); ++i) {
    if (first_[i] == static_cast<int32_t>(i)) continue;
    s += (s.empty() ? "" : ", ") + std::string("input ") + std::to_string(i) +
         (same_impl_[i] ? " is input " : " shares memory with input ") + std::to_string(first_[i]);
  }
  return s;
}

}  // namespace fulgurite::run
