// Arguments in words: guards as lines, names for tensors.
#include <cctype>

#include "structure_nodes.h"

namespace fulgurite::python {

using Kind = StructureNode::Kind;

std::vector<std::string> ArgumentStructure::describe() const {
  std::vector<std::string> lines;
  const size_t total =
      nargs_ + (kwnames_ ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_.get())) : 0);
  size_t at = 0;
  for (size_t i = 0; i < total; ++i) {
    walk(nodes_, at, argument_path(i, nargs_, kwnames_.get()),
         [&](const StructureNode& n, const std::string& path) {
           switch (n.kind) {
             case Kind::Value:
               lines.push_back(path + " == " + repr(n.object.get()));
               break;
             case Kind::Number:
               lines.push_back("type(" + path + ") is " + Py_TYPE(n.object.get())->tp_name);
               break;
             case Kind::Identity:
               lines.push_back(path + " is " + short_text(n.object.get()));
               break;
             case Kind::Followed:
               lines.push_back("type(" + path + ") is " + repr(n.type.get()));
               break;
             case Kind::List:
             case Kind::Tuple:
               lines.push_back("len(" + path + ") == " + std::to_string(n.count));
               break;
             case Kind::Dict:
               lines.push_back("list(" + path + ") == list(" + repr(n.object.get()) + ")");
               break;
             default:
               break;
           }
         });
  }
  return lines;
}

std::vector<std::string> ArgumentStructure::tensor_names(PyObject* callable) const {
  std::vector<std::string> positional;
  PyObject* function = callable;
  size_t skip = 0;
  PyRef owner;
  if (PyMethod_Check(function)) {
    function = PyMethod_GET_FUNCTION(function);
    skip = 1;
  } else if (!PyFunction_Check(function)) {
    owner = PyRef::steal(PyObject_GetAttrString(function, "forward"));  // an nn.Module
    PyErr_Clear();
    if (owner && PyMethod_Check(owner.get())) {
      function = PyMethod_GET_FUNCTION(owner.get());
      skip = 1;
    }
  }
  if (PyFunction_Check(function)) {
    auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
    PyRef names = PyRef::steal(PyCode_GetVarnames(code));
    for (int i = static_cast<int>(skip); names && i < code->co_argcount; ++i)
      positional.push_back(PyUnicode_AsUTF8(PyTuple_GET_ITEM(names.get(), i)));
  }
  std::vector<std::string> out;
  const size_t total =
      nargs_ + (kwnames_ ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_.get())) : 0);
  size_t at = 0;
  for (size_t i = 0; i < total; ++i) {
    std::string base = "a" + std::to_string(i);
    if (i < nargs_ && i < positional.size()) base = positional[i];
    if (i >= nargs_)
      base =
          PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames_.get(), static_cast<Py_ssize_t>(i - nargs_)));
    walk(nodes_, at, base, [&](const StructureNode& n, const std::string& path) {
      if (n.kind != Kind::Tensor) return;
      std::string name;
      for (char c : path) {
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
          name += c;
        } else if (!name.empty() && name.back() != '_') {
          name += '_';
        }
      }
      while (!name.empty() && name.back() == '_') name.pop_back();
      out.push_back(name.empty() ? "x" : name);
    });
  }
  return out;
}

}  // namespace fulgurite::python
