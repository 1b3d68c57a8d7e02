#include "api/state.h"

#include <algorithm>

namespace fulgurite::api {

Given::Given(const detail::Arguments& arguments) : layout(arguments.layout) {
  for (std::size_t i = 0; i < arguments.tensors.size(); ++i) {
    if (arguments.tensors[i]->defined()) {
      tensors.push_back(arguments.tensors[i]);
    } else {
      layout.push_back(static_cast<std::int64_t>(i));
    }
  }
}

bool has_grad(const at::Tensor& t) { return t.is_leaf() && t.grad().defined(); }

bool Entry::check(const Given& given, const run::Modes& now, std::vector<const at::Tensor*>& inputs,
                  std::vector<at::Tensor>& scratch) const {
  if (!(now == modes) || !(given.layout == layout) || program->stale()) return false;
  inputs.assign(given.tensors.begin(), given.tensors.end());
  scratch.clear();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!tensors[i].check(*inputs[i])) return false;
  if (touches_grad) {
    for (std::size_t k = 0; k < distinct.size(); ++k)
      if (has_grad(*given.tensors[distinct[k]]) != grad_defined[k]) return false;
    scratch.reserve(grad_inputs.size());
    for (const GradInput& g : grad_inputs) {
      scratch.push_back(given.tensors[distinct[g.of]]->grad());
      if (!tensors[inputs.size()].check(scratch.back())) return false;
      inputs.push_back(&scratch.back());
    }
  }
  if (check_aliases && !aliases.check(inputs.data())) return false;
  if (distinct.size() != given.tensors.size()) {
    std::vector<const at::Tensor*> without_repeats;
    for (std::size_t i : distinct) without_repeats.push_back(inputs[i]);
    without_repeats.insert(without_repeats.end(),
                           inputs.begin() + static_cast<std::ptrdiff_t>(given.tensors.size()),
                           inputs.end());
    inputs = std::move(without_repeats);
  }
  return true;
}

std::string Entry::explain_failure(const Given& given, const run::Modes& now) const {
  if (program->stale()) return "a gradient rule of the program has been changed";
  if (!(now == modes)) return now.difference(modes);
  if (!(given.layout == layout))
    return "the number of arguments, the length of a list or which tensors are undefined";
  for (std::size_t i = 0; i < given.tensors.size(); ++i)
    if (!tensors[i].check(*given.tensors[i]))
      return "tensor " + std::to_string(i) + ": " + tensors[i].difference(*given.tensors[i]);
  std::vector<const at::Tensor*> inputs;
  std::vector<at::Tensor> scratch;
  if (check(given, now, inputs, scratch)) return "";
  if (touches_grad) return "the .grad of an argument, or how the arguments share memory";
  return "the arguments share memory in another way: when recorded, " + aliases.describe();
}

std::vector<std::string> Entry::guard_lines() const {
  std::vector<std::string> lines;
  lines.push_back("modes: " + modes.describe());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    lines.push_back("tensor " + std::to_string(i) + ": " + tensors[i].describe());
  if (check_aliases) lines.push_back("alias: " + aliases.describe());
  if (touches_grad)
    for (std::size_t k = 0; k < distinct.size(); ++k)
      lines.push_back("grad: .grad of tensor " + std::to_string(distinct[k]) +
                      (grad_defined[k] ? " is defined" : " is undefined"));
  return lines;
}

std::vector<std::string> Entry::places() const {
  std::vector<std::string> places;
  for (std::size_t i : distinct) places.push_back("argument tensor " + std::to_string(i));
  for (const GradInput& g : grad_inputs)
    places.push_back("grad of argument tensor " + std::to_string(distinct[g.of]));
  return places;
}

}  // namespace fulgurite::api
