#include "structure_nodes.h"

#include <cstring>

#include "watch/values.h"

namespace fulgurite::python {

using Kind = StructureNode::Kind;

bool is_value_type(PyTypeObject* type) {
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
      type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
      type == Py_TYPE(Py_None) || type == Py_TYPE(Py_Ellipsis))
    return true;
  const char* name = type->tp_name;
  return std::strcmp(name, "torch.dtype") == 0 || std::strcmp(name, "torch.device") == 0 ||
         std::strcmp(name, "torch.layout") == 0 || std::strcmp(name, "torch.memory_format") == 0;
}

bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyComplex_CheckExact(a)) {
    const Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (!is_value_type(Py_TYPE(a))) return watching::is_value(a) && watching::values_equal(a, b);
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool is_number(PyObject* o) {
  if (PyFloat_CheckExact(o)) return true;
  if (!PyLong_CheckExact(o)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(o, &overflow);
  return overflow == 0;
}

std::string repr(PyObject* o) {
  PyRef text = PyRef::steal(PyObject_Repr(o));
  if (!text) {
    PyErr_Clear();
    return std::string("<") + Py_TYPE(o)->tp_name + ">";
  }
  const char* s = PyUnicode_AsUTF8(text.get());
  if (s == nullptr) PyErr_Clear();
  std::string out = s != nullptr ? s : "?";
  return out.size() > 80 ? out.substr(0, 77) + "..." : out;
}

std::string short_text(PyObject* o) {
  return is_value_type(Py_TYPE(o)) ? repr(o) : std::string("<") + Py_TYPE(o)->tp_name + " object>";
}

std::string argument_path(size_t i, size_t nargs, PyObject* kwnames) {
  if (i < nargs) return "args[" + std::to_string(i) + "]";
  const char* name =
      PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, static_cast<Py_ssize_t>(i - nargs)));
  return std::string("argument ") + (name != nullptr ? name : "?");
}

void walk(const std::vector<StructureNode>& nodes, size_t& at, const std::string& path,
          const std::function<void(const StructureNode&, const std::string&)>& visit) {
  const StructureNode& n = nodes[at++];
  visit(n, path);
  if (n.kind == Kind::Tuple || n.kind == Kind::List)
    for (int32_t i = 0; i < n.count; ++i)
      walk(nodes, at, path + "[" + std::to_string(i) + "]", visit);
  if (n.kind == Kind::Dict)
    for (int32_t i = 0; i < n.count; ++i)
      walk(nodes, at, path + "[" + repr(PyTuple_GET_ITEM(n.object.get(), i)) + "]", visit);
}

}  // namespace fulgurite::python
