// Implementation of values.h. `types` is filled once per process and package: torch and numpy are
// looked up in sys.modules only, never imported from here.
#include "internals.h"

#include "values.h"

#include "numbers.h"

#include <cstring>
#include <iterator>

#include "py_ref.h"

namespace fulgurite::python::watching {
namespace {

KnownTypes types;
bool builtin_types_loaded = false;

PyObject* loaded_module(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* module = modules ? PyDict_GetItemString(modules, name) : nullptr;
  return module && PyModule_Check(module) ? module : nullptr;
}

PyTypeObject* type_in(const char* module_name, const char* name) {
  PyObject* module = loaded_module(module_name);
  PyObject* found = module ? PyDict_GetItemString(PyModule_GetDict(module), name) : nullptr;
  if (!found || !PyType_Check(found)) return nullptr;
  Py_INCREF(found);  // kept for the life of the process
  return reinterpret_cast<PyTypeObject*>(found);
}

PyTypeObject* imported_type(const char* module_name, const char* name) {
  PyRef module = PyRef::steal(PyImport_ImportModule(module_name));
  if (!module) PyErr_Clear();
  return type_in(module_name, name);
}

void load_builtin_types() {
  types.deque = imported_type("collections", "deque");
  types.partial = imported_type("functools", "partial");
  types.lru_cache = imported_type("functools", "_lru_cache_wrapper");
  types.enum_meta = imported_type("enum", "EnumMeta");
  types.simple_namespace = imported_type("types", "SimpleNamespace");
  types.thread_local_ = imported_type("_thread", "_local");
  PyRef wrapper = PyRef::steal(PyObject_GetAttrString(Py_None, "__str__"));
  if (wrapper) types.method_wrapper = Py_TYPE(wrapper.get());
  // The slot functions behind Python-level __getattr__ and __getattribute__ are static in CPython;
  // two small classes show their addresses.
  PyRef scope = PyRef::steal(PyDict_New());
  PyDict_SetItemString(scope.get(), "__builtins__", PyEval_GetBuiltins());
  PyRef done = PyRef::steal(
      PyRun_String("class A:\n def __getattr__(self, name): raise AttributeError\n"
                   "class B:\n def __getattribute__(self, name): raise AttributeError\n"
                   "for o in (A(), B()):\n try: o.x\n except AttributeError: pass\n",
                   Py_file_input, scope.get(), scope.get()));
  if (!done) PyErr_Clear();
  auto slot = [&](const char* name) -> getattrofunc {
    PyObject* type = PyDict_GetItemString(scope.get(), name);
    return type ? reinterpret_cast<PyTypeObject*>(type)->tp_getattro : nullptr;
  };
  types.slot_getattr_hook = slot("A");
  types.slot_getattro = slot("B");
  builtin_types_loaded = true;
}

template <typename T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

bool is_torch_value_type(PyTypeObject* type) {
  for (PyTypeObject* known : types.torch_values) {
    if (known && type == known) return true;
  }
  return false;
}

bool is_safe_key_type(PyTypeObject* type) {
  return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type ||
         type == &PyFloat_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
         type == &PyType_Type || type == Py_TYPE(Py_None) || type == &PyFunction_Type ||
         type == &PyCFunction_Type || type == &PyModule_Type || type == &PyCode_Type ||
         is_torch_value_type(type) ||
         (type->tp_hash == PyBaseObject_Type.tp_hash &&
          type->tp_richcompare == PyBaseObject_Type.tp_richcompare);
}

// Tensors hash by identity (in Python: `id(self)`), so that no two of them are compared.
bool is_tensor_key(PyObject* key) {
  PyTypeObject* type = Py_TYPE(key);
  return type == types.tensor || type == types.parameter;
}

// The item under a key whose hash is known without asking it.
PyObject* item_of_tensor(PyObject* dict, PyObject* tensor) {
  PyObject* id = PyLong_FromVoidPtr(tensor);
  const Py_hash_t hash = id != nullptr ? PyObject_Hash(id) : -1;
  Py_XDECREF(id);
  return hash == -1 ? nullptr : _PyDict_GetItem_KnownHash(dict, tensor, hash);
}

// Version tags are never used twice, so a dict seen to be safe stays so until its tag moves.
bool has_only_safe_keys(PyObject* dict) {
  struct Seen {
    PyObject* dict;
    uint64_t tag;
  };
  static Seen seen[64];
  Seen& entry = seen[(reinterpret_cast<uintptr_t>(dict) >> 4) % std::size(seen)];
  const uint64_t tag = version_of(dict);
  if (entry.dict == dict && entry.tag == tag) return true;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (!is_safe_key(key)) return false;
  }
  entry = {dict, tag};
  return true;
}

}  // namespace

