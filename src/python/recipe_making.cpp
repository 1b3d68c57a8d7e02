// Putting values together again.
#include <ATen/core/Tensor.h>

#include <iterator>

#include "number_recorder.h"
#include "recipe_parts.h"
#include "structure.h"

namespace fulgurite::python {

using Kind = RecipeNode::Kind;

Recipe::Making::Making(const Recipe& recipe, const std::vector<at::Tensor>& outputs,
                       PyObject* const* args, const std::vector<PyRef>& slots)
    : recipe_(recipe), outputs_(outputs), args_(args), slots_(slots), made_(recipe.nodes_.size()) {}

PyObject* Recipe::Making::get(int node) {
  PyRef& made = made_[static_cast<size_t>(node)];
  if (!made) {
    PyRef object = make(node);
    if (!object) return nullptr;
    const RecipeNode& n = recipe_.nodes_[static_cast<size_t>(node)];
    made_[static_cast<size_t>(node)] = object;
    if (!fill(n, object.get())) return nullptr;
  }
  return made_[static_cast<size_t>(node)].get();
}

// The object, still empty if it can be filled later (it may contain itself).
PyRef Recipe::Making::make(int node) {
  const RecipeNode& n = recipe_.nodes_[static_cast<size_t>(node)];
  switch (n.kind) {
    case Kind::Output:
      return PyRef::steal(wrap_tensor_as(outputs_[static_cast<size_t>(n.index)], n.type.get()));
    case Kind::Constant:
      return n.object;
    case Kind::Located:
      return PyRef::steal(recipe_.locators_[static_cast<size_t>(n.index)].find(args_, slots_));
    case Kind::Number:
      return PyRef::steal(number_in(outputs_[static_cast<size_t>(n.index)]));
    case Kind::List:
      return PyRef::steal(PyList_New(0));
    case Kind::Dict:
      return PyRef::steal(PyDict_New());
    case Kind::Set:
      if (reinterpret_cast<PyTypeObject*>(n.type.get()) == &PySet_Type)
        return PyRef::steal(PySet_New(n.object.get()));
      return make_frozen_set(n);
    case Kind::Method: {
      PyObject* function = get(n.children[0]);
      PyObject* self = function != nullptr ? get(n.children[1]) : nullptr;
      return PyRef::steal(self != nullptr ? PyMethod_New(function, self) : nullptr);
    }
    case Kind::Cell:
      return PyRef::steal(PyCell_New(nullptr));
    case Kind::Given:
      PyErr_SetString(PyExc_RuntimeError, "the handle of a hook that is not registered");
      return {};
    case Kind::Function:
      return PyRef::steal(PyFunction_New(n.object.get(), n.type.get()));
    case Kind::Call:
      return call(n);
    case Kind::Tuple: {
      PyRef items = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(n.children.size())));
      for (size_t i = 0; items && i < n.children.size(); ++i) {
        PyObject* item = get(n.children[i]);
        if (item == nullptr) return {};
        PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), Py_NewRef(item));
      }
      auto* type = reinterpret_cast<PyTypeObject*>(n.type.get());
      if (type == &PyTuple_Type) return items;
      PyRef arguments = PyRef::steal(PyTuple_Pack(1, items.get()));
      if (builtin_base(type) == &PyTuple_Type)  // past a __new__ of the class
        return PyRef::steal(PyTuple_Type.tp_new(type, arguments.get(), nullptr));
      return PyRef::steal(PyObject_Call(n.type.get(), arguments.get(), nullptr));
    }
    case Kind::Instance: {
      auto* type = reinterpret_cast<PyTypeObject*>(n.type.get());
      PyRef none = PyRef::steal(PyTuple_New(0));
      PyTypeObject* base = builtin_base(type);
      if (base == &PyBaseObject_Type) return PyRef::steal(type->tp_alloc(type, 0));
      PyRef object = PyRef::steal(base->tp_new(type, none.get(), nullptr));
      if (object && base == &PyODict_Type && base->tp_init(object.get(), none.get(), nullptr) < 0)
        return {};
      return object;
    }
  }
  return {};
}

