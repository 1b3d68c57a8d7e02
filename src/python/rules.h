// Gradient rules written in Python: bindings of the registry (ops/rules.h), and what its errors
// become.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite::python {

void bind_rules(nanobind::module_& m);

// To be called in a catch block, with the GIL: if what is being handled is the error of a rule (or
// a Python exception that a rule raised), sets it as the Python exception.
bool set_rule_error();

}  // namespace fulgurite::python
