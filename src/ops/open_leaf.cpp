#include "ops/open_leaf.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/variable.h>

namespace fulgurite::ops {
namespace {

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

at::Tensor open_leaf(const at::Tensor& leaf) {
  at::Tensor open = leaf.detach();
  auto node = c10::make_intrusive<OpenLeaf>();
  node->add_next_edge(torch::autograd::impl::gradient_edge(leaf));
  torch::autograd::set_history(open, node);
  return open;
}

}  // namespace fulgurite::ops
