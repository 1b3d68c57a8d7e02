// Taking values apart. (recipe_objects.cpp: sets, functions and instances; recipe_making.cpp:
// putting together.)
#include "recipe.h"

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstring>

#include "recipe_parts.h"
#include "structure.h"
#include "watch/values.h"

namespace fulgurite::python {

using Kind = RecipeNode::Kind;

namespace {

// A builtin that is bound to nothing, or to what exists once.
bool is_static_builtin(PyObject* o) {
  if (!PyCFunction_Check(o)) return false;
  PyObject* self = PyCFunction_GET_SELF(o);
  return self == nullptr || PyModule_Check(self) ||
         (PyType_Check(self) && !is_heap(reinterpret_cast<PyTypeObject*>(self)));
}

}  // namespace

bool is_constant(PyObject* o) {
  if (PySlice_Check(o) || PyTuple_Check(o)) return false;  // taken apart
  if (is_static_builtin(o)) return true;
  if (PyType_Check(o)) return !is_heap(reinterpret_cast<PyTypeObject*>(o));
  return watching::is_value(o) && std::strcmp(Py_TYPE(o)->tp_name, "numpy.void") != 0;
}

bool is_constant_key(PyObject* key, const ObjectFinder& finder) {
  if (finder.is_number(key)) return false;
  if (is_constant(key) || finder.locate(key).kind == Locator::Kind::Fixed) return true;
  if (!PyTuple_CheckExact(key)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
    if (!is_constant_key(PyTuple_GET_ITEM(key, i), finder)) return false;
  return true;
}

PyRef tuple_of(const std::vector<PyRef>& items) {
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(items[i].get()));
  return tuple;
}

int Recipe::push(RecipeNode node, PyObject* object) {
  nodes_.push_back(std::move(node));
  const int number = static_cast<int>(nodes_.size()) - 1;
  if (object != nullptr) {
    numbers_of_.emplace(object, number);
    keep_.push_back(PyRef::borrow(object));
  }
  return number;
}

int Recipe::add(PyObject* object, const ObjectFinder& finder, std::vector<PyObject*>& outputs,
                std::string& refusal) {
  Adding adding{finder, outputs, refusal};
  return add_at(object, adding, 0);
}

int Recipe::add_constant(PyObject* o) {
  RecipeNode n{Kind::Constant};
  n.object = PyRef::borrow(o);
  return push(std::move(n), nullptr);
}

void Recipe::finish() {
  numbers_of_.clear();
  keep_.clear();
}

bool Recipe::add_children(int node, const std::vector<PyRef>& objects, Adding& adding, int depth) {
  for (const PyRef& object : objects) {
    const int child = object ? add_at(object.get(), adding, depth + 1) : -1;
    if (object && child < 0) return false;
    nodes_[static_cast<size_t>(node)].children.push_back(child);
  }
  return true;
}

int Recipe::add_output(PyObject* o, Kind kind, Adding& adding) {
  RecipeNode n{kind};
  n.index = static_cast<int>(adding.outputs.size());
  adding.outputs.push_back(o);
  return push(std::move(n), o);
}

int Recipe::add_at(PyObject* o, Adding& adding, int depth) {
  if (depth > 64) return adding.refuse("is nested too deeply");
  if (adding.finder.is_number(o)) {
    auto it = numbers_of_.find(o);
    return it != numbers_of_.end() ? it->second : add_output(o, Kind::Number, adding);
  }
  if (is_constant(o)) return add_constant(o);
  if (auto it = numbers_of_.find(o); it != numbers_of_.end()) {
    if (PyTuple_Check(o) && nodes_[static_cast<size_t>(it->second)].index == -2)
      return adding.refuse("holds a tuple that contains itself");
    return it->second;
  }
  const Locator where = adding.finder.locate(o);
  if (is_any_tensor(o) && where.kind != Locator::Kind::Slot &&
      (where.kind == Locator::Kind::None || is_plain_tensor(o)))
    return add_tensor(o, where.kind == Locator::Kind::None, adding, depth);
  if (where.kind != Locator::Kind::None) {
    RecipeNode n{Kind::Located};
    n.index = static_cast<int>(locators_.size());
    locators_.push_back(where);
    return push(std::move(n), o);
  }
  return add_made(o, adding, depth);
}

int Recipe::add_tensor(PyObject* o, bool is_made, Adding& adding, int depth) {
  if (is_made && !is_plain_tensor(o))
    return adding.refuse(std::string("holds a tensor subclass (") + Py_TYPE(o)->tp_name + ")");
  const int number = add_output(o, Kind::Output, adding);
  if (is_parameter(o))
    nodes_[static_cast<size_t>(number)].type =
        PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
  if (!is_made || !has_attributes(o)) return number;
  std::vector<PyRef> names, values;
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(*_PyObject_GetDictPtr(o), &position, &name, &value)) {
    names.push_back(PyRef::borrow(name));
    values.push_back(PyRef::borrow(value));
  }
  nodes_[static_cast<size_t>(number)].object = tuple_of(names);
  return add_children(number, values, adding, depth) ? number : -1;
}

