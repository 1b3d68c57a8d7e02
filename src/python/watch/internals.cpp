#include "internals.h"

#include "py_ref.h"

namespace fulgurite::python::watching {

#if PY_VERSION_HEX >= 0x030D0000

namespace {

// An empty dict: there is nothing but the places.
bool leave_empty_object(PyDictObject* dict) {
  PyDictValues* shared = dict->ma_values;
  if (shared->embedded == 0) return true;
  // (After the values, the order in which they came: a byte for each.)
  auto* own = static_cast<PyDictValues*>(
      PyMem_Calloc(1, offsetof(PyDictValues, values) + shared->capacity * sizeof(PyObject*) +
                          _Py_SIZE_ROUND_UP(shared->capacity, sizeof(PyObject*))));
  if (own == nullptr) return false;
  own->capacity = shared->capacity;
  dict->ma_values = own;
  shared->valid = 0;
  return true;
}

}  // namespace

// Of the operations of a dict, `popitem` is the one that gives it a table of its own. The last item
// goes back to its place, so neither order nor iterators notice. (A dict that only shares the keys
// is included: in such a table the tag moves even if the same value is stored again.)
bool owns_values(PyObject* dict) {
  auto* object = reinterpret_cast<PyDictObject*>(dict);
  if (object->ma_values == nullptr) return true;
  if (object->ma_used == 0) return leave_empty_object(object);
  static PyObject* popitem = PyDict_GetItemString(dict_of(&PyDict_Type), "popitem");
  const uint64_t tag = object->ma_version_tag;
  const PyRef last = PyRef::steal(PyObject_CallOneArg(popitem, dict));
  if (!last) {
    PyErr_Clear();
    return false;
  }
  // (There is room where it was.)
  if (PyDict_SetItem(dict, PyTuple_GET_ITEM(last.get(), 0), PyTuple_GET_ITEM(last.get(), 1)) < 0)
    return false;
  object->ma_version_tag = tag;  // what is in the dict is what was
  return true;
}

#endif

}  // namespace fulgurite::python::watching
