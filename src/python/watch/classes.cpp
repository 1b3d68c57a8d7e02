// Which facts the reads of classes and functions leave behind.
#include "internals.h"

#include <utility>
#include <vector>

#include "recording.h"

namespace fulgurite::python::watching {

void Recording::read_type(PyTypeObject* type, PyObject* name) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  if (!is_heap_type(type) || has_fact(FactKind::TypeAttribute, object, name)) return;
  if (was_written(object, name)) return;
  if (is_born(object)) {  // what it inherits is older
    for (Py_ssize_t i = 0; type->tp_bases && i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
      read_type(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)), name);
    }
    return;
  }
  PyObject* found = _PyType_Lookup(type, name);
  add_fact(FactKind::TypeAttribute, object, name, found, match_by(found));
}

void Recording::read_type(PyTypeObject* type, const char* name) {
  if (!is_heap_type(type)) return;
  PyRef interned = PyRef::steal(PyUnicode_InternFromString(name));
  read_type(type, interned.get());
}

void Recording::read_mro(PyTypeObject* type) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  if (!is_heap_type(type) || has_fact(FactKind::Mro, object, nullptr)) return;
  if (is_born(object)) {
    for (Py_ssize_t i = 0; type->tp_bases && i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
      read_mro(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)));
    }
    return;
  }
  add_fact(FactKind::Mro, object, nullptr, type->tp_mro, MatchBy::Identity);
}

void Recording::read_instance_check(PyObject* object, PyObject* type) {
  read_type_of(object);
  read_mro(Py_TYPE(object));
  if (PyType_Check(object)) {
    read_mro(reinterpret_cast<PyTypeObject*>(object));
  } else {
    read_type(Py_TYPE(object), names().class_);
    read_type(Py_TYPE(object), names().getattribute);
  }
  read_type_of(type);
  read_type(Py_TYPE(type), names().instancecheck);
  read_type(Py_TYPE(type), names().subclasscheck);
}

// Answers about abstract base classes are cached, and the token counts registrations.
void Recording::read_abc_token() {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_abc");
  PyRef function =
      module ? PyRef::steal(PyObject_GetAttrString(module, "get_cache_token")) : PyRef();
  PyRef token = function ? PyRef::steal(PyObject_CallNoArgs(function.get())) : PyRef();
  if (!token) {
    PyErr_Clear();
    return refuse("asks an abstract base class");
  }
  PyRef none = PyRef::steal(PyTuple_New(0));
  read_call_result(function.get(), none.get(), token.get());
}

void Recording::read_base_class(PyObject* base) {
  PyTypeObject* type = Py_TYPE(base);
  read_type_of(base);
  if (!PyType_Check(base)) return read_type(type, "__mro_entries__");
  read_type(reinterpret_cast<PyTypeObject*>(base), "__init_subclass__");
  read_type(type, "__prepare__");
  for (PyObject* name : {names().new_, names().init, names().call}) read_type(type, name);
}

void Recording::read_descriptor(PyObject* found) {
  PyTypeObject* type = Py_TYPE(found);
  if (!is_heap_type(type) || is_tensor_type(type)) return;
  read_type_of(found);
  for (PyObject* name : {names().get, names().set, names().delete_}) read_type(type, name);
}

void Recording::read_key(PyObject* key) {
  pin(key);
  if (is_simple(key) && !PyType_Check(key)) return;
  if (PyTuple_Check(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) read_key(PyTuple_GET_ITEM(key, i));
  }
  PyTypeObject* type = Py_TYPE(key);
  if (!is_heap_type(type) || is_tensor_type(type)) return;
  read_type_of(key);
  for (PyObject* name : {names().hash, names().eq}) read_type(type, name);
}

