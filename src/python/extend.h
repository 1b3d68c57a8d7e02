// fulgurite.extend's side of the module: executors and their operators.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite::python {

void bind_extend(nanobind::module_& m);

}  // namespace fulgurite::python
