// What a call reads and writes, before it happens: what is called.
//
// Python functions are watched from inside; only their code and defaults are recorded here. C
// functions are modelled by class (callees.h), and what the classes mean is in call_effects.cpp.
// Anything else is unknown and refuses the run.
#include "call.h"

namespace fulgurite::python::watching {
namespace {

struct WrapperObject {
  PyObject ob_base;
  PyWrapperDescrObject* descriptor;
  PyObject* self;
};

PyObject* bound_self(PyObject* callable) {
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (!self || PyModule_Check(self)) return nullptr;
    std::string_view type = Py_TYPE(self)->tp_name;
    return type == "PyCapsule" || type.find("pybind11") != std::string_view::npos ? nullptr : self;
  }
  if (Py_TYPE(callable) == known_types().method_wrapper) {
    return reinterpret_cast<WrapperObject*>(callable)->self;
  }
  return nullptr;
}

// The slot behind a slot wrapper, bound or not; null for anything else.
const char* slot_name(PyObject* callable) {
  if (Py_TYPE(callable) == &PyWrapperDescr_Type) {
    return reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base->name;
  }
  if (Py_TYPE(callable) == known_types().method_wrapper) {
    return reinterpret_cast<WrapperObject*>(callable)->descriptor->d_base->name;
  }
  return nullptr;
}

// Slot wrappers (`object.__setattr__`, `dict.__getitem__` bound or not) by the slot's name.
Callee slot_wrapper(std::string_view name, PyObject* self) {
  if (name == "__getattribute__" || name == "__getattr__") return Callee::GetAttr;
  if (name == "__setattr__") return Callee::SetAttr;
  if (name == "__delattr__") return Callee::DelAttr;
  if (name == "__getitem__") return Callee::Get;
  if (name == "__setitem__") return Callee::SetItem;
  if (name == "__delitem__") return Callee::DelItem;
  if (name == "__contains__") return Callee::Contains;
  if (name == "__len__") return Callee::Length;
  if (name == "__next__") return Callee::Next;
  if (name == "__init__") {
    return self && (PyDict_Check(self) || PyList_Check(self) || PyAnySet_Check(self))
               ? Callee::Mutate
               : Callee::Pure;
  }
  if (name == "__get__") {  // of descriptors whose getters are Python code or only bind
    return self && (PyFunction_Check(self) || Py_TYPE(self) == &PyProperty_Type ||
                    Py_TYPE(self) == &PyClassMethod_Type || Py_TYPE(self) == &PyStaticMethod_Type)
               ? Callee::Pure
               : Callee::Unknown;
  }
  static constexpr std::string_view deep[] = {"__repr__", "__str__", "__format__",
                                              "__eq__",   "__ne__",  "__lt__",
                                              "__le__",   "__gt__",  "__ge__"};
  for (std::string_view known : deep) {
    if (name == known) return Callee::Deep;
  }
  static constexpr std::string_view pure[] = {
      "__iter__",     "__hash__", "__add__",   "__radd__",  "__mul__",  "__rmul__",
      "__bool__",     "__int__",  "__index__", "__float__", "__or__",   "__ror__",
      "__and__",      "__sub__",  "__neg__",   "__mod__",   "__rsub__", "__truediv__",
      "__floordiv__", "__pow__",  "__xor__",   "__abs__"};
  for (std::string_view known : pure) {
    if (name == known) return Callee::Pure;
  }
  return Callee::Unknown;
}

}  // namespace

PyRef tuple_of(const std::vector<PyObject*>& items, size_t from) {
  size_t n = items.size() > from ? items.size() - from : 0;
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(n)));
  for (size_t i = 0; i < n; ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_XNewRef(items[from + i]));
  }
  return tuple;
}

Call::Call(Recording& recording, Frame& frame, PyObject* callee, CallArguments& arguments)
    : r_(recording), frame_(frame), callee_(callee), a_(arguments.values), arguments_(arguments) {
  explicit_from_ = 0;
  if (PyObject* self = bound_self(callee)) {
    bool is_new =
        PyCFunction_Check(callee) && PyType_Check(self) &&
        std::string_view(reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name) == "__new__";
    if (!is_new) {
      a_.insert(a_.begin(), self);
      explicit_from_ = 1;
    }
  }
}

