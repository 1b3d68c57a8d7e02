// Trains a small network on y = sin(x), with forward and backward compiled, and prints what runs.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fulgurite/fulgurite.h>

#include <iostream>
#include <vector>

int main() {
  at::manual_seed(0);
  const at::Tensor x = at::linspace(-3, 3, 128).unsqueeze(1);
  const at::Tensor y = at::sin(x);
  std::vector<at::Tensor> parameters = {at::randn({1, 32}), at::zeros({32}), at::randn({32, 1}) / 6,
                                        at::zeros({1})};
  for (at::Tensor& p : parameters) p.requires_grad_(true);

  auto loss_of = fulgurite::jit(
      [](const std::vector<at::Tensor>& p, const at::Tensor& input, const at::Tensor& target) {
        const at::Tensor hidden = at::tanh(at::addmm(p[1], input, p[0]));
        return at::mse_loss(at::addmm(p[3], hidden, p[2]), target);
      },
      {.name = "loss"});

  double first = 0, last = 0;
  for (int step = 0; step < 300; ++step) {
    const at::Tensor loss = loss_of(parameters, x, y);
    loss.backward();
    c10::NoGradGuard off;
    for (at::Tensor& p : parameters) {
      p.sub_(p.grad(), 0.05);
      p.mutable_grad() = at::Tensor();
    }
    last = loss.item<double>();
    if (step == 0) first = last;
    if (step % 100 == 0) std::cout << "step " << step << ": loss " << last << "\n";
  }
  std::cout << "loss " << first << " -> " << last << "; " << fulgurite::cache_hits(loss_of)
            << " calls compiled, " << fulgurite::cache_misses(loss_of) << " recorded\n\n"
            << fulgurite::last_traces(loss_of).back() << "\n"
            << fulgurite::last_backward_traces(loss_of).back() << "\n"
            << fulgurite::explain(loss_of);
  return last < first / 10 && fulgurite::cache_hits(loss_of) == 299 ? 0 : 1;
}