// What the call made itself.
int Recipe::add_made(PyObject* o, Adding& adding, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  if (PyFunction_Check(o)) return add_function(o, adding, depth);
  if (PyType_Check(o) && adding.finder.is_older_type(reinterpret_cast<PyTypeObject*>(o)))
    return add_constant(o);
  if (PyType_Check(o) || PyGen_Check(o) || PyCoro_CheckExact(o))
    return adding.refuse(std::string("holds a ") + type->tp_name + " that the call made");
  if (PyMethod_Check(o)) {
    const int number = push({Kind::Method}, o);
    const std::vector<PyRef> parts = {PyRef::borrow(PyMethod_GET_FUNCTION(o)),
                                      PyRef::borrow(PyMethod_GET_SELF(o))};
    return add_children(number, parts, adding, depth) ? number : -1;
  }
  std::vector<PyRef> children;
  if (PyTuple_Check(o) && (builtin_base(type) == &PyTuple_Type || !is_heap(type)) &&
      adding.finder.is_older_type(type) && !has_attributes(o)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      children.push_back(PyRef::borrow(PyTuple_GET_ITEM(o, i)));
    RecipeNode n{Kind::Tuple};
    n.index = -2;  // under construction: it cannot contain itself
    n.type = PyRef::borrow(reinterpret_cast<PyObject*>(type));
    const int number = push(std::move(n), o);
    if (!add_children(number, children, adding, depth)) return -1;
    nodes_[static_cast<size_t>(number)].index = -1;
    return number;
  }
  if (type == &PyList_Type) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i)
      children.push_back(PyRef::borrow(PyList_GET_ITEM(o, i)));
    const int number = push({Kind::List}, o);
    return add_children(number, children, adding, depth) ? number : -1;
  }
  if (type == &PyDict_Type) return add_dict(o, adding, depth);
  if (type == &PySet_Type || type == &PyFrozenSet_Type) return add_set(o, adding, depth);
  if (is_builtin_object(o)) return add_builtin_object(o, adding, depth);
  return add_instance(o, adding, depth);
}

int Recipe::add_dict(PyObject* o, Adding& adding, int depth) {
  std::vector<PyRef> keys, values;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(o, &position, &key, &value)) {
    if (!is_constant_key(key, adding.finder))
      return adding.refuse(std::string("holds a dict with a ") + Py_TYPE(key)->tp_name +
                           " as a key");
    keys.push_back(PyRef::borrow(key));
    values.push_back(PyRef::borrow(value));
  }
  RecipeNode n{Kind::Dict};
  n.object = tuple_of(keys);
  const int number = push(std::move(n), o);
  return add_children(number, values, adding, depth) ? number : -1;
}

namespace {

std::string literal_text(PyObject* o) {
  PyRef repr = PyRef::steal(PyObject_Repr(o));
  const char* text = repr ? PyUnicode_AsUTF8(repr.get()) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "None";
}

}  // namespace

std::string Recipe::expression(int number) const {
  size_t left = 4096;  // what contains itself, or much of the same, has no text
  return text(number, left);
}

std::string Recipe::text(int number, size_t& left) const {
  if (left == 0) return "";
  --left;
  const RecipeNode& n = nodes_[static_cast<size_t>(number)];
  switch (n.kind) {
    case Kind::Output:
      return "$" + std::to_string(n.index);
    case Kind::Constant:
      if (PyFloat_Check(n.object.get()) && !std::isfinite(PyFloat_AS_DOUBLE(n.object.get())))
        return "";
      return PyCFunction_Check(n.object.get()) || PyType_Check(n.object.get())
                 ? ""
                 : literal_text(n.object.get());
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict: {
      std::string s = n.kind == Kind::Tuple ? "(" : n.kind == Kind::List ? "[" : "{";
      for (size_t i = 0; i < n.children.size(); ++i) {
        const std::string child = text(n.children[i], left);
        if (child.empty()) return "";
        if (i > 0) s += ", ";
        if (n.kind == Kind::Dict)
          s += literal_text(PyTuple_GET_ITEM(n.object.get(), static_cast<Py_ssize_t>(i))) + ": ";
        s += child;
      }
      if (n.kind == Kind::Tuple && n.children.size() == 1) s += ",";
      return s + (n.kind == Kind::Tuple ? ")" : n.kind == Kind::List ? "]" : "}");
    }
    case Kind::Instance: {  // a dataclass or a dict, by what it holds
      if (n.contents >= 0) return text(n.contents, left);
      std::string s = "{";
      for (size_t i = 0; i < n.children.size(); ++i) {
        const std::string child = text(n.children[i], left);
        if (child.empty()) return "";
        s += (i > 0 ? ", " : "") +
             literal_text(PyTuple_GET_ITEM(n.object.get(), static_cast<Py_ssize_t>(i))) + ": " +
             child;
      }
      return s + "}";
    }
    default:
      return "";
  }
}

int Recipe::traverse(visitproc visit, void* arg) const {
  for (const RecipeNode& n : nodes_) {
    Py_VISIT(n.object.get());
    Py_VISIT(n.type.get());
  }
  for (const Locator& l : locators_) Py_VISIT(l.object.get());
  return 0;
}

}  // namespace fulgurite::python