const KnownTypes& known_types() { return types; }

void load_known_types() {
  if (!builtin_types_loaded) load_builtin_types();
  if (!types.tensor && loaded_module("torch")) {
    types.tensor = type_in("torch", "Tensor");
    types.tensor_base = type_in("torch._C", "TensorBase");
    types.function_base = type_in("torch._C", "_FunctionBase");
    types.size = type_in("torch", "Size");
    const char* names[] = {"dtype", "device", "layout", "memory_format",
                           "finfo", "iinfo",  "qscheme"};
    size_t i = 0;
    for (const char* name : names) types.torch_values[i++] = type_in("torch", name);
  }
  if (!types.parameter) types.parameter = type_in("torch.nn.parameter", "Parameter");
  if (!types.module) types.module = type_in("torch.nn.modules.module", "Module");
  if (!types.ndarray && loaded_module("numpy")) {
    types.ndarray = type_in("numpy", "ndarray");
    types.numpy_generic = type_in("numpy", "generic");
  }
}

bool is_tensor_type(PyTypeObject* type) {
  if (!types.tensor_base) return false;
  if (type == types.tensor || type == types.parameter || type == types.tensor_base) return true;
  return is_heap_type(type) && PyType_IsSubtype(type, types.tensor_base);
}

bool is_tensor(PyObject* object) { return is_tensor_type(Py_TYPE(object)); }

bool is_plain_number(PyObject* object) {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object);
}

bool is_ndarray(PyObject* object) {
  return types.ndarray && PyType_IsSubtype(Py_TYPE(object), types.ndarray);
}

bool is_heap_type(PyTypeObject* type) {
  return (type->tp_flags & (Py_TPFLAGS_HEAPTYPE | Py_TPFLAGS_IMMUTABLETYPE)) == Py_TPFLAGS_HEAPTYPE;
}

bool is_value(PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (type == &PyBool_Type || type == &PyLong_Type || type == &PyFloat_Type ||
      type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
      type == &PyRange_Type) {
    return true;
  }
  if (type == &PySlice_Type) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return depth <= 6 && is_value(slice->start, depth + 1) && is_value(slice->stop, depth + 1) &&
           is_value(slice->step, depth + 1);
  }
  if (type == &PyTuple_Type || type == types.size) {
    if (depth > 6) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      if (!is_value(PyTuple_GET_ITEM(object, i), depth + 1)) return false;
    }
    return true;
  }
  if (PyType_HasFeature(type, Py_TPFLAGS_HAVE_GC)) return false;  // none of those below has it
  if (is_torch_value_type(type)) return true;
  return types.numpy_generic && type->tp_itemsize == 0 &&
         PyType_IsSubtype(type, types.numpy_generic);
}

bool is_deque(PyObject* object) { return types.deque != nullptr && Py_TYPE(object) == types.deque; }

bool has_items(PyObject* object) {
  return PyList_Check(object) ||
         (types.deque != nullptr && PyType_IsSubtype(Py_TYPE(object), types.deque));
}

bool is_simple(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return is_value(object) || PyType_Check(object) || type == &PyFunction_Type ||
         PyCFunction_Check(object) || PyModule_Check(object) || type == &PyCode_Type ||
         type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type;
}

bool is_safe_key(PyObject* key) {
  PyTypeObject* type = Py_TYPE(key);
  if (is_safe_key_type(type) || is_tensor_key(key)) return true;
  if (type == &PyTuple_Type) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
      PyObject* item = PyTuple_GET_ITEM(key, i);
      if (is_tensor_key(item) || !is_safe_key(item)) return false;
    }
    return true;
  }
  if (PyType_Check(key)) {  // a metaclass that leaves hash and equality alone
    return type->tp_hash == PyType_Type.tp_hash &&
           type->tp_richcompare == PyType_Type.tp_richcompare;
  }
  // Enum members hash by name, in Python, but compare by identity.
  return false;
}

MatchBy match_by(PyObject* value) {
  if (!value) return MatchBy::Absent;
  return is_value(value) ? MatchBy::Value : MatchBy::Identity;
}

