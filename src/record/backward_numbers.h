// Numbers that the backward of a recorded call, inside the call, computes with.
//
// Nobody hands them on: a node of the graph has saved them. What it saved as a tensor (`x * n`) is
// the very tensor that the operator was given. What it saved as a number (`add(x, y, alpha=n)`)
// shows up as constants of its formula; which of them is known from running the operator and its
// formula on samples with other numbers (passes/number_rules.h), if what was recorded is just that.
// In all other cases the number is fixed.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/node.h>

#include <unordered_map>
#include <vector>

#include "record/place_numbers.h"

namespace fulgurite::record {

class BackwardNumbers {
 public:
  // A number that stands as a tensor in the argument of a bind.
  void add_tensor(const at::Tensor& number, size_t bind, size_t argument);
  bool knows(const at::Tensor& number) const;

  // `number` is an argument, and no tensor, of the operator that gave these results their history.
  void add_saved(int number, const std::vector<at::Tensor>& results, VaryingNumber formula);

  // A bind that was recorded; it may be part of a node's formula.
  void add_bind(size_t bind);
  // Whether the node that is running has such numbers.
  bool in_formula() const;

  // Says for each of these binds which of its constants are numbers; or fixes them.
  void resolve(Numbers& numbers, const std::vector<PendingBind>& binds,
               const std::vector<ir::Value>& values) const;

 private:
  struct Place {
    size_t bind, argument;
  };
  struct Same {
    Place place, first;
  };
  struct Saved {
    int number;
    c10::intrusive_ptr<torch::autograd::Node> node;  // null: not known, or several
    VaryingNumber formula;
    std::vector<size_t> binds{};  // of all its runs
  };
  static bool is_step(const Saved& saved, size_t step, const PendingBind& found,
                      const Numbers& numbers, const std::vector<ir::Value>& values,
                      std::vector<size_t>& places);
  static bool match(const Saved& saved, Numbers& numbers, const std::vector<PendingBind>& binds,
                    const std::vector<ir::Value>& values);

  std::unordered_map<const c10::TensorImpl*, Place> tensors_;
  std::vector<at::Tensor> held_;  // keeps those addresses from being used again
  std::vector<Same> same_;
  std::vector<Saved> saved_;
  std::unordered_map<const torch::autograd::Node*, std::vector<size_t>> by_node_;
  bool any_backward_ = false;
};

}  // namespace fulgurite::record
