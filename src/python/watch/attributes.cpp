// Attribute access, emulated: what `object.name` will look at, and what storing into it changes.
//
// The order is CPython's: the type's attribute if it is a data descriptor, the instance dict, the
// type's attribute, __getattr__. Python code along the way (properties, __getattr__, __setattr__)
// runs in watched frames of its own and needs nothing here beyond the look-up of itself.
#include "internals.h"

#include <structmember.h>

#include <array>
#include <string_view>

#include "call.h"
#include "callees.h"
#include "recording.h"

namespace fulgurite::python::watching {

namespace {

struct ModuleObject {  // the head of Objects/moduleobject.c's struct
  PyObject ob_base;
  PyObject* dict;
};
struct SuperObject {
  PyObject ob_base;
  PyTypeObject* type;
  PyObject* object;
  PyTypeObject* object_type;
};

// Tensor attributes that show memory or history instead of a value or metadata.
constexpr std::array<std::string_view, 8> kOpaqueTensorAttributes = {"_cdata",
                                                                     "_version",
                                                                     "__cuda_array_interface__",
                                                                     "_backward_hooks",
                                                                     "_post_accumulate_grad_hooks",
                                                                     "name",
                                                                     "_base",
                                                                     "volatile"};

bool is_opaque_tensor_attribute(const std::string& name) {
  for (std::string_view opaque : kOpaqueTensorAttributes) {
    if (name == opaque) return true;
  }
  return false;
}

bool tells_of_gradients(std::string_view name) {
  return name == "requires_grad" || name == "is_leaf" || name == "grad_fn" || name == "_grad_fn" ||
         name == "output_nr" || name == "retains_grad";
}

// Whether `__get__` of this type of descriptor is Python code, which is watched.
bool has_python_getter(PyTypeObject* kind) {
  if (!is_heap_type(kind)) return false;
  PyRef name = PyRef::steal(PyUnicode_InternFromString("__get__"));
  PyObject* get = _PyType_Lookup(kind, name.get());
  return get && PyFunction_Check(get);
}

// Descriptors without a setter whose `__get__` only binds.
bool only_binds(PyTypeObject* kind) {
  return kind == &PyFunction_Type || kind == &PyMethodDescr_Type || kind == &PyWrapperDescr_Type ||
         kind == &PyClassMethodDescr_Type || kind == &PyStaticMethod_Type ||
         kind == &PyClassMethod_Type || kind == &PyInstanceMethod_Type || kind == &PyMethod_Type ||
         kind == known_types().lru_cache || kind == &PyCFunction_Type;
}

// Otherwise looking up a name in the class may run the `__eq__` of another one.
bool names_are_texts(PyTypeObject* type) {
  for (Py_ssize_t i = 0; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (is_heap_type(base) && base->tp_dict && !has_only_str_keys(base->tp_dict)) return false;
  }
  return true;
}

bool has_plain_getattr(PyTypeObject* type) { return type->tp_getattro == PyObject_GenericGetAttr; }

}  // namespace

PyObject* Recording::instance_dict(PyObject* object) {
  if (Py_TYPE(object)->tp_dictoffset == 0) return nullptr;
  ErrorAside aside;
  PyObject** address = _PyObject_GetDictPtr(object);
  if (!address || !*address) return nullptr;
  // A dict made during the run for an older object is older state in a new place.
  if (born_->contains(block_of(*address)) && !not_born_.count(*address) && !is_born(object)) {
    not_born_.emplace(*address, version_of(*address));
    keep(*address);
  }
  return *address;
}

void Recording::read_super_attribute(PyObject* object, PyObject* name) {
  auto* super = reinterpret_cast<SuperObject*>(object);
  if (super->object_type) read_after(super->object_type, super->type, name);
}

// What super(start, object).name finds.
void Recording::read_inherited(PyTypeObject* start, PyObject* object, PyObject* name) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), start))
    type = reinterpret_cast<PyTypeObject*>(object);
  if (!PyType_IsSubtype(type, start))
    return refuse("looks up an attribute by super() for an object that claims its class");
  read_after(type, start, canonical(name));
}