void Call::model() {
  if (!a_.empty() && a_[0]) a_[0] = behind_proxy(a_[0]);
  if (const char* slot = slot_name(callee_); slot && std::string_view(slot) == "__call__") {
    if (a_.empty() || !a_[0]) return r_.refuse("calls " + name());
    PyObject* called = a_[0];
    std::vector<PyObject*> rest(a_.begin() + 1, a_.end());
    return on_call(r_, frame_, called, {std::move(rest), arguments_.names, arguments_.keywords});
  }
  CalleeModel model = find();
  if (model.callee == Callee::Unknown && handle_objects()) return;
  if (reads_elements()) return;
  numbers(model);
  read_arguments(model.callee);
  apply(model);
}

CalleeModel Call::find() {
  if (const char* slot = slot_name(callee_)) {
    CalleeModel listed = find_callee(callee_);
    if (listed.callee != Callee::Unknown && !a_.empty() && is_tensor(a_[0])) return listed;
    return {slot_wrapper(slot, a_.empty() ? nullptr : a_[0]), ""};
  }
  if (PyCFunction_Check(callee_) &&
      std::string_view(reinterpret_cast<PyCFunctionObject*>(callee_)->m_ml->ml_name) == "__new__" &&
      PyCFunction_GET_SELF(callee_) && PyType_Check(PyCFunction_GET_SELF(callee_))) {
    return construction(reinterpret_cast<PyTypeObject*>(PyCFunction_GET_SELF(callee_)));
  }
  if (PyType_Check(callee_)) {
    CalleeModel listed = find_callee(callee_);
    if (listed.callee != Callee::Unknown) return listed;
    return construction(reinterpret_cast<PyTypeObject*>(callee_));
  }
  CalleeModel listed = find_callee(callee_);
  if (listed.callee == Callee::Unknown) listed = find_pybind_method();
  if (listed.callee == Callee::Unknown) listed = find_cython_function();
  return listed;
}

// Cython's functions (numpy.random) only say themselves what they are called: enough for a reason.
CalleeModel Call::find_cython_function() {
  if (std::string_view(Py_TYPE(callee_)->tp_name).find("cython_function") == std::string_view::npos)
    return {};
  PyRef module = PyRef::steal(PyObject_GetAttrString(callee_, "__module__"));
  PyRef qualname = PyRef::steal(PyObject_GetAttrString(callee_, "__qualname__"));
  if (!module || !qualname) PyErr_Clear();
  CalleeModel named = find_callee_by_name(text_of(module.get()) + "." + text_of(qualname.get()));
  return named.callee == Callee::Refuse ? named : CalleeModel{};
}

// pybind11's methods know their module but not their class.
CalleeModel Call::find_pybind_method() {
  if (!PyCFunction_Check(callee_) || a_.empty() || !a_[0]) return {};
  std::string method = reinterpret_cast<PyCFunctionObject*>(callee_)->m_ml->ml_name;
  PyRef interned = PyRef::steal(PyUnicode_InternFromString(method.c_str()));
  PyObject* found = _PyType_Lookup(Py_TYPE(a_[0]), interned.get());
  if (!found || !PyInstanceMethod_Check(found) || PyInstanceMethod_GET_FUNCTION(found) != callee_) {
    return {};
  }
  return find_callee_by_name(qualified_type_name(Py_TYPE(a_[0])) + "." + method);
}

// Making an instance: Python-level __init__, __new__ and __call__ are watched; the rest is that
// of the first base that is no Python class.
CalleeModel Call::construction(PyTypeObject* type) {
  r_.read_type(type, names().init);
  r_.read_type(type, names().new_);
  r_.read_type(Py_TYPE(type), names().call);
  if (PyExceptionClass_Check(reinterpret_cast<PyObject*>(type))) return {Callee::Pure, ""};
  for (PyTypeObject* base = type; base; base = base->tp_base) {
    std::string name = qualified_type_name(base);
    if (name.starts_with("class ")) continue;
    if (base == &PyBaseObject_Type) return {Callee::Free, ""};
    CalleeModel listed = find_callee_by_name(name);
    if (listed.callee == Callee::IsInstance) return {Callee::Pure, ""};  // a metaclass
    return listed;
  }
  return {};
}