bool Recipe::Making::fill(const RecipeNode& n, PyObject* object) {
  switch (n.kind) {
    case Kind::List:
      for (int child : n.children) {
        PyObject* item = get(child);
        if (item == nullptr || PyList_Append(object, item) < 0) return false;
      }
      return true;
    case Kind::Set:
      for (int child : n.children) {
        if (PyFrozenSet_Check(object)) break;  // they are there
        PyObject* item = get(child);
        if (item == nullptr || PySet_Add(object, item) < 0) return false;
      }
      return true;
    case Kind::Dict:
      return fill_contents(n, object);
    case Kind::Cell: {
      PyObject* content = n.children.empty() ? nullptr : get(n.children[0]);
      return n.children.empty() || (content != nullptr && PyCell_Set(object, content) == 0);
    }
    case Kind::Function:
      return fill_function(n, object);
    case Kind::Output:
    case Kind::Instance:
      for (size_t i = 0; i < n.children.size(); ++i) {
        PyObject* value = get(n.children[i]);
        PyObject* name = PyTuple_GET_ITEM(n.object.get(), static_cast<Py_ssize_t>(i));
        if (value == nullptr || PyObject_GenericSetAttr(object, name, value) < 0) return false;
      }
      return n.contents < 0 ||
             fill_contents(recipe_.nodes_[static_cast<size_t>(n.contents)], object);
    default:
      return true;
  }
}

PyRef Recipe::Making::call(const RecipeNode& n) {
  PyRef arguments = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(n.children.size())));
  for (size_t i = 0; arguments && i < n.children.size(); ++i) {
    PyObject* argument = get(n.children[i]);
    if (argument == nullptr) return {};
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), Py_NewRef(argument));
  }
  PyObject* keywords = n.contents >= 0 ? get(n.contents) : nullptr;
  if (!arguments || (n.contents >= 0 && keywords == nullptr)) return {};
  return PyRef::steal(PyObject_Call(n.type.get(), arguments.get(), keywords));
}

PyRef Recipe::Making::make_frozen_set(const RecipeNode& n) {
  if (n.object) return n.object;
  PyRef items = PyRef::steal(PySet_New(nullptr));
  for (int child : n.children) {
    PyObject* item = items ? get(child) : nullptr;
    if (item == nullptr || PySet_Add(items.get(), item) < 0) return {};
  }
  return PyRef::steal(PyFrozenSet_New(items.get()));
}

// As Recipe::add_function laid it out: attributes, then cells.
bool Recipe::Making::fill_function(const RecipeNode& n, PyObject* object) {
  auto* f = reinterpret_cast<PyFunctionObject*>(object);
  PyObject** const places[] = {&f->func_name,        &f->func_qualname, &f->func_doc,
                               &f->func_module,      &f->func_defaults, &f->func_kwdefaults,
                               &f->func_annotations, &f->func_dict};
  constexpr size_t kAttributes = std::size(places);
  for (size_t i = 0; i < kAttributes; ++i) {
    PyObject* value = n.children[i] >= 0 ? get(n.children[i]) : nullptr;
    if (n.children[i] >= 0 && value == nullptr) return false;
    Py_XINCREF(value);
    Py_XSETREF(*places[i], value);
  }
  if (n.children.size() == kAttributes) return true;
  const auto count = static_cast<Py_ssize_t>(n.children.size() - kAttributes);
  PyRef cells = PyRef::steal(PyTuple_New(count));
  for (Py_ssize_t i = 0; cells && i < count; ++i) {
    PyObject* cell = get(n.children[kAttributes + static_cast<size_t>(i)]);
    if (cell == nullptr) return false;
    PyTuple_SET_ITEM(cells.get(), i, Py_NewRef(cell));
  }
  return cells && PyFunction_SetClosure(object, cells.get()) == 0;
}

bool Recipe::Making::fill_contents(const RecipeNode& n, PyObject* object) {
  for (size_t i = 0; i < n.children.size(); ++i) {
    PyObject* value = get(n.children[i]);
    if (value == nullptr) return false;
    if (n.kind == Kind::List) {
      if (PyList_Append(object, value) < 0) return false;
      continue;
    }
    PyObject* key = PyTuple_GET_ITEM(n.object.get(), static_cast<Py_ssize_t>(i));
    const int failed = PyODict_Check(object) ? PyODict_SetItem(object, key, value)
                                             : PyDict_SetItem(object, key, value);
    if (failed < 0) return false;
  }
  return true;
}

}  // namespace fulgurite::python