// The attribute of the first class after `start` in the order of `type`.
void Recording::read_after(PyTypeObject* type, PyTypeObject* start, PyObject* name) {
  read_type(type, name);
  read_mro(type);
  PyObject* mro = type->tp_mro;
  bool after = false;
  for (Py_ssize_t i = 0; mro && i < PyTuple_GET_SIZE(mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (after) {
      read_type(base, name);
      PyObject* dict = dict_of(base);
      if (PyObject* found = dict ? dict_lookup(dict, name, nullptr) : nullptr) {
        know(found, kNoParent);
        read_descriptor(found);
        return;
      }
    }
    if (base == start) after = true;
  }
}

// Metadata is the caller's to guard; what the program put on a tensor in Python is ours.
void Recording::read_tensor_attribute(PyObject* tensor, PyObject* name) {
  PyTypeObject* type = Py_TYPE(tensor);
  read_type(type, names().getattribute);
  read_type(type, name);
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (name == names().grad || text_of(name) == "_grad") tensor_grad_read(tensor);
  if (text_of(name) == "data") alias(tensor);
  if (descriptor && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
    std::string text = text_of(name);
    if (tells_of_gradients(text)) asked_for_gradients_ = true;
    if (is_opaque_tensor_attribute(text) && !is_born(tensor)) {
      refuse("reads " + path(tensor) + "." + text + ", which is no property of its value");
    }
    return;
  }
  if (descriptor) {
    know(descriptor, kNoParent);
    read_descriptor(descriptor);
    if (Py_TYPE(descriptor)->tp_descr_set) return;
  }
  if (is_born(tensor)) return;
  PyObject* dict = instance_dict(tensor);
  if (is_argument(tensor)) {
    // The caller guards that argument tensors have no instance dict; with one, we cannot.
    if (dict && PyDict_Check(dict) && dict_lookup(dict, name, nullptr)) {
      refuse("reads the Python attribute " + text_of(name) + " of an argument tensor");
    }
    return;
  }
  if (_PyObject_GetDictPtr(tensor) && !has_fact(FactKind::InstanceDict, tensor, nullptr)) {
    if (!was_written(tensor, names().dict)) {
      add_fact(FactKind::InstanceDict, tensor, nullptr, dict, MatchBy::Identity);
    }
  }
  if (dict) read_dict(dict, name);
}

// Attributes that C code computes are read again by every check, which is right only where the C
// code is known to have no effects. Refuses the run and returns false otherwise.
bool Recording::require_audited_attribute(PyObject* object, PyObject* name, PyObject* descriptor) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  bool is_getset = kind == &PyGetSetDescr_Type;
  PyTypeObject* owner =
      is_getset ? reinterpret_cast<PyDescrObject*>(descriptor)->d_type : Py_TYPE(object);
  std::string type = qualified_type_name(owner);
  // The builtin types, and the `__dict__` and `__weakref__` of Python classes.
  if (is_getset && (type.find('.') == std::string::npos || type.starts_with("class "))) return true;
  if (is_getset && PyExceptionInstance_Check(object)) return true;
  if (find_callee_by_name(type + "." + text_of(name)).callee == Callee::Pure) return true;
  refuse("reads " + describe_object(object) + "." + text_of(name) +
         ", a C attribute that is not audited");
  return false;
}

// True if the descriptor decides what the access gives.
bool Recording::read_data_descriptor(PyObject* object, PyObject* name, PyObject* descriptor) {
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (!kind->tp_descr_set) return false;
  if (kind == &PyProperty_Type) {
    PyRef getter = PyRef::steal(PyObject_GetAttrString(descriptor, "fget"));
    // A Python getter runs in a watched frame; one in C (pybind11's properties) is not seen.
    if (getter && !PyFunction_Check(getter.get()) && !needs_no_fact(object)) {
      require_audited_attribute(object, name, descriptor);
    }
    if (!getter) PyErr_Clear();
    return true;
  }
  if (kind != &PyMemberDescr_Type && kind != &PyGetSetDescr_Type) {
    if (!has_python_getter(kind) && !PyTuple_Check(object) && !needs_no_fact(object)) {
      require_audited_attribute(object, name, descriptor);
    }
    return true;
  }
  if (needs_no_fact(object) || was_written(object, name)) return true;
  if (kind == &PyGetSetDescr_Type && !require_audited_attribute(object, name, descriptor)) {
    return true;
  }
  if (kind == &PyGetSetDescr_Type && name == names().class_) {
    read_type_of(object);
    return true;
  }
  if (name == names().dict && PyType_Check(object))
    return true;  // reading the mappingproxy refuses
  if (kind == &PyGetSetDescr_Type && name == names().dict) {
    if (PyObject* dict = instance_dict(object)) {
      if (!has_fact(FactKind::InstanceDict, object, nullptr)) {
        add_fact(FactKind::InstanceDict, object, nullptr, dict, MatchBy::Identity);
      }
      know(dict, kNoParent);
      return true;
    }
  }
  FactKind fact_kind = kind == &PyMemberDescr_Type ? FactKind::Slot : FactKind::Getset;
  if (has_fact(fact_kind, object, name)) return true;
  PyRef value = PyRef::steal(fact_kind == FactKind::Slot ? slot_value(object, descriptor)
                                                         : getset_value(object, descriptor));
  if (value && fact_kind == FactKind::Getset && !is_value(value.get()) && is_born(value.get())) {
    refuse("reads " + describe_object(object) + "." + text_of(name) +
           ", which C code computes anew each time");
    return true;
  }
  Fact& fact = add_fact(fact_kind, object, name, value.get(), match_by(value.get()));
  fact.extra = PyRef::borrow(descriptor);
  return true;
}

