#include "recipe.h"

#include <ATen/core/Tensor.h>
#include <structmember.h>

#include <cmath>
#include <cstring>

#include "number_recorder.h"
#include "structure.h"

namespace fulgurite::python {
namespace {

using Kind = RecipeNode::Kind;

bool is_heap(PyTypeObject* type) { return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0; }

// Immutable objects of which any equal one will do, and those that exist once.
bool is_constant(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (o == Py_None || o == Py_Ellipsis || o == Py_NotImplemented) return true;
  if (type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
      type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
      type == &PyRange_Type || PyModule_Check(o) || PyCFunction_Check(o))
    return true;
  const char* name = type->tp_name;
  for (const char* known : {"torch.dtype", "torch.device", "torch.layout", "torch.memory_format"})
    if (std::strcmp(name, known) == 0) return true;
  return false;
}

// The builtin class that decides how instances are laid out.
PyTypeObject* builtin_base(PyTypeObject* type) {
  while (type != nullptr && is_heap(type)) type = type->tp_base;
  return type;
}

PyTypeObject* ordered_dict() { return &PyODict_Type; }
bool is_defaultdict(PyTypeObject* type) {
  return std::strcmp(type->tp_name, "collections.defaultdict") == 0;
}

// `__slots__` of the classes of an object.
void add_slots(PyObject* o, std::vector<PyRef>& names, std::vector<PyRef>& values) {
  PyObject* mro = Py_TYPE(o)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!is_heap(base)) continue;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(base->tp_dict, &position, &key, &value)) {
      if (Py_TYPE(value) != &PyMemberDescr_Type) continue;
      PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(value)->d_member;
      if (member->type != T_OBJECT_EX) continue;
      PyRef content = PyRef::steal(PyMember_GetOne(reinterpret_cast<const char*>(o), member));
      if (!content) {
        PyErr_Clear();
        continue;
      }
      names.push_back(PyRef::borrow(key));
      values.push_back(content);
    }
  }
}

void add_attributes(PyObject* o, std::vector<PyRef>& names, std::vector<PyRef>& values) {
  add_slots(o, names, values);
  PyObject** dict = _PyObject_GetDictPtr(o);
  if (dict == nullptr || *dict == nullptr) return;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(*dict, &position, &key, &value)) {
    names.push_back(PyRef::borrow(key));
    values.push_back(PyRef::borrow(value));
  }
}

bool is_constant_key(PyObject* key, const ObjectFinder& finder) {
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

}  // namespace

// ---- where objects are
// -----------------------------------------------------------------------------------------

PyObject* Locator::find(PyObject* const* args, const std::vector<PyRef>& slots) const {
  if (kind == Kind::Fixed) return Py_NewRef(object.get());
  if (kind == Kind::Slot) return Py_NewRef(slots[static_cast<size_t>(index)].get());
  PyRef found = PyRef::borrow(args[index]);
  for (const PyRef& step : steps) {
    found = PyRef::steal(PyObject_GetItem(found.get(), step.get()));
    if (!found) return nullptr;
  }
  return found.release();
}

ObjectFinder::ObjectFinder(const Observation& seen, PyObject* const* args, size_t nargs)
    : seen_(seen) {
  std::vector<PyRef> steps;
  for (size_t i = 0; i < nargs; ++i) add_argument(args[i], i, steps, 0);
}

void ObjectFinder::add_argument(PyObject* object, size_t index, std::vector<PyRef>& steps,
                                int depth) {
  const bool list = PyList_CheckExact(object), dict = PyDict_CheckExact(object);
  const bool tuple = PyTuple_Check(object);
  if ((!list && !dict && !tuple) || depth > 16) return;
  Locator here;
  here.kind = Locator::Kind::Argument;
  here.index = static_cast<int>(index);
  here.steps = steps;
  if (!arguments_.emplace(object, std::move(here)).second) return;
  auto child = [&](PyRef key, PyObject* item) {
    steps.push_back(std::move(key));
    add_argument(item, index, steps, depth + 1);
    steps.pop_back();
  };
  if (dict) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) child(PyRef::borrow(key), value);
    return;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    child(PyRef::steal(PyLong_FromSsize_t(i)), PySequence_Fast_GET_ITEM(object, i));
}

bool ObjectFinder::is_older(PyObject* object) const {
  return seen_.slots.count(object) != 0 || arguments_.count(object) != 0 ||
         seen_.known.contains(object);
}

