// An autograd node of one call of a compiled program (passes/gradient_parts.h).
#pragma once

#include <torch/csrc/autograd/node.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <string>
#include <vector>

#include "run/compiled.h"

namespace fulgurite::run {

struct CompiledBackward : torch::autograd::Node {
  CompiledBackward(std::shared_ptr<const Compiled> of, const NodeProgram& n)
      : program(std::move(of)), node(n) {}

  std::shared_ptr<const Compiled> program;
  const NodeProgram& node;                            // of `program`
  std::vector<torch::autograd::SavedVariable> saved;  // by slot
  std::vector<c10::IValue> numbers;                   // by slot, for numbers
  // Of the part, for create_graph; undefined where the call itself overwrote it.
  std::vector<at::Tensor> inputs;
  std::vector<uint32_t> versions;          // of the inputs at the call
  std::vector<c10::IValue> input_numbers;  // for create_graph
  at::Tensor random_state;

  std::string name() const override { return "CompiledBackward[" + program->name() + "]"; }
  void release_variables() override;
  // Raises what eager's nodes raise: for saved tensors that were overwritten or freed, of those
  // that the gradients asked for need.
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;

 private:
  using variable_list = torch::autograd::variable_list;
  Asked asked(const variable_list& gradients);
  void check_not_freed(const BackwardPart& part) const;
  void free_saved(const BackwardPart& part);
  at::Tensor unpack(size_t slot);
  variable_list apply_plan(const BackwardPart& part, const variable_list& gradients);
  // create_graph: the functional trace runs once more, now under autograd, which differentiates it.
  variable_list apply_with_graph(const Asked& a, const variable_list& gradients);
  // create_graph where the program cannot be run once more (the call overwrote an input, or other
  // parts drew random numbers between those of this one): the backward trace itself runs under
  // autograd. That needs saved values with their histories, which intermediate ones have not.
  variable_list apply_backward_trace(const Asked& a, const variable_list& gradients);
  bool can_compute_again() const;
  std::vector<bool> binds_for(const variable_list& gradients) const;
  at::Tensor input_for_graph(size_t i);
  at::Tensor with_history_of_input(const at::Tensor& contents, ir::ValueId input);

  std::vector<bool> done_;  // steps of backward whose saved values were freed; empty: none
  bool freed_ = false;      // all of them
};

}  // namespace fulgurite::run
