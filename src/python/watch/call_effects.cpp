// What a call reads and writes, before it happens: the classes of callees.h, one by one.
#include "call.h"

#include <cstring>

#include "streams.h"

namespace fulgurite::python::watching {

void Call::apply(const CalleeModel& model) {
  if (r_.follows_any()) pin_arguments(model.callee);
  PyObject* first = argument(0);
  PyObject* second = argument(1);
  switch (model.callee) {
    case Callee::Free:
      return;
    case Callee::Pure:
      if (a_.size() > 2 && is_called("__build_class__")) {
        read_base_classes(std::span(a_).subspan(2));
      }
      return read_values(false);
    case Callee::Op:  // torch.tensor reads lists of lists
      return read_values(true, 0, /*is_operator=*/true);
    case Callee::Deep:
      return read_values(!passes_items_to_python());
    case Callee::Format:
      if (reads_fields(first)) {
        return r_.refuse("formats " + describe_object(first) +
                         ", whose fields read attributes or items in C");
      }
      return read_values(true);
    case Callee::Query:
      if (arguments_.has_keywords() || !frame_.frame) {
        return r_.refuse("calls " + name() + " directly or with keywords");
      }
      frame_.pending = Pending::Query;
      frame_.arguments = tuple_of(a_, explicit_from_);
      return;
    case Callee::Get:
      if (!first || !second) return;
      if (PyDict_Check(first)) {
        r_.read_dict(first, second);
      } else if (has_items(first)) {
        r_.read_list_item(first, second);
      } else {
        r_.read_all(first);
      }
      return;
    case Callee::Contains:
      if (first && second) r_.read_contains(first, second);
      return;
    case Callee::SetDefault:
      if (first && second && PyDict_Check(first) && !r_.read_dict(first, second)) mutate_key();
      return;
    case Callee::Pop:
      if (first && second && PyDict_Check(first) && r_.read_dict(first, second)) mutate_key();
      return;
    case Callee::Update:
      return update();
    case Callee::SetItem:
      if (a_.size() >= 3 && !is_tensor(first)) r_.write_item(first, second, a_[2]);
      return;
    case Callee::DelItem:
      if (first && second) r_.write_item(first, second, nullptr);
      return;
    case Callee::Mutate:
      if (!first) return;
      if (is_tensor(first)) return;
      // What is being printed is marked, and the mark taken away again.
      if (frame_.copies && PyAnySet_Check(first) && !r_.is_born(first)) return;
      read_values(false, 1);
      if ((PyList_CheckExact(first) || is_deque(first)) && method_name() == "append" &&
          a_.size() == 2 && !r_.is_born(first)) {
        return r_.append(first, tuple_of(a_, 1).get());
      }
      if (compares_items() && !passes_items_to_python()) r_.read_all(first, /*deep=*/true);
      if (!r_.is_born(first) && !changes_nothing(first, second))
        r_.mutate(first, method_name(), tuple_of(a_, 1).get());
      return;
    case Callee::GetAttr:
      if (first && second && PyUnicode_Check(second)) {
        r_.read_attribute(first, second, is_slot_wrapper());
      }
      return;
    case Callee::SetAttr:
      if (a_.size() >= 3 && PyUnicode_Check(second)) {
        r_.write_attribute(first, second, a_[2], is_slot_wrapper());
      }
      return;
    case Callee::DelAttr:
      if (first && second && PyUnicode_Check(second)) {
        r_.write_attribute(first, second, nullptr, is_slot_wrapper());
      }
      return;
    case Callee::Length:
      if (!first) return;
      r_.read_type(Py_TYPE(first), names().len);
      if (is_tensor(first)) return;
      r_.read_length(first);
      return;
    case Callee::Next:
      if (!first) return;
      r_.read_type(Py_TYPE(first), names().next);
      if (!r_.is_born(first) && !is_python_iterator(first)) {
        r_.refuse("advances an iterator that was made before the call");
      }
      return;
    case Callee::IsInstance:
      return is_instance();
    case Callee::AbcCheck:
      if (second && !PyType_Check(second)) r_.read_type_of(second);
      return r_.read_abc_token();
    case Callee::Id:
      return take_id(first);
    case Callee::Super:
      return;
    case Callee::Scope:
      return read_scope();
    case Callee::Reduce:
      return reduce();
    case Callee::CellGet:
      if (first) r_.read_context_variable(first);
      return;
    case Callee::CellSet:
      if (first) r_.write_context_variable(first);
      return;
    case Callee::Backward:
      if (!accumulates()) return read_values(false);
      r_.effect(EffectKind::Backward, nullptr, nullptr, tuple_of(a_, explicit_from_).get(),
                "runs backward(), which accumulates into the .grad of leaf tensors");
      return;
    case Callee::TensorAttr: {
      PyRef interned = PyRef::steal(PyUnicode_InternFromString(model.reason));
      if (!first) return;
      r_.effect(EffectKind::TensorAttr, first, interned.get(), second ? second : Py_True,
                "sets " + r_.path(first) + "." + model.reason);
      return;
    }
    case Callee::GradFunction:
      r_.note_gradients_asked_for();  // ctx.needs_input_grad
      return apply_function(first);
    case Callee::NodeHook:
      return hook_node(first, second);
    case Callee::NodeName:
      if (first && !r_.is_born(first))
        r_.refuse("looks at the autograd graph from before the call");
      return;
    case Callee::Moves:
    case Callee::TensorHook:
    case Callee::RandomState:
    case Callee::Checkpoint:
    case Callee::Around:
      return;
    case Callee::Io: {
      for (size_t i = explicit_from_; i < a_.size(); ++i) {
        if (a_[i] && !is_tensor(a_[i]) && !is_plain_stream(a_[i])) r_.read_all(a_[i], true);
      }
      if (warn() || prints()) return;
      if (name().starts_with("_warnings.")) mark_warning_registry();
      r_.effect(EffectKind::Io, callee_, arguments_.keywords, tuple_of(a_, explicit_from_).get(),
                "calls " + name());
      return;
    }
    case Callee::Refuse:
      return r_.refuse("calls " + name() + ": " + model.reason);
    case Callee::Unknown:
      return unknown();
  }
}

bool Call::is_called(const char* name) const {
  return PyCFunction_Check(callee_) &&
         std::strcmp(reinterpret_cast<PyCFunctionObject*>(callee_)->m_ml->ml_name, name) == 0;
}

// Whether a C function may use operators of its arguments.
bool Call::computes() const {
  if (!PyCFunction_Check(callee_)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callee_)->m_module;
  if (module && PyUnicode_Check(module)) {
    for (const char* name : {"math", "cmath", "_operator", "_functools"}) {
      if (PyUnicode_CompareWithASCIIString(module, name) == 0) return true;
    }
  }
  for (const char* name : {"sum", "abs", "round", "divmod", "pow"}) {
    if (is_called(name)) return true;
  }
  return false;
}

void Call::read_values(bool deep, size_t from, bool is_operator) {
  const bool arithmetic = !is_operator && computes();
  for (size_t i = from; i < a_.size(); ++i) {
    PyObject* value = a_[i];
    if (!value || is_value(value)) continue;
    if (PyFunction_Check(value)) {
      r_.read_function(value);
    } else if (is_tensor(value)) {
      if (!is_operator) r_.read_protocol(Py_TYPE(value), arithmetic);
    } else if (!is_simple(value)) {
      r_.read_protocol(Py_TYPE(value), arithmetic);
      r_.read_all(value, deep);
    }
  }
  if (PyObject* keywords = arguments_.keywords; keywords && deep) r_.read_all(keywords, true);
}

std::string Call::method_name() const {
  std::string full = name();
  size_t dot = full.rfind('.');
  return dot == std::string::npos ? full : full.substr(dot + 1);
}

bool Call::is_slot_wrapper() const {
  return Py_TYPE(callee_) == &PyWrapperDescr_Type ||
         Py_TYPE(callee_) == known_types().method_wrapper;
}

bool Call::is_python_iterator(PyObject* object) {
  if (PyGen_Check(object) || PyCoro_CheckExact(object)) return true;  // judged when it resumes
  PyObject* next = _PyType_Lookup(Py_TYPE(object), names().next);
  return next && PyFunction_Check(next);
}

// Whether the change depends on comparisons between items.
bool Call::compares_items() const {
  std::string how = method_name();
  return how == "sort" || how == "remove" || how.find("heap") != std::string::npos ||
         how.starts_with("insort");
}

// Whether a format string has fields like "{0.x}" or "{0[x]}".
bool Call::reads_fields(PyObject* format) {
  if (!format || !PyUnicode_Check(format)) return true;
  std::string text = text_of(format);
  for (size_t open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    if (text.substr(open, text.find_first_of(":}", open) - open).find_first_of(".[") !=
        std::string::npos) {
      return true;
    }
  }
  return false;
}

void Call::mutate_key() {
  PyObject* dict = argument(0);
  if (r_.is_born(dict)) return;
  PyObject* key = argument(1);
  if (!is_safe_key(key)) return r_.mutate(dict, method_name(), tuple_of(a_, 1).get());
  r_.mark_written(dict, key);
  PyRef how = PyRef::steal(PyUnicode_FromString(method_name().c_str()));
  r_.effect(EffectKind::Mutate, dict, how.get(), tuple_of(a_, 1).get(),
            "calls " + r_.path(dict) + "." + method_name());
}

// Changes that turn out to be none; what makes them so is recorded.
bool Call::changes_nothing(PyObject* container, PyObject* item) {
  std::string how = method_name();
  if (PyAnySet_Check(container) && item && is_safe_key(item) &&
      (how == "add" || how == "discard")) {
    if (set_contains(container, item) != (how == "add")) return false;
    r_.read_contains(container, item);
    return true;
  }
  bool empty = has_items(container)        ? count_items(container) == 0
               : PyDict_Check(container)   ? PyDict_GET_SIZE(container) == 0
               : PyAnySet_Check(container) ? PySet_GET_SIZE(container) == 0
                                           : false;
  // (Those that take an item raise.)
  if (!empty || (how != "clear" && how != "pop" && how != "popleft" && how != "popitem"))
    return false;
  r_.read_length(container);
  return true;
}

// Items that are there already; what makes them no change is recorded.
void Call::drop_no_changes(PyObject* dict, PyObject* changes, std::vector<PyObject*>& keys) {
  std::erase_if(keys, [&](PyObject* key) {
    PyObject* value = dict_lookup(changes, key, nullptr);
    if (!r_.stores_the_same(dict, key, value)) return false;
    PyDict_DelItem(changes, key);
    return true;
  });
}

// dict.update with a dict and keywords changes exactly their keys.
void Call::update() {
  PyObject* dict = argument(0);
  if (!dict) return;
  read_values(false, 1);
  if (r_.is_born(dict)) return;
  size_t named = arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0;
  if (named > a_.size()) return r_.mutate(dict, method_name(), tuple_of(a_, 1).get());
  size_t positional = a_.size() - named;
  std::vector<PyObject*> keys;
  bool exact = PyDict_Check(dict);
  auto add_keys = [&](PyObject* source) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(source, &position, &key, &value)) {
      keys.push_back(key);
      exact = exact && is_safe_key(key);
    }
  };
  for (size_t i = 1; i < positional; ++i) {
    if (PyDict_Check(a_[i])) {
      add_keys(a_[i]);
    } else {
      exact = false;
    }
  }
  for (size_t i = 0; i < named; ++i) keys.push_back(PyTuple_GET_ITEM(arguments_.names, i));
  if (arguments_.keywords) add_keys(arguments_.keywords);
  if (!exact) return r_.mutate(dict, method_name(), tuple_of(a_, 1).get());
  PyRef changes = PyRef::steal(PyDict_New());
  for (size_t i = 1; i < positional; ++i) PyDict_Update(changes.get(), a_[i]);
  for (size_t i = 0; i < named; ++i) {
    PyDict_SetItem(changes.get(), PyTuple_GET_ITEM(arguments_.names, i), a_[positional + i]);
  }
  if (arguments_.keywords) PyDict_Update(changes.get(), arguments_.keywords);
  drop_no_changes(dict, changes.get(), keys);
  if (keys.empty()) return;
  for (PyObject* key : keys) r_.mark_written(dict, key);
  PyRef value = PyRef::steal(PyTuple_Pack(1, changes.get()));
  PyRef how = PyRef::steal(PyUnicode_FromString("update"));
  r_.effect(EffectKind::Mutate, dict, how.get(), value.get(), "calls " + r_.path(dict) + ".update");
}