Locator ObjectFinder::locate(PyObject* object) const {
  Locator found;
  if (auto it = seen_.slots.find(object); it != seen_.slots.end()) {
    found.kind = Locator::Kind::Slot;
    found.index = it->second;
  } else if (auto argument = arguments_.find(object); argument != arguments_.end()) {
    found = argument->second;
  } else if (seen_.known.contains(object)) {
    found.kind = Locator::Kind::Fixed;
    found.object = PyRef::borrow(object);
  }
  return found;
}

// ---- taking apart
// ----------------------------------------------------------------------------------------------

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
  return add_at(object, finder, outputs, refusal, 0);
}

void Recipe::settle() {
  numbers_of_.clear();
  closures_.clear();
  keep_.clear();
}

int Recipe::add_hook(PyObject* hook, const ObjectFinder& finder, std::vector<PyObject*>& tensors,
                     std::string& refusal) {
  if (!PyFunction_Check(hook) || finder.is_older(hook)) return add(hook, finder, tensors, refusal);
  auto* f = reinterpret_cast<PyFunctionObject*>(hook);
  const bool plain = f->func_kwdefaults == nullptr &&
                     (f->func_dict == nullptr || PyDict_GET_SIZE(f->func_dict) == 0);
  if (!plain) {
    refusal = "holds a function that the call made, with keyword defaults or attributes";
    return -1;
  }
  RecipeNode n{Kind::Closure};
  n.object = PyRef::borrow(f->func_code);
  n.type = PyRef::borrow(f->func_globals);
  const int number = push(std::move(n), hook);
  const Py_ssize_t cells = f->func_closure != nullptr ? PyTuple_GET_SIZE(f->func_closure) : 0;
  for (Py_ssize_t i = 0; i < cells; ++i) {
    PyObject* cell = PyTuple_GET_ITEM(f->func_closure, i);
    int child = -1;
    if (auto it = numbers_of_.find(cell); it != numbers_of_.end()) {
      child = it->second;
    } else {
      child = push({Kind::Cell}, cell);
      PyObject* content = PyCell_GET(cell);
      if (content != nullptr &&
          !add_children(child, {PyRef::borrow(content)}, finder, tensors, refusal, 0))
        return -1;
    }
    nodes_[static_cast<size_t>(number)].children.push_back(child);
  }
  if (f->func_defaults != nullptr) {
    const int defaults = add_at(f->func_defaults, finder, tensors, refusal, 0);
    if (defaults < 0) return -1;
    nodes_[static_cast<size_t>(number)].contents = defaults;
  }
  return number;
}

bool Recipe::add_children(int node, const std::vector<PyRef>& objects, const ObjectFinder& finder,
                          std::vector<PyObject*>& outputs, std::string& refusal, int depth) {
  for (const PyRef& object : objects) {
    const int child = add_at(object.get(), finder, outputs, refusal, depth + 1);
    if (child < 0) return false;
    nodes_[static_cast<size_t>(node)].children.push_back(child);
  }
  return true;
}

