// Taking values apart: sets, functions, objects of C code, and instances of Python classes.
#include <Python.h>
#include <structmember.h>

#include <cstring>

#include "recipe_parts.h"
#include "structure.h"
#include "watch/values.h"

namespace fulgurite::python {

using Kind = RecipeNode::Kind;

PyTypeObject* builtin_base(PyTypeObject* type) {
  while (type != nullptr && is_heap(type)) type = type->tp_base;
  return type;
}

namespace {

PyTypeObject* ordered_dict() { return &PyODict_Type; }
bool is_defaultdict(PyTypeObject* type) {
  return std::strcmp(type->tp_name, "collections.defaultdict") == 0;
}

bool is_namespace(PyTypeObject* type) { return type == watching::known_types().simple_namespace; }

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

// Whether both would go on in the same way, whatever is done with them.
bool same_table(PyObject* a, PyObject* b) {
  const auto* x = reinterpret_cast<PySetObject*>(a);
  const auto* y = reinterpret_cast<PySetObject*>(b);
  if (x->fill != y->fill || x->used != y->used || x->mask != y->mask) return false;
  for (Py_ssize_t i = 0; i <= x->mask; ++i)
    if (x->table[i].key != y->table[i].key) return false;
  return true;
}

PyRef copy_of_set(PyObject* set) {
  return PyRef::steal(PyFrozenSet_CheckExact(set) ? PyFrozenSet_New(set) : PySet_New(set));
}

// Objects that hash by their address: what order they have in a set differs from call to call.
bool hashes_by_address(PyObject* o) {
  return is_any_tensor(o) || Py_TYPE(o)->tp_hash == PyBaseObject_Type.tp_hash;
}

PyObject* attribute(PyObject* o, const char* name) {
  PyObject* found = PyObject_GetAttrString(o, name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

// The function that gives views like this one of a dict; null for other objects.
PyObject* giver_of_view(PyObject* o) {
  const char* name = PyDictKeys_Check(o)     ? "keys"
                     : PyDictValues_Check(o) ? "values"
                     : PyDictItems_Check(o)  ? "items"
                                             : nullptr;
  const bool exact = Py_TYPE(o) == &PyDictKeys_Type || Py_TYPE(o) == &PyDictValues_Type ||
                     Py_TYPE(o) == &PyDictItems_Type;
  if (!exact) return nullptr;
  return _PyType_Lookup(&PyDict_Type, PyRef::steal(PyUnicode_InternFromString(name)).get());
}

}  // namespace

int Recipe::add_set(PyObject* o, Adding& adding, int depth) {
  std::vector<PyRef> items;
  PyObject* item;
  Py_ssize_t position = 0;
  bool constant = true, by_address = true;
  while (watching::next_in_set(o, &position, &item)) {
    constant = constant && is_constant_key(item, adding.finder);
    by_address = by_address && hashes_by_address(item) && !adding.finder.is_older(item);
    items.push_back(PyRef::borrow(item));
  }
  RecipeNode n{Kind::Set};
  n.type = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
  if (constant) {  // each call gets a copy of this one
    n.object = copy_of_set(o);
    if (!n.object) PyErr_Clear();
    const PyRef again = n.object ? copy_of_set(n.object.get()) : PyRef();
    if (!again) PyErr_Clear();
    if (!again || !same_table(o, again.get()))
      return adding.refuse("holds a set, whose order depends on its history");
    return push(std::move(n), o);
  }
  if (items.size() > 1 && !by_address)
    return adding.refuse("holds a set, whose order depends on its history");
  const int number = push(std::move(n), o);
  return add_children(number, items, adding, depth) ? number : -1;
}

// Its code and globals are older; variables of the call that it uses are made again.
int Recipe::add_function(PyObject* o, Adding& adding, int depth) {
  auto* f = reinterpret_cast<PyFunctionObject*>(o);
  RecipeNode n{Kind::Function};
  n.object = PyRef::borrow(f->func_code);
  n.type = PyRef::borrow(f->func_globals);
  const int number = push(std::move(n), o);
  std::vector<PyRef> parts;
  for (PyObject* part : {f->func_name, f->func_qualname, f->func_doc, f->func_module,
                         f->func_defaults, f->func_kwdefaults, f->func_annotations, f->func_dict})
    parts.push_back(PyRef::borrow(part));
  if (!add_children(number, parts, adding, depth)) return -1;
  const Py_ssize_t cells = f->func_closure != nullptr ? PyTuple_GET_SIZE(f->func_closure) : 0;
  for (Py_ssize_t i = 0; i < cells; ++i) {
    const int cell = add_cell(PyTuple_GET_ITEM(f->func_closure, i), adding, depth + 1);
    if (cell < 0) return -1;
    nodes_[static_cast<size_t>(number)].children.push_back(cell);
  }
  return number;
}

int Recipe::add_cell(PyObject* cell, Adding& adding, int depth) {
  if (adding.finder.is_older(cell) || numbers_of_.count(cell) != 0)
    return add_at(cell, adding, depth);
  const int number = push({Kind::Cell}, cell);
  PyObject* content = PyCell_GET(cell);
  if (content == nullptr) return number;
  return add_children(number, {PyRef::borrow(content)}, adding, depth) ? number : -1;
}

bool is_builtin_object(PyObject* o) {
  const watching::KnownTypes& types = watching::known_types();
  PyTypeObject* type = Py_TYPE(o);
  return type == &PySlice_Type || type == types.partial || type == types.deque ||
         type == &PyByteArray_Type || giver_of_view(o) != nullptr;
}

int Recipe::add_builtin_object(PyObject* o, Adding& adding, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  RecipeNode n{Kind::Call};
  n.type = PyRef::borrow(reinterpret_cast<PyObject*>(type));
  std::vector<PyRef> arguments;
  PyRef keywords;
  if (PySlice_Check(o)) {
    auto* slice = reinterpret_cast<PySliceObject*>(o);
    for (PyObject* part : {slice->start, slice->stop, slice->step})
      arguments.push_back(PyRef::borrow(part));
  } else if (PyByteArray_CheckExact(o)) {
    arguments.push_back(PyRef::steal(PyBytes_FromObject(o)));
  } else if (type == watching::known_types().deque) {
    arguments.push_back(PyRef::steal(PySequence_List(o)));
    arguments.push_back(PyRef::steal(attribute(o, "maxlen")));
  } else if (type == watching::known_types().partial) {
    if (has_attributes(o)) return adding.refuse("holds a functools.partial with attributes");
    arguments.push_back(PyRef::steal(attribute(o, "func")));
    const PyRef positional = PyRef::steal(attribute(o, "args"));
    for (Py_ssize_t i = 0; positional && i < PyTuple_GET_SIZE(positional.get()); ++i)
      arguments.push_back(PyRef::borrow(PyTuple_GET_ITEM(positional.get(), i)));
    keywords = PyRef::steal(attribute(o, "keywords"));
  } else {
    n.type = PyRef::borrow(giver_of_view(o));
    struct View {
      PyObject ob_base;
      PyObject* dict;
    };
    arguments.push_back(PyRef::borrow(reinterpret_cast<View*>(o)->dict));
  }
  for (const PyRef& argument : arguments)
    if (!argument) return adding.refuse(std::string("holds a ") + type->tp_name);
  const int number = push(std::move(n), o);
  if (!add_children(number, arguments, adding, depth)) return -1;
  if (!keywords) return number;
  const int inner = add_at(keywords.get(), adding, depth + 1);
  nodes_[static_cast<size_t>(number)].contents = inner;
  return inner < 0 ? -1 : number;
}

int Recipe::add_instance(PyObject* o, Adding& adding, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  PyTypeObject* base = builtin_base(type);
  if (!adding.finder.is_older_type(type))
    return adding.refuse(std::string("holds a ") + type->tp_name + ", whose class no guard covers");
  const bool known_base = base == &PyBaseObject_Type || base == &PyDict_Type ||
                          base == ordered_dict() || base == &PyList_Type || is_defaultdict(base) ||
                          is_namespace(base);
  PyRef del = PyRef::steal(PyUnicode_InternFromString("__del__"));
  const bool is_plain =
      is_heap(type) || type == ordered_dict() || is_defaultdict(type) || is_namespace(type);
  if (!known_base || !is_plain || _PyType_Lookup(type, del.get()) != nullptr)
    return adding.refuse(std::string("holds a ") + type->tp_name + ", which cannot be made again");
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
  if (!add_children(number, values, adding, depth)) return -1;
  if (base == &PyBaseObject_Type || is_namespace(base)) return number;
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
  const int inner = add_at(contents.get(), adding, depth + 1);
  if (inner < 0) return -1;
  nodes_[static_cast<size_t>(number)].contents = inner;
  return number;
}

}  // namespace fulgurite::python
