// Traces are immutable: Python holds them as they are.
#pragma once

#include <string>

#include "ir/trace.h"

namespace fulgurite::python {

struct PyTrace {
  ir::TracePtr trace;
  std::string stage;
  double milliseconds = 0;
};

}  // namespace fulgurite::python