void Call::is_instance() {
  PyObject* object = argument(0);
  if (!object) return;
  if (PyType_Check(callee_)) {
    if (a_.size() != 3) return r_.read_type_of(object);
    if (PyTuple_Check(a_[1])) {
      read_base_classes({&PyTuple_GET_ITEM(a_[1], 0), static_cast<size_t>(Py_SIZE(a_[1]))});
    }
    return;  // type(name, bases, dict)
  }
  if (PyObject* types = argument(1)) read_instance_checks(object, types);
}

void Call::read_instance_checks(PyObject* object, PyObject* types) {
  PyRef alternatives;
  if (std::string_view(Py_TYPE(types)->tp_name) == "types.UnionType") {
    alternatives = PyRef::steal(PyObject_GetAttrString(types, "__args__"));
    types = alternatives.get();
  }
  if (!PyTuple_Check(types)) return r_.read_instance_check(object, types);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(types); ++i) {
    read_instance_checks(object, PyTuple_GET_ITEM(types, i));
  }
}

void Call::read_base_classes(std::span<PyObject* const> bases) {
  for (PyObject* base : bases) r_.read_base_class(base);
}

void Call::take_id(PyObject* object) {
  if (!object) return;
  if (!frame_.copies) r_.pin(object);
  // A hash by identity only finds the object again; objects of guarded identity keep their id.
  if (frame_.copies) return;
  if (frame_.frame && text_of(code_of(frame_.frame)->co_name) == "__hash__") return;
  if (!r_.is_born(object) && !r_.is_argument(object) && !is_value(object) && r_.is_known(object))
    return;
  r_.refuse("uses the id() of an object that differs from call to call");
}

