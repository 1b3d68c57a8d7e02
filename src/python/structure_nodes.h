// What the parts of structure.h have in common: values, paths, the walk over the nodes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "structure.h"

namespace fulgurite::python {

// Types whose instances never change and are compared by value.
bool is_value_type(PyTypeObject* type);
bool same_value(PyObject* a, PyObject* b);  // of such types; floats bitwise
bool is_number(PyObject* object);           // a float, or an int of 64 bits

// For messages; at most 80 characters.
std::string repr(PyObject* object);
std::string short_text(PyObject* object);  // of other objects only the type

// "args[1]", or "argument name".
std::string argument_path(size_t i, size_t nargs, PyObject* kwnames);

// Visits the node `at` and those below it, each with its path, and moves on behind them.
void walk(const std::vector<StructureNode>& nodes, size_t& at, const std::string& path,
          const std::function<void(const StructureNode&, const std::string&)>& visit);

}  // namespace fulgurite::python
