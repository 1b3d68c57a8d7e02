// Guards on the tensors of a call: what the recorded run had, a later run must have.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace fulgurite::run {

// The metadata of one tensor: dtype, device, sizes, strides, requires_grad, is_leaf, dispatch keys.
class TensorGuard {
 public:
  explicit TensorGuard(const at::Tensor& t);
  bool check(const at::Tensor& t) const;
  // From now on requires_grad may be either: a call without gradients that did not ask for it.
  void allow_any_requires_grad() { any_requires_grad_ = true; }
  // It got its history by the call that it is made for.
  void expect_no_history() { requires_grad_ = false; }
  std::string describe() const;                       // "f32[2, 3], requires grad"
  std::string difference(const at::Tensor& t) const;  // "sizes [2, 3] were recorded, [4, 3] given"

 private:
  c10::DispatchKeySet keys_;
  at::ScalarType dtype_;
  c10::Device device_;
  bool requires_grad_;
  bool is_leaf_;
  bool any_requires_grad_ = false;
  c10::SmallVector<int64_t, 10> dims_;  // sizes, then strides
};

// What autograd knows of a tensor on memory that others have too: whether it is a view, made in
// which way, and of what.
struct ViewFacts {
  uint8_t creation = 0;      // 0: no view; else 1 + the CreationMeta
  int32_t base = -1;         // the first of several tensors that it is a view of; -1: none of them
  bool own_version = false;  // its version counter is not that of the first one on its memory
  bool operator==(const ViewFacts&) const = default;
  static ViewFacts of(const at::Tensor& t, const at::Tensor& first,
                      const at::Tensor* const* tensors, size_t count);
};

// Which of several tensors share memory, how they lie in it, and what autograd knows of it.
class AliasGuard {
 public:
  AliasGuard() = default;
  // `views`: by tensor, whether it matters that it is a view, even if no other one has its memory.
  explicit AliasGuard(const std::vector<const at::Tensor*>& tensors,
                      const std::vector<bool>& views = {});
  bool check(const at::Tensor* const* tensors) const;
  bool any() const { return any_; }  // two of the tensors shared memory
  std::string describe() const;

 private:
  std::vector<int32_t> first_;     // per tensor: the first one on the same storage
  std::vector<int64_t> distance_;  // offset from that one
  std::vector<bool> same_impl_;    // is it the very same tensor
  std::vector<bool> shared_;       // does another one have its memory, or do its views matter
  std::vector<ViewFacts> views_;
  bool any_ = false;
  bool any_view_ = false;  // something is to be asked of a single tensor
};

}  // namespace fulgurite::run