void Recording::read_attribute(PyObject* object, PyObject* name, bool generic) {
  name = canonical(name);
  PyTypeObject* type = Py_TYPE(object);
  if (!names_are_texts(type) ||
      (PyType_Check(object) && !names_are_texts(reinterpret_cast<PyTypeObject*>(object))))
    return refuse("looks up an attribute in a class in which not all names are texts");
  if (PyModule_Check(object) && !generic) {
    PyObject* dict = reinterpret_cast<ModuleObject*>(object)->dict;
    read_type_of(object);
    if (!PyModule_CheckExact(object)) {  // a module class of its own: torch._VF, torch.ops, ...
      read_type(type, names().getattribute);
      read_type(type, name);
    }
    if (dict && !read_dict(dict, name)) {
      const bool has_hook = read_dict(dict, names().getattr) != nullptr;
      if (!has_hook && kErrorsNameFiles) read_dict(dict, names().spec);
      if (is_heap_type(type)) read_type(type, names().getattr);
    }
    return;
  }
  if (PyType_Check(object)) {
    auto* self = reinterpret_cast<PyTypeObject*>(object);
    read_type_of(object);
    read_type(type, names().getattribute);
    read_type(type, name);
    read_type(self, name);
    // `__name__`, `__bases__` and the like belong to the metaclass.
    PyObject* meta = _PyType_Lookup(type, name);
    if (meta) read_descriptor(meta);
    if (meta && is_heap_type(self) && Py_TYPE(meta)->tp_descr_set && !is_born(object)) {
      read_data_descriptor(object, name, meta);
    }
    if (PyObject* found = _PyType_Lookup(self, name)) {
      know(found, kNoParent);
      read_descriptor(found);
    } else {
      read_type(type, names().getattr);
    }
    return;
  }
  if (type == &PyFrame_Type) return refuse("looks into a frame");
  if (type == &PySuper_Type) return read_super_attribute(object, name);
  if (is_tensor_type(type)) return read_tensor_attribute(object, name);
  if (type == known_types().thread_local_) return read_thread_local(object, name);

  bool free = needs_no_fact(object);
  if (!generic) read_type(type, names().getattribute);
  read_type(type, name);
  read_type_of(object);
  PyObject* descriptor = _PyType_Lookup(type, name);
  if (!has_plain_getattr(type) && !generic) {
    if (type->tp_getattro == known_types().slot_getattr_hook ||
        type->tp_getattro == known_types().slot_getattro) {
      PyObject* hook = _PyType_Lookup(type, names().getattribute);
      if (hook && PyFunction_Check(hook)) return;  // Python code decides, watched
    } else if (!free && !is_simple(object) && !PyMethod_Check(object)) {
      refuse("reads an attribute of a " + std::string(type->tp_name) +
             ", whose C type has its own rules");
    }
  }
  if (PyMethod_Check(object) && (!descriptor || Py_TYPE(descriptor) == &PyGetSetDescr_Type)) {
    return read_attribute(PyMethod_GET_FUNCTION(object), name);  // passed on to the function
  }
  if (descriptor) {
    know(descriptor, kNoParent);
    read_descriptor(descriptor);
    if (read_data_descriptor(object, name, descriptor)) return;
    PyTypeObject* kind = Py_TYPE(descriptor);
    if (kind->tp_descr_get && !only_binds(kind) && !has_python_getter(kind) && !free) {
      require_audited_attribute(object, name, descriptor);
    }
  }
  if (free) return;
  if (type->tp_dictoffset != 0) {
    PyObject* dict = instance_dict(object);
    if (!has_fact(FactKind::InstanceDict, object, nullptr) && _PyObject_GetDictPtr(object) &&
        !was_written(object, names().dict)) {
      add_fact(FactKind::InstanceDict, object, nullptr, dict, MatchBy::Identity);
    }
    if (dict && read_dict(dict, name)) return;
  }
  if (!descriptor) read_type(type, names().getattr);
}

