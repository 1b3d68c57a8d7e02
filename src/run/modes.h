// The modes of the process and the thread that change what a program means. A compiled program is
// reused only under the modes that it was recorded under; under modes that it cannot express, calls
// run eagerly.
#pragma once

#include <cstdint>
#include <string>

namespace fulgurite::run {

struct Modes {
  uint64_t bits = 0;  // GradMode, inference mode, autocast, default dtype, determinism
  bool operator==(const Modes&) const = default;

  static Modes now();
  bool grad() const { return (bits & 1) != 0; }
  // What differs, in words: "grad mode is off, was on when recorded".
  std::string difference(const Modes& recorded) const;
  std::string describe() const;
};

// A mode under which nothing is compiled (functorch transforms, dispatch modes, ...), "" if there
// is none.
const char* unsupported_mode();

}  // namespace fulgurite::run
