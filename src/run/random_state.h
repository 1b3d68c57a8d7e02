// The state of the default CPU generator, to be put back.
#pragma once

#include <ATen/CPUGeneratorImpl.h>

namespace fulgurite::run {

inline at::Tensor default_random_state() {
  return at::detail::getDefaultCPUGenerator().get_state();
}
inline void set_default_random_state(const at::Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

}  // namespace fulgurite::run