int Recipe::add_at(PyObject* o, const ObjectFinder& finder, std::vector<PyObject*>& outputs,
                   std::string& refusal, int depth) {
  if (depth > 64) {
    refusal = "is nested too deeply";
    return -1;
  }
  if (finder.is_number(o)) {
    if (auto it = numbers_of_.find(o); it != numbers_of_.end()) return it->second;
    RecipeNode n{Kind::Number};
    n.index = static_cast<int>(outputs.size());
    outputs.push_back(o);
    return push(std::move(n), o);
  }
  if (is_constant(o)) {
    RecipeNode n{Kind::Constant};
    n.object = PyRef::borrow(o);
    return push(std::move(n), nullptr);
  }
  if (auto it = numbers_of_.find(o); it != numbers_of_.end()) {
    if (PyTuple_Check(o) && nodes_[static_cast<size_t>(it->second)].index == -2) {
      refusal = "holds a tuple that contains itself";
      return -1;
    }
    return it->second;
  }
  PyTypeObject* type = Py_TYPE(o);
  const Locator where = finder.locate(o);
  if (is_any_tensor(o) && where.kind != Locator::Kind::Slot &&
      (where.kind == Locator::Kind::None || is_plain_tensor(o))) {
    if (where.kind == Locator::Kind::None && (!is_plain_tensor(o) || has_attributes(o))) {
      refusal = is_plain_tensor(o) ? "holds a tensor that the call gave Python attributes"
                                   : std::string("holds a tensor subclass (") + type->tp_name + ")";
      return -1;
    }
    RecipeNode n{Kind::Output};
    if (is_parameter(o)) n.type = PyRef::borrow(reinterpret_cast<PyObject*>(type));
    n.index = static_cast<int>(outputs.size());
    outputs.push_back(o);
    return push(std::move(n), o);
  }
  if (where.kind != Locator::Kind::None) {
    RecipeNode n{Kind::Located};
    n.index = static_cast<int>(locators_.size());
    locators_.push_back(where);
    return push(std::move(n), o);
  }
  if (closures_.count(o) > 0) return add_hook(o, finder, outputs, refusal);
  if (PyType_Check(o) || PyFunction_Check(o) || PyGen_Check(o) || PyCoro_CheckExact(o)) {
    // Known only if it was there before the call.
    if (PyType_Check(o) && !is_heap(reinterpret_cast<PyTypeObject*>(o))) {
      RecipeNode n{Kind::Constant};
      n.object = PyRef::borrow(o);
      return push(std::move(n), nullptr);
    }
    refusal = std::string("holds a ") + type->tp_name + " that the call made";
    return -1;
  }
  if (PyMethod_Check(o)) {
    const int number = push({Kind::Method}, o);
    const std::vector<PyRef> parts = {PyRef::borrow(PyMethod_GET_FUNCTION(o)),
                                      PyRef::borrow(PyMethod_GET_SELF(o))};
    return add_children(number, parts, finder, outputs, refusal, depth) ? number : -1;
  }
  std::vector<PyRef> children;
  if (PyTuple_Check(o) && (builtin_base(type) == &PyTuple_Type || !is_heap(type))) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      children.push_back(PyRef::borrow(PyTuple_GET_ITEM(o, i)));
    RecipeNode n{Kind::Tuple};
    n.index = -2;  // under construction: it cannot contain itself
    n.type = PyRef::borrow(reinterpret_cast<PyObject*>(type));
    const int number = push(std::move(n), o);
    if (!add_children(number, children, finder, outputs, refusal, depth)) return -1;
    nodes_[static_cast<size_t>(number)].index = -1;
    return number;
  }
  if (type == &PyList_Type) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i)
      children.push_back(PyRef::borrow(PyList_GET_ITEM(o, i)));
    const int number = push({Kind::List}, o);
    return add_children(number, children, finder, outputs, refusal, depth) ? number : -1;
  }
  if (type == &PyDict_Type) {
    std::vector<PyRef> keys;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) {
      if (!is_constant_key(key, finder)) {
        refusal = std::string("holds a dict with a ") + Py_TYPE(key)->tp_name + " as a key";
        return -1;
      }
      keys.push_back(PyRef::borrow(key));
      children.push_back(PyRef::borrow(value));
    }
    RecipeNode n{Kind::Dict};
    n.object = tuple_of(keys);
    const int number = push(std::move(n), o);
    return add_children(number, children, finder, outputs, refusal, depth) ? number : -1;
  }
  if (type == &PySet_Type) {
    PyObject* item;
    Py_ssize_t position = 0;
    Py_hash_t hash;
    while (_PySet_NextEntry(o, &position, &item, &hash)) children.push_back(PyRef::borrow(item));
    if (children.size() > 1) {
      refusal = "holds a set, whose order depends on its history";
      return -1;
    }
    const int number = push({Kind::Set}, o);
    return add_children(number, children, finder, outputs, refusal, depth) ? number : -1;
  }
  return add_instance(o, finder, outputs, refusal, depth);
}