// Callables that are neither functions nor types. True if nothing is left to do.
bool Call::handle_objects() {
  PyTypeObject* type = Py_TYPE(callee_);
  const KnownTypes& types = known_types();
  if (PyType_Check(callee_) || PyCFunction_Check(callee_)) return false;
  if (types.partial && PyType_IsSubtype(type, types.partial)) return call_partial();
  if (PyWeakref_CheckRef(callee_)) {
    r_.read_type_of(callee_);
    r_.read_weak_reference(callee_);
    return true;
  }
  if (type == &PyStaticMethod_Type || type == &PyInstanceMethod_Type) {
    PyObject* inner =
        *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(callee_) + sizeof(PyObject));
    on_call(r_, frame_, inner, {a_, arguments_.names, arguments_.keywords});
    return true;
  }
  if (types.lru_cache && type == types.lru_cache) return call_lru_cache();
  if (is_ours(type)) return true;  // calls through: what it runs is watched as such
  std::string name = type->tp_name;
  if (name == "operator.attrgetter" && a_.size() == 1) return call_attribute_getter(), true;
  if (name == "operator.methodcaller" && a_.size() == 1) return call_method_caller(), true;
  if (name == "operator.itemgetter" && !a_.empty()) {
    numbers({});
    r_.read_type_of(a_[0]);
    r_.read_protocol(Py_TYPE(a_[0]));
    r_.read_all(a_[0]);
    return true;
  }
  if (is_heap_type(type)) {
    r_.read_type(type, names().call);
    r_.read_type_of(callee_);
    PyObject* method = _PyType_Lookup(type, names().call);
    if (method && PyFunction_Check(method)) {
      std::vector<PyObject*> values(1, callee_);
      values.insert(values.end(), a_.begin(), a_.end());
      on_call(r_, frame_, method, {std::move(values), arguments_.names, arguments_.keywords});
      return true;
    }
  }
  // Objects of C types that can be called.
  CalleeModel listed = find_callee_by_name(qualified_type_name(type) + ".__call__");
  if (listed.callee == Callee::Unknown) return false;
  numbers(listed);
  read_arguments(listed.callee);
  apply(listed);
  return true;
}

// fulgurite's own compiled functions and bindings.
bool Call::is_ours(PyTypeObject* type) const {
  std::string name = type->tp_name;
  if (name.starts_with("fulgurite._C.")) return true;
  if (!name.starts_with("nanobind.")) return false;
  PyRef module = PyRef::steal(PyObject_GetAttrString(callee_, "__module__"));
  if (!module) PyErr_Clear();
  return module && text_of(module.get()).starts_with("fulgurite");
}

bool Call::call_partial() {
  numbers({});
  std::vector<PyObject*> values;
  PyRef parts[3];
  const char* fields[] = {"func", "args", "keywords"};
  for (int i = 0; i < 3; ++i) {
    PyRef field = PyRef::steal(PyUnicode_InternFromString(fields[i]));
    r_.read_attribute(callee_, field.get());
    parts[i] = PyRef::steal(PyObject_GetAttr(callee_, field.get()));
    if (!parts[i]) {
      PyErr_Clear();
      r_.refuse("calls a functools.partial without " + std::string(fields[i]));
      return true;
    }
    r_.read_all(parts[i].get());
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts[1].get()); ++i) {
    values.push_back(PyTuple_GET_ITEM(parts[1].get(), i));
  }
  values.insert(values.end(), a_.begin(), a_.end());
  on_call(r_, frame_, parts[0].get(), {std::move(values), arguments_.names, parts[2].get()});
  return true;
}

void Call::read_arguments(Callee callee) {
  for (PyObject* value : a_) {
    if (!value) continue;
    if (PyTuple_Check(value) && !is_value(value)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
        PyObject* item = PyTuple_GET_ITEM(value, i);
        if (PyList_Check(item) || PyDict_Check(item)) r_.read_all(item);
      }
    }
    if (!is_value(value) && !is_tensor(value) && !PyType_Check(value)) r_.read_type_of(value);
  }
  if (callee == Callee::Op || callee == Callee::Free) return;
  if (callee != Callee::Pure && callee != Callee::Deep && callee != Callee::Mutate) return;
  if (callee_ == reinterpret_cast<PyObject*>(known_types().partial)) return;  // judged when called
  for (size_t i = explicit_from_; i < a_.size(); ++i) {
    if (a_[i] && Py_TYPE(a_[i])->tp_call) read_callback(a_[i]);
  }
}