void Recording::write_tensor_attribute(PyObject* tensor, PyObject* name, PyObject* value) {
  read_type(Py_TYPE(tensor), name);
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(tensor), name);
  if (descriptor && Py_TYPE(descriptor) == &PyProperty_Type) return;  // its setter is watched
  std::string text = text_of(name);
  if (text == "grad") grad_access(tensor);
  if (text == "_backward_hooks" || text == "_post_accumulate_grad_hooks") {
    refuse("registers a hook on a tensor");
  }
  if (!is_born(tensor)) {
    mark_written(tensor, name);
    mark_written(tensor, names().dict);
    if (PyObject* dict = instance_dict(tensor)) mark_written(dict, canonical(name));
  }
  effect(EffectKind::TensorAttr, tensor, name, value,
         std::string(value ? "sets " : "deletes ") + path(tensor) + "." + text_of(name));
}

// `generic`: through object.__setattr__, past any __setattr__ of the class. A null value deletes.
void Recording::write_attribute(PyObject* object, PyObject* name, PyObject* value, bool generic) {
  PyTypeObject* type = Py_TYPE(object);
  EffectKind kind = value ? EffectKind::SetAttr : EffectKind::DelAttr;
  if (is_tensor_type(type)) return write_tensor_attribute(object, name, value);
  if (type == known_types().thread_local_ && !is_born(object))
    return refuse("changes a threading.local");
  if (!PyType_Check(object)) {
    PyObject* hook_name = value ? names().setattr : names().delattr;
    if (!generic) {
      read_type(type, hook_name);
      PyObject* hook = _PyType_Lookup(type, hook_name);
      if (hook && PyFunction_Check(hook)) return;  // Python code decides, watched
    }
    read_type(type, name);
    PyObject* descriptor = _PyType_Lookup(type, name);
    if (descriptor) read_descriptor(descriptor);
    if (descriptor && Py_TYPE(descriptor)->tp_descr_set) {
      PyTypeObject* descriptor_type = Py_TYPE(descriptor);
      if (descriptor_type == &PyProperty_Type) return;  // its setter is watched
      PyObject* set =
          is_heap_type(descriptor_type)
              ? _PyType_Lookup(descriptor_type,
                               PyRef::steal(PyUnicode_InternFromString("__set__")).get())
              : nullptr;
      if (set && PyFunction_Check(set)) return;
    }
  }
  if (FunctionWatch::is_context(object)) {
    PyObject* descriptor = _PyType_Lookup(type, name);
    if (descriptor && Py_TYPE(descriptor)->tp_descr_set)
      return functions.note(object, text_of(name), value);
  }
  if (is_born(object)) return;
  if (PyType_Check(object) &&
      PyType_HasFeature(reinterpret_cast<PyTypeObject*>(object), Py_TPFLAGS_IMMUTABLETYPE))
    return;  // raises
  name = canonical(name);
  if (!value && !PyType_Check(object)) read_attribute(object, name, true);  // that it was there
  PyObject* dict = PyModule_Check(object) ? reinterpret_cast<ModuleObject*>(object)->dict
                   : PyType_Check(object) ? nullptr
                                          : instance_dict(object);
  if (dict && name != names().class_ && is_no_change(dict_lookup(dict, name, nullptr), value)) {
    if (!PyModule_Check(object) && !has_fact(FactKind::InstanceDict, object, nullptr)) {
      add_fact(FactKind::InstanceDict, object, nullptr, dict, MatchBy::Identity);
    }
    stores_the_same(dict, name, value);
    return;
  }
  if (PyModule_Check(object)) {
    mark_written(reinterpret_cast<ModuleObject*>(object)->dict, name);
  } else if (PyType_Check(object)) {
    mark_written(object, name);
  } else {
    if (dict) mark_written(dict, name);
    mark_written(object, name);
    // The first attribute of an object without a dict makes one.
    if (!instance_dict(object)) mark_written(object, names().dict);
    if (name == names().class_ || name == names().dict) {
      refuse(std::string("replaces ") + path(object) + "." + text_of(name));
    }
  }
  effect(kind, object, name, value,
         std::string(value ? "sets " : "deletes ") + path(object) + "." + text_of(name));
}

}  // namespace fulgurite::python::watching
