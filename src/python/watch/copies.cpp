// object.__reduce_ex__, through which copy.copy and copy.deepcopy see an object; the rest of them
// is Python code, which is watched.
#include "call.h"

#include <string_view>

namespace fulgurite::python::watching {
namespace {

PyRef interned(const char* text) { return PyRef::steal(PyUnicode_InternFromString(text)); }

PyObject* found_in(PyTypeObject* type, const char* name) {
  return _PyType_Lookup(type, interned(name).get());
}

// Of builtin containers whose own __reduce__ gives their items.
bool gives_its_items(PyObject* object, PyObject* reduce) {
  if (Py_TYPE(reduce) != &PyMethodDescr_Type) return false;
  PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(reduce)->d_type;
  const KnownTypes& types = known_types();
  return owner == &PyODict_Type || owner == &PySet_Type || owner == &PyFrozenSet_Type ||
         owner == types.deque || (owner == types.simple_namespace && Py_TYPE(object) == owner) ||
         std::string_view(owner->tp_name) == "collections.defaultdict";
}

}  // namespace

// What object.__getstate__ gives: the instance dict itself, and the slots.
void Call::read_state(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  r_.read_type(type, "__slotnames__");
  if (PyObject* dict = r_.instance_dict(object)) {
    r_.know(dict, kNoParent);  // `__reduce__` was read from the object
    r_.read_length(dict);
  }
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!is_heap_type(base)) continue;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict_of(base), &position, &key, &value))
      if (Py_TYPE(value) == &PyMemberDescr_Type) r_.read_attribute(object, key);
  }
}

void Call::reduce() {
  PyObject* object = argument(0);
  PyObject* protocol = argument(1);
  auto refuse = [&] {
    r_.refuse("calls " + name() + ": pickles or copies objects by their state");
  };
  if (object == nullptr || protocol == nullptr || !PyLong_CheckExact(protocol) ||
      PyLong_AsLong(protocol) < 2 || is_tensor(object) || PyType_Check(object))
    return refuse();
  PyTypeObject* type = Py_TYPE(object);
  for (const char* name : {"__reduce__", "__getstate__"})
    r_.read_attribute(object, interned(name).get());
  for (const char* name : {"__getnewargs__", "__getnewargs_ex__"}) r_.read_type(type, name);
  if (is_value(object)) return;  // a dtype, a device
  PyObject* made = found_in(type, "__reduce__");
  if (made == nullptr) return refuse();
  if (PyFunction_Check(made)) return;  // Python code does it, watched
  PyObject* state = found_in(type, "__getstate__");
  const bool plain_state = state == found_in(&PyBaseObject_Type, "__getstate__");
  const bool is_list = PyList_Check(object), is_dict = PyDict_Check(object);
  const bool by_items = gives_its_items(object, made);
  const bool is_plain = made == found_in(&PyBaseObject_Type, "__reduce__") && is_heap_type(type) &&
                        found_in(type, "__getnewargs__") == nullptr &&
                        found_in(type, "__getnewargs_ex__") == nullptr;
  PyTypeObject* base = type;
  while (is_heap_type(base)) base = base->tp_base;
  const bool known_base =
      base == &PyBaseObject_Type || base == &PyList_Type || base == &PyDict_Type;
  if (!by_items && !(is_plain && known_base)) return refuse();
  if (!plain_state && !(state != nullptr && PyFunction_Check(state))) return refuse();
  if (plain_state) read_state(object);
  if (by_items || is_list || is_dict) {
    r_.read_protocol(type);
    r_.read_type(type, "items");
    r_.read_all(object);
    PyRef factory = interned("default_factory");  // of a defaultdict
    if (_PyType_Lookup(type, factory.get()) != nullptr) r_.read_attribute(object, factory.get());
  }
  PyObject* copyreg = PyDict_GetItemString(PyImport_GetModuleDict(), "copyreg");
  if (copyreg != nullptr) r_.read_attribute(copyreg, interned("__newobj__").get());
}

}  // namespace fulgurite::python::watching
