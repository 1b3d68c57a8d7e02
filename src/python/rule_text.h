// Default rules as Python text, for `inspect.getsource`.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

#include "ir/op.h"

namespace fulgurite::python {

struct RuleText {
  std::string augmented_forward;
  std::string backward;
};

// `arguments`: a tuple in schema order; tensors say dtypes and shapes. The GIL must be held. Throws
// rules::RuleError FG-327 if the operator has no default rule for them.
RuleText default_rule_text(const ir::Op& op, PyObject* arguments);

// The same arguments as the core has them.
std::vector<c10::IValue> schema_values(const ir::Op& op, PyObject* arguments);

// Ids of the operators that can have a rule, sorted.
std::vector<std::string> rule_ids();

}  // namespace fulgurite::python