int Recipe::add_instance(PyObject* o, const ObjectFinder& finder, std::vector<PyObject*>& outputs,
                         std::string& refusal, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  PyTypeObject* base = builtin_base(type);
  if (is_heap(type) && !finder.is_older(reinterpret_cast<PyObject*>(type))) {
    refusal = std::string("holds a ") + type->tp_name + ", whose class no guard covers";
    return -1;
  }
  const bool known_base = base == &PyBaseObject_Type || base == &PyDict_Type ||
                          base == ordered_dict() || base == &PyList_Type || is_defaultdict(base);
  PyRef del = PyRef::steal(PyUnicode_InternFromString("__del__"));
  if (!known_base || (!is_heap(type) && type != ordered_dict() && !is_defaultdict(type)) ||
      _PyType_Lookup(type, del.get()) != nullptr) {
    refusal = std::string("holds a ") + type->tp_name + ", which cannot be made again";
    return -1;
  }
  std::vector<PyRef> names, values;
  add_attributes(o, names, values);
  if (is_defaultdict(base)) {
    names.push_back(PyRef::steal(PyUnicode_InternFromString("default_factory")));
    values.push_back(PyRef::steal(PyObject_GetAttr(o, names.back().get())));
  }
  RecipeNode n{Kind::Instance};
  n.type = PyRef::borrow(reinterpret_cast<PyObject*>(type));
  n.object = tuple_of(names);
  const int number = push(std::move(n), o);
  if (!add_children(number, values, finder, outputs, refusal, depth)) return -1;
  if (base == &PyBaseObject_Type) return number;
  // What the builtin base holds, as a dict or list of its own.
  PyRef contents;
  if (base == &PyList_Type) {
    contents = PyRef::steal(PyList_GetSlice(o, 0, PyList_GET_SIZE(o)));
  } else {
    contents = PyRef::steal(PyDict_New());
    PyRef items = PyRef::steal(
        base != ordered_dict()
            ? PyDict_Items(o)
            : PyObject_CallMethod(reinterpret_cast<PyObject*>(ordered_dict()), "items", "O", o));
    PyRef list = items ? PyRef::steal(PySequence_List(items.get())) : PyRef();
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
      PyObject* pair = PyList_GET_ITEM(list.get(), i);
      PyDict_SetItem(contents.get(), PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    if (!list) PyErr_Clear();
  }
  const int inner = add_at(contents.get(), finder, outputs, refusal, depth + 1);
  if (inner < 0) return -1;
  nodes_[static_cast<size_t>(number)].contents = inner;
  return number;
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
  const RecipeNode& n = nodes_[static_cast<size_t>(number)];
  switch (n.kind) {
    case Kind::Output:
      return "$" + std::to_string(n.index);
    case Kind::Constant:
      if (PyFloat_Check(n.object.get()) && !std::isfinite(PyFloat_AS_DOUBLE(n.object.get())))
        return "";
      return PyModule_Check(n.object.get()) || PyCFunction_Check(n.object.get()) ||
                     PyType_Check(n.object.get())
                 ? ""
                 : literal_text(n.object.get());
    case Kind::Tuple:
    case Kind::List:
    case Kind::Dict: {
      std::string s = n.kind == Kind::Tuple ? "(" : n.kind == Kind::List ? "[" : "{";
      for (size_t i = 0; i < n.children.size(); ++i) {
        const std::string child = expression(n.children[i]);
        if (child.empty()) return "";
        if (i > 0) s += ", ";
        if (n.kind == Kind::Dict)
          s += literal_text(PyTuple_GET_ITEM(n.object.get(), static_cast<Py_ssize_t>(i))) + ": ";
        s += child;
      }
      if (n.kind == Kind::Tuple && n.children.size() == 1) s += ",";
      return s + (n.kind == Kind::Tuple ? ")" : n.kind == Kind::List ? "]" : "}");
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

// ---- putting together
// ------------------------------------------------------------------------------------------

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
      return PyRef::steal(PySet_New(nullptr));
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
    case Kind::Closure: {
      PyRef function = PyRef::steal(PyFunction_New(n.object.get(), n.type.get()));
      PyRef cells = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(n.children.size())));
      for (size_t i = 0; cells && i < n.children.size(); ++i) {
        PyObject* cell = get(n.children[i]);
        if (cell == nullptr) return {};
        PyTuple_SET_ITEM(cells.get(), static_cast<Py_ssize_t>(i), Py_NewRef(cell));
      }
      if (!function || !cells) return {};
      if (!n.children.empty() && PyFunction_SetClosure(function.get(), cells.get()) < 0) return {};
      if (n.contents >= 0) {
        PyObject* defaults = get(n.contents);
        if (defaults == nullptr || PyFunction_SetDefaults(function.get(), defaults) < 0) return {};
      }
      return function;
    }
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
      if (object && base == ordered_dict() && base->tp_init(object.get(), none.get(), nullptr) < 0)
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