// A callable handed to C, which may call it unseen. Python code is watched when it runs; C code
// has to be audited, and without effects.
void Call::read_callback(PyObject* callback) {
  PyTypeObject* type = Py_TYPE(callback);
  if (PyFunction_Check(callback) || is_tensor(callback)) return;
  if (PyMethod_Check(callback)) return read_callback(PyMethod_GET_FUNCTION(callback));
  // A bound C method of an older object: nobody sees what it is called with.
  PyObject* self = bound_self(callback);
  bool bound = self && !PyType_Check(self) && !is_tensor(self) && !is_value(self);
  if (bound && !r_.is_born(self)) {
    return r_.refuse("passes " + qualified_name(callback) + ", bound to " + describe_object(self) +
                     ", to the C function " + name());
  }
  const KnownTypes& types = known_types();
  if (bound) return;
  if (PyType_Check(callback)) {
    auto* class_ = reinterpret_cast<PyTypeObject*>(callback);
    Callee callee = find_callee(callback).callee;
    if (callee == Callee::Unknown) callee = construction(class_).callee;
    if (harmless(callee)) return;
  } else if (PyCFunction_Check(callback) || type == &PyMethodDescr_Type) {
    if (harmless(find_callee(callback).callee)) return;
  } else if (const char* slot = slot_name(callback)) {
    if (harmless(slot_wrapper(slot, nullptr))) return;
  } else if (types.partial && PyType_IsSubtype(type, types.partial)) {
    PyRef function = PyRef::steal(PyObject_GetAttrString(callback, "func"));
    if (!function) PyErr_Clear();
    for (const char* field : {"func", "args", "keywords"}) {
      PyRef interned = PyRef::steal(PyUnicode_InternFromString(field));
      r_.read_attribute(callback, interned.get());
      PyRef part = PyRef::steal(PyObject_GetAttr(callback, interned.get()));
      if (!part) PyErr_Clear();
      if (part) r_.read_all(part.get(), true);
    }
    if (function) return read_callback(function.get());
  } else if (std::string_view(type->tp_name) == "operator.itemgetter") {
    return;
  } else if (std::string_view(type->tp_name) == "operator.attrgetter") {
    if (read_getter_over_items(callback)) return;
  } else if (std::string_view(type->tp_name) == "functools.KeyWrapper") {
    std::vector<PyObject*> behind;  // the function to compare with
    auto collect = [](PyObject* one, void* found) {
      static_cast<std::vector<PyObject*>*>(found)->push_back(one);
      return 0;
    };
    type->tp_traverse(callback, collect, &behind);
    for (PyObject* one : behind) {
      if (!PyType_Check(one)) read_callback(one);
    }
    return;
  } else if (is_heap_type(type)) {
    PyObject* method = _PyType_Lookup(type, names().call);
    if (method && PyFunction_Check(method)) return;
  }
  r_.refuse("passes " + qualified_name(callback) + " to the C function " + name());
}

bool Call::harmless(Callee callee) {
  switch (callee) {
    case Callee::Pure:
    case Callee::Deep:
    case Callee::Free:
    case Callee::Op:
    case Callee::Length:
    case Callee::IsInstance:
    case Callee::Contains:
    case Callee::Get:
      return true;
    default:
      return false;
  }
}

void on_c_call(Recording& recording, Frame& frame, PyObject* callee, CallArguments& arguments) {
  Call(recording, frame, callee, arguments).model();
}

void on_call(Recording& recording, Frame& frame, PyObject* callee, CallArguments arguments) {
  if (PyMethod_Check(callee)) {
    arguments.values.insert(arguments.values.begin(), PyMethod_GET_SELF(callee));
    return on_call(recording, frame, PyMethod_GET_FUNCTION(callee), std::move(arguments));
  }
  if (PyFunction_Check(callee)) {
    frame.pending = Pending::Nothing;
    frame.callee = PyRef();
    recording.read_function(callee);
    const size_t names = arguments.names ? PyTuple_GET_SIZE(arguments.names) : 0;
    recording.given = {callee, arguments.values.size() - names, arguments.names,
                       arguments.keywords};
    return;
  }
  frame.pending = Pending::Call;
  frame.callee = PyRef::borrow(callee);
  on_c_call(recording, frame, callee, arguments);
}

}  // namespace fulgurite::python::watching
