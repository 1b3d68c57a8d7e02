// How the watcher sees single objects: which are compared by value and which by identity, which can
// be hashed and compared without running user code, and how one prints. Nothing here runs user
// code.
//
// A *value* is an immutable object of an exact builtin (or torch, numpy scalar) type: two equal
// ones are interchangeable. A *simple* object is a value or a function, type, module, builtin:
// something that a program can reach without reading any state.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

namespace fulgurite::python::watching {

// The types that need special treatment. Those of torch and numpy are null until the package is
// loaded.
struct KnownTypes {
  PyTypeObject* tensor_base = nullptr;
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;
  PyTypeObject* function_base = nullptr;  // torch._C._FunctionBase
  PyTypeObject* module = nullptr;         // torch.nn.Module
  PyTypeObject* size = nullptr;
  PyTypeObject* torch_values[8] = {};  // dtype, device, layout, memory_format, finfo, iinfo, ...
  PyTypeObject* numpy_generic = nullptr;
  PyTypeObject* ndarray = nullptr;
  PyTypeObject* deque = nullptr;
  PyTypeObject* partial = nullptr;
  PyTypeObject* lru_cache = nullptr;
  PyTypeObject* method_wrapper = nullptr;
  PyTypeObject* simple_namespace = nullptr;
  PyTypeObject* thread_local_ = nullptr;
  PyTypeObject* enum_meta = nullptr;
  getattrofunc slot_getattr_hook = nullptr;  // tp_getattro of a class with __getattr__
  getattrofunc slot_getattro = nullptr;      // ... with __getattribute__
};

const KnownTypes& known_types();
void load_known_types();  // called at the start of each watch; cheap once everything is there

enum class MatchBy : uint8_t {
  Identity,
  Value,
  Absent,
  Type,        // any object of the exact type `expected`: what was found goes to a slot
  Same,        // the object in another slot
  NumberType,  // a float (or an int of 64 bits) like the expected one, whatever its value
};

bool is_tensor(PyObject* object);
bool is_plain_number(PyObject* object);  // exactly an int or a float
bool is_tensor_type(PyTypeObject* type);
bool is_ndarray(PyObject* object);
bool is_deque(PyObject* object);   // not of a subclass
bool has_items(PyObject* object);  // a list or a deque, or of a subclass
bool is_value(PyObject* object, int depth = 0);
bool is_simple(PyObject* object);
// A class that Python code made or may change. (C code makes some on the heap that nobody can.)
bool is_heap_type(PyTypeObject* type);
// Whether hashing `key` and comparing it with a key of the same kind runs builtin code only.
bool is_safe_key(PyObject* key);

MatchBy match_by(PyObject* value);
// Equality of two values: same exact type and bits (-0.0 differs from 0.0, a NaN equals itself).
bool values_equal(PyObject* a, PyObject* b);
bool matches(PyObject* current, PyObject* expected, MatchBy by);

// `d[key]` (borrowed or null) without running user code and without an exception. `*unsafe` is set
// if that is not possible because of the keys in the dict.
PyObject* dict_lookup(PyObject* dict, PyObject* key, bool* unsafe);

// The next item of a set, borrowed, in the order in which they lie.
bool next_in_set(PyObject* set, Py_ssize_t* position, PyObject** item);

// The dict behind a mappingproxy (`C.__dict__`), or the object itself.
PyObject* behind_proxy(PyObject* object);

std::string describe_object(PyObject* object, size_t limit = 80);
std::string text_of(PyObject* unicode);  // "?" if it is no readable str

}  // namespace fulgurite::python::watching