bool values_equal(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b)) return false;
  PyTypeObject* type = Py_TYPE(a);
  if (type == &PyFloat_Type) {
    return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
  }
  if (type == &PyComplex_Type) {
    return same_bits(reinterpret_cast<PyComplexObject*>(a)->cval,
                     reinterpret_cast<PyComplexObject*>(b)->cval);
  }
  if (type == &PySlice_Type) {
    auto* x = reinterpret_cast<PySliceObject*>(a);
    auto* y = reinterpret_cast<PySliceObject*>(b);
    return values_equal(x->start, y->start) && values_equal(x->stop, y->stop) &&
           values_equal(x->step, y->step);
  }
  if (type == &PyRange_Type) {  // equal ranges may end at other numbers
    for (const char* part : {"start", "stop", "step"}) {
      const PyRef x = PyRef::steal(PyObject_GetAttrString(a, part));
      const PyRef y = PyRef::steal(PyObject_GetAttrString(b, part));
      if (!x || !y || !values_equal(x.get(), y.get())) return false;
    }
    return true;
  }
  if (PyTuple_Check(a)) {
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    if (n != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < n; ++i) {
      if (!values_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    }
    return true;
  }
  if (!is_value(a) || !is_value(b)) return false;
  ErrorAside aside;
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

bool matches(PyObject* current, PyObject* expected, MatchBy by) {
  if (current == expected) return true;
  if (by == MatchBy::NumberType)
    return current != nullptr && Py_TYPE(current) == Py_TYPE(expected) && is_number_object(current);
  return by == MatchBy::Value && values_equal(current, expected);
}

PyObject* dict_lookup(PyObject* dict, PyObject* key, bool* unsafe) {
  ErrorAside aside;
  if (!PyUnicode_CheckExact(key) && !is_safe_key(key)) {
    // Only an entry that is this very object can be found without running user code.
    PyObject *k, *v;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &k, &v)) {
      if (k == key) return v;
    }
    if (unsafe) *unsafe = true;
    return nullptr;
  }
  // In a dict of str keys the look-up itself is safe. Otherwise an entry of a user-defined type
  // with the same hash could run its __eq__, so all keys have to be safe.
  if (!has_only_str_keys(dict) && !has_only_safe_keys(dict)) {
    if (unsafe) *unsafe = true;
    return nullptr;
  }
  PyObject* found =
      is_tensor_key(key) ? item_of_tensor(dict, key) : PyDict_GetItemWithError(dict, key);
  if (!found) PyErr_Clear();
  return found;
}

bool next_in_set(PyObject* set, Py_ssize_t* position, PyObject** item) {
  Py_hash_t hash = 0;
  return _PySet_NextEntry(set, position, item, &hash) != 0;
}

PyObject* behind_proxy(PyObject* object) {
  struct Proxy {
    PyObject ob_base;
    PyObject* mapping;
  };
  if (Py_TYPE(object) != &PyDictProxy_Type) return object;
  PyObject* mapping = reinterpret_cast<Proxy*>(object)->mapping;
  return PyDict_Check(mapping) ? mapping : object;
}

std::string text_of(PyObject* unicode) {
  if (!unicode || !PyUnicode_Check(unicode)) return "?";
  ErrorAside aside;
  const char* text = PyUnicode_AsUTF8(unicode);
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

std::string describe_object(PyObject* object, size_t limit) {
  if (!object) return "<absent>";
  PyTypeObject* type = Py_TYPE(object);
  if (is_value(object)) {
    ErrorAside aside;
    PyRef repr = PyRef::steal(PyObject_Repr(object));
    if (!repr) {
      PyErr_Clear();
      return "<value>";
    }
    std::string text = text_of(repr.get());
    if (text.size() > limit) text = text.substr(0, limit) + "...";
    return text;
  }
  if (is_tensor(object)) return type == types.parameter ? "<parameter>" : "<tensor>";
  if (PyType_Check(object)) {
    return std::string("<class ") + reinterpret_cast<PyTypeObject*>(object)->tp_name + ">";
  }
  if (PyFunction_Check(object)) {
    return "<function " + text_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname) + ">";
  }
  if (PyModule_Check(object)) {
    PyObject* name = PyDict_GetItemString(PyModule_GetDict(object), "__name__");
    return "<module " + text_of(name) + ">";
  }
  if (PyCFunction_Check(object)) {
    return std::string("<builtin ") + reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name +
           ">";
  }
  if (types.enum_meta && PyType_IsSubtype(Py_TYPE(type), types.enum_meta)) {
    PyObject** dict = _PyObject_GetDictPtr(object);
    PyObject* name = dict && *dict ? PyDict_GetItemString(*dict, "_name_") : nullptr;
    if (name) return std::string(type->tp_name) + "." + text_of(name);
  }
  return std::string("<") + type->tp_name + " object>";
}

}  // namespace fulgurite::python::watching
