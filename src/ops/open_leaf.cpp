#include "ops/open_leaf.h"

#include <ATen/ops/clone.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

namespace fulgurite::ops {
namespace {

// The history of an open leaf that was not written yet.
struct OpenLeaf : torch::autograd::Node {
  std::string name() const override { return "OpenLeaf"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }
};

}  // namespace

at::Tensor leaf_that_forbids_writing(const at::Tensor& t) {
  if (!t.requires_grad() && !t.is_view()) return {};
  if (t.is_leaf() && t.requires_grad()) return t;
  if (!t.is_view()) return {};
  const at::Tensor base(t._base());
  return base.is_leaf() && base.requires_grad() ? base : at::Tensor();
}

void open_leaf(const at::Tensor& leaf) {
  auto node = c10::make_intrusive<OpenLeaf>();
  node->add_next_edge(torch::autograd::impl::gradient_edge(leaf));
  node->add_input_metadata(leaf);
  torch::autograd::impl::set_gradient_edge(leaf, {std::move(node), 0});
}

at::Tensor close_leaf(const at::Tensor& leaf) {
  auto* meta = torch::autograd::impl::get_autograd_meta(leaf);
  if (meta == nullptr || meta->grad_fn_ == nullptr) return {};
  at::Tensor value;
  {
    c10::AutoGradMode with_grad(true);
    value = leaf.clone();
  }
  meta->grad_fn_.reset();
  meta->output_nr_ = 0;
  return value;
}

}  // namespace fulgurite::ops