// A class that the run itself changes is read name by name.
void Recording::read_special_methods(PyTypeObject* type, bool operators) {
  PyObject* object = reinterpret_cast<PyObject*>(type);
  if (partly_written_.count(object)) {
    for (PyObject* name : special_names(operators)) read_type(type, name);
    return;
  }
  PyRef found = special_methods(type, operators);
  PyRef label = PyRef::steal(PyBool_FromLong(operators));
  add_fact(FactKind::Protocol, object, label.get(), found.get(), MatchBy::Identity).number =
      operators ? 1 : 0;
}

void Recording::read_protocol(PyTypeObject* type, bool arithmetic) {
  if (!is_heap_type(type)) return;
  if (is_born(reinterpret_cast<PyObject*>(type))) {
    for (Py_ssize_t i = 0; type->tp_bases && i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
      read_protocol(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)),
                    arithmetic);
    }
    return;
  }
  if (arithmetic && operators_.insert(type).second) read_special_methods(type, true);
  if (!protocols_.insert(type).second) return;
  keep(reinterpret_cast<PyObject*>(type));
  read_special_methods(type, false);
  read_mro(type);
}

void Recording::read_type_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!is_heap_type(type) && !PyModule_Check(object)) return;  // the class of others cannot change
  if (needs_no_fact(object) || is_tensor(object)) return;
  if (has_fact(FactKind::TypeOf, object, nullptr)) return;
  add_fact(FactKind::TypeOf, object, nullptr, reinterpret_cast<PyObject*>(type), MatchBy::Identity);
}

void Recording::read_function(PyObject* object) {
  if (is_born(object) || has_fact(FactKind::FunctionCode, object, nullptr)) return;
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  {
    Fact& fact =
        add_fact(FactKind::FunctionCode, object, nullptr, function->func_code, MatchBy::Identity);
    fact.key = PyRef::borrow(function->func_kwdefaults);
    fact.extra = PyRef::borrow(function->func_defaults);
    auto* code = reinterpret_cast<PyCodeObject*>(function->func_code);
    constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
    // These take their defaults when they are called, and begin later.
    if ((code->co_flags & kSuspends) != 0) {
      fact.number = kAllDefaults;
      if (function->func_kwdefaults) read_all(function->func_kwdefaults);
    }
  }
  know(object, kNoParent);
}

void Recording::read_defaults(PyObject* object, const _PyInterpreterFrame* frame) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  PyCodeObject* code = code_of(frame);
  const Given call = std::exchange(given, {});
  auto taken = [&](int parameter, PyObject* standard) {
    PyObject* value = frame->localsplus[parameter];
    if (value && value != standard && PyCell_Check(value)) value = PyCell_GET(value);
    if (value != standard) return false;
    // The same object may have been given. Who called is known unless C code did.
    if (call.function != object) return true;
    if (static_cast<size_t>(parameter) < call.positional && parameter < code->co_argcount)
      return false;
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, parameter);
    for (Py_ssize_t i = 0; call.names && i < PyTuple_GET_SIZE(call.names); ++i)
      if (values_equal(PyTuple_GET_ITEM(call.names, i), name)) return false;
    return !call.keywords || !dict_lookup(call.keywords, name, nullptr);
  };
  PyObject* defaults = function->func_defaults;
  auto it = index_.find({static_cast<int>(FactKind::FunctionCode), object, nullptr});
  if (defaults && it != index_.end()) {
    const Py_ssize_t count = PyTuple_GET_SIZE(defaults);
    for (Py_ssize_t i = 1; i <= count && i <= code->co_argcount; ++i) {
      if (taken(code->co_argcount - static_cast<int>(i), PyTuple_GET_ITEM(defaults, count - i)))
        facts_[static_cast<size_t>(it->second)].number |=
            i < 63 ? Py_ssize_t{1} << i : kAllDefaults;
    }
  }
  PyObject* named = function->func_kwdefaults;
  for (int i = 0; named && i < code->co_kwonlyargcount; ++i) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, code->co_argcount + i);
    PyObject* standard = dict_lookup(named, name, nullptr);
    if (standard && taken(code->co_argcount + i, standard)) read_dict(named, name);
  }
}

}  // namespace fulgurite::python::watching