void Call::mark_warning_registry() {
  // warn() notes what it has shown in the globals of the frame that it blames.
  PyRef key = PyRef::steal(PyUnicode_InternFromString("__warningregistry__"));
  for (const Frame& frame : r_.frames) r_.mark_written(frame.frame->f_globals, key.get());
}

// Whether run_backward(..., accumulate_grad) writes into `.grad`.
bool Call::accumulates() const {
  PyRef name = PyRef::steal(PyUnicode_InternFromString("accumulate_grad"));
  if (arguments_.keywords) {
    if (PyObject* flag = dict_lookup(arguments_.keywords, name.get(), nullptr))
      return flag != Py_False;
  }
  size_t named = arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0;
  for (size_t i = 0; i < named; ++i) {
    PyObject* label = PyTuple_GET_ITEM(arguments_.names, i);
    if (values_equal(label, name.get())) return a_[a_.size() - named + i] != Py_False;
  }
  size_t position = explicit_from_ + 6;
  return position >= a_.size() - named || a_[position] != Py_False;
}

bool Call::grad_mode() {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* torch = PyDict_GetItemString(modules, "torch");
  PyObject* ask = torch && PyModule_Check(torch)
                      ? PyDict_GetItemString(PyModule_GetDict(torch), "is_grad_enabled")
                      : nullptr;
  if (!ask) return true;
  PyRef answer = PyRef::steal(PyObject_CallNoArgs(ask));
  if (!answer) PyErr_Clear();
  return answer.get() != Py_False;
}

void Call::unknown() {
  std::string called = name();
  r_.refuse("calls " + called + ", a C function that is not audited");
  read_values(true);
}

}  // namespace fulgurite::python::watching
