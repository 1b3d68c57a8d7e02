// Which facts the reads of dicts, lists, sets and cells leave behind.
#include "internals.h"

#include <string_view>
#include <utility>

#include "recording.h"

namespace fulgurite::python::watching {

PyObject* Recording::read_dict(PyObject* dict, PyObject* key) {
  pin(key);
  if (is_born(dict) && !has_only_str_keys(dict)) return nullptr;  // nobody asks
  bool unsafe = false;
  if (needs_no_fact(dict)) return dict_lookup(dict, key, &unsafe);
  PyObject* value = dict_lookup(dict, key, &unsafe);
  if (unsafe || !is_safe_key(key)) {
    // The look-up may run a Python __eq__ or __hash__; the whole dict stands for whatever it
    // compares.
    read_type_of(key);
    read_protocol(Py_TYPE(key));
    read_all(dict);
    return value;
  }
  if (is_tensor(key)) read_protocol(Py_TYPE(key));
  key = canonical(key);
  if (has_fact(FactKind::DictItem, dict, key)) return value;
  see_dict(dict);
  if (was_written(dict, key)) return value;
  if (value && is_born(value) && !is_value(value) && !partly_written_.count(dict) &&
      changed_unseen(dict)) {
    refuse("reads " + path(dict) + "[" + describe_object(key, 40) +
           "], which changed in a way that the watcher did not see");
    return value;
  }
  add_fact(FactKind::DictItem, dict, key, value, match_by(value));
  return value;
}

// A number that was another one in an earlier run: it is followed instead of guarded.
void Recording::vary(int number) {
  if (varying_ == nullptr || varying_->empty() || numbers.sink() == nullptr) return;
  Fact& fact = facts_[static_cast<size_t>(number)];
  if (fact.kind != FactKind::DictItem && fact.kind != FactKind::Cell &&
      fact.kind != FactKind::ListItem)
    return;
  // (What is followed into a slot: follow.cpp.)
  if (fact.by != MatchBy::Value || fact.is_dynamic() || !fact.expected ||
      !is_number_object(fact.expected.get()))
    return;
  const std::string path = PathPrinter(facts_, roots_).access(fact);
  if (varying_->count(path) == 0) return;
  fact.node = numbers.sink()->input(fact.expected.get(), path);
  number_facts_.push_back(number);
}

// The running instruction read this fact; if there are numbers in it, they go on from here.
void Recording::note_number_read(int fact, PyObject* holder, PyObject* key) {
  if (number_facts_.empty()) return;
  if (facts_[static_cast<size_t>(fact)].node < 0 && tuple_nodes_.count(fact) == 0) return;
  // Found there is what the run itself wrote.
  if (written_.count({0, holder, key}) != 0 || all_written_.count(holder) != 0) return;
  number_reads_.push_back(fact);
}

// What the instruction read since then, somebody may look at.
void Recording::fix_number_reads(size_t from) {
  for (size_t i = from; i < number_reads_.size(); ++i) {
    const int read = number_reads_[i];
    const int node = facts_[static_cast<size_t>(read)].node;
    if (node >= 0) numbers.sink()->fix(node);
    if (auto it = tuple_nodes_.find(read); it != tuple_nodes_.end()) numbers.fix(it->second);
  }
  number_reads_.resize(from);
}

void Recording::follow_number_reads(Frame& frame) {
  using enum Operation;
  if (number_reads_.empty()) return;
  const Operation ran = frame.running.operation;
  if (ran == ContainsOp) return number_reads_.clear();  // that it is there: its type is guarded
  const bool pushes = ran == LoadAttr || ran == BinarySubscr || ran == LoadGlobal ||
                      ran == LoadName || ran == LoadDeref || ran == LoadFromDictOrGlobals ||
                      ran == LoadFromDictOrDeref || ran == Operation::Call || ran == CallNamed;
  if (number_reads_.size() != 1 || !pushes || frame.number_step) return fix_number_reads(0);
  const Fact& fact = facts_[static_cast<size_t>(number_reads_[0])];
  NumberStep step{NumberStep::Kind::Source, {}};
  auto items = tuple_nodes_.find(number_reads_[0]);
  step.nodes = items != tuple_nodes_.end() ? items->second : std::vector<int>{fact.node};
  const auto slot = static_cast<size_t>(fact.by == MatchBy::Same ? fact.length : fact.slot);
  step.source = fact.is_dynamic() ? slot_objects_[slot].get() : fact.expected.get();
  frame.number_step = std::make_unique<NumberStep>(std::move(step));
  number_reads_.clear();
}

void Recording::read_cell(PyObject* cell, PyObject* name) {
  if (is_born(cell) || was_written(cell, nullptr)) return;
  if (has_fact(FactKind::Cell, cell, nullptr)) return;
  PyObject* value = PyCell_GET(cell);
  add_fact(FactKind::Cell, cell, nullptr, value, match_by(value), name);
}

void Recording::read_list_item(PyObject* list, PyObject* index) {
  if (needs_no_fact(list) || all_written_.count(list) || was_appended_to(list)) return;
  if (!PyLong_CheckExact(index)) return read_all(list);
  Py_ssize_t size = count_items(list);
  Py_ssize_t i = PyLong_AsSsize_t(index);
  if (i == -1 && PyErr_Occurred()) PyErr_Clear();
  if (i < 0 || i >= size) read_length(list);
  if (i < 0) i += size;
  if (i < 0 || i >= size) return;
  PyRef position = PyRef::steal(PyLong_FromSsize_t(i));
  PyObject* key = canonical(position.get());
  if (has_fact(FactKind::ListItem, list, key)) return;
  PyObject* value = item_at(list, i).get();  // the container keeps it
  Fact& fact = add_fact(FactKind::ListItem, list, key, value, match_by(value));
  fact.number = i;
  const int last = static_cast<int>(facts_.size()) - 1;
  vary(last);
  if (fact.slot < 0) note_number_read(last, list, key);
}

void Recording::read_length(PyObject* container) {
  container = behind_proxy(container);
  if (needs_no_fact(container) || all_written_.count(container)) return;
  if (has_items(container)) {
    if (was_appended_to(container)) return;
    if (has_fact(FactKind::ListLength, container, nullptr)) return;
    add_fact(FactKind::ListLength, container, nullptr, nullptr, MatchBy::Value).number =
        count_items(container);
  } else if (PyDict_Check(container)) {
    if (has_fact(FactKind::DictLength, container, nullptr)) return;
    if (has_fact(FactKind::DictAll, container, nullptr)) return;
    if (partly_written_.count(container)) {
      wanted_places_.push_back(path(container) + "[:]");
      return refuse("asks for the length of " + path(container) + " after changing it");
    }
    see_dict(container);
    add_fact(FactKind::DictLength, container, nullptr, nullptr, MatchBy::Value).number =
        PyDict_GET_SIZE(container);
  } else if (!PyTuple_Check(container) && !is_simple(container)) {
    read_all(container);
  }
}

void Recording::read_truth(PyObject* object) {
  if (object == Py_True || object == Py_False || is_value(object)) return;
  PyTypeObject* type = Py_TYPE(object);
  read_type(type, names().bool_);
  if (is_tensor(object)) return;
  read_type(type, names().len);
  read_type_of(object);
  read_length(object);
}

void Recording::read_contains(PyObject* container, PyObject* key) {
  container = behind_proxy(container);
  if (PyDict_Check(container)) {
    read_dict(container, key);
  } else if (PyAnySet_Check(container) && Py_TYPE(container) != &PyFrozenSet_Type &&
             is_safe_key(key)) {
    if (needs_no_fact(container) || all_written_.count(container)) return;
    key = canonical(key);
    if (has_fact(FactKind::SetContains, container, key)) return;
    add_fact(FactKind::SetContains, container, key, nullptr, MatchBy::Value).number =
        set_contains(container, key);
  } else {
    read_all(container, /*deep=*/true);  // items are compared, whatever is inside them
  }
}

// Memory whose contents nobody guards; a subclass of bytes cannot change.
static bool has_buffer(PyObject* object) {
  PyBufferProcs* buffer = Py_TYPE(object)->tp_as_buffer;
  return buffer != nullptr && buffer->bf_getbuffer != nullptr && !PyBytes_Check(object);
}

// The items of a container, in order; with `deep` those of the containers inside it as well.
void Recording::read_all(PyObject* container, bool deep, int depth) {
  container = behind_proxy(container);
  if (deep && is_born(container)) read_behind(container, depth);
  if (depth > 6) return refuse("reads a structure that is nested too deeply");
  PyTypeObject* type = Py_TYPE(container);
  bool no_fact = needs_no_fact(container) || all_written_.count(container);
  if (has_items(container)) {
    if (!no_fact && !was_appended_to(container) &&
        !has_fact(FactKind::ListAll, container, nullptr)) {
      PyRef items = items_in_order(container);
      separate_items(container, items.get());
      add_fact(FactKind::ListAll, container, nullptr, items.get(), MatchBy::Identity).extra =
          maxlen_of(container);
    }
    if (!deep) return;
    for (Py_ssize_t i = 0; i < count_items(container); ++i) {
      read_all(item_at(container, i).get(), deep, depth + 1);
    }
  } else if (PyDict_Check(container)) {
    if (!no_fact && !has_fact(FactKind::DictAll, container, nullptr)) {
      if (partly_written_.count(container)) {
        wanted_places_.push_back(path(container) + "[:]");
        return refuse("reads the whole of " + path(container) + " after changing it");
      }
      see_dict(container);
      PyRef items = PyRef::steal(PyTuple_New(PyDict_GET_SIZE(container) * 2));
      PyObject *key, *value;
      Py_ssize_t position = 0, i = 0;
      while (PyDict_Next(container, &position, &key, &value)) {
        PyTuple_SET_ITEM(items.get(), i++, Py_NewRef(key));
        PyTuple_SET_ITEM(items.get(), i++, Py_NewRef(value));
      }
      separate_items(container, items.get());
      add_fact(FactKind::DictAll, container, nullptr, items.get(), MatchBy::Identity);
      if (PyODict_Check(container) && PyDict_GET_SIZE(container) > 1) read_order(container);
    }
    if (!deep) return;
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(container, &position, &key, &value)) read_all(value, deep, depth + 1);
  } else if (PyAnySet_Check(container)) {
    pin(container);
    if (deep) read_items_of_set(container);
    if (no_fact || type == &PyFrozenSet_Type) return;
    if (has_fact(FactKind::SetAll, container, nullptr)) return;
    PyRef items = PyRef::steal(PyTuple_New(PySet_GET_SIZE(container)));
    PyObject* item;
    Py_ssize_t position = 0, i = 0;
    while (next_in_set(container, &position, &item)) {
      PyTuple_SET_ITEM(items.get(), i++, Py_NewRef(item));
    }
    add_fact(FactKind::SetAll, container, nullptr, items.get(), MatchBy::Identity);
  } else if (PyTuple_Check(container)) {
    if (!deep) return;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); ++i) {
      read_all(PyTuple_GET_ITEM(container, i), deep, depth + 1);
    }
  } else if (deep && read_object_inside(container, depth)) {
    return;
  } else if (no_fact || is_simple(container) || is_tensor(container)) {
    return;
  } else if (is_ndarray(container)) {
    refuse("reads the contents of a numpy array");
  } else if (has_buffer(container)) {
    refuse("reads the contents of a " + std::string(type->tp_name));
  } else if (deep && is_heap_type(type) && !PyIter_Check(container)) {
    read_type_of(container);
    read_protocol(type, /*arithmetic=*/true);
  } else if (PyDictViewSet_Check(container) || PyDictValues_Check(container)) {
    // A view made before the run: what it shows is the dict behind it.
    read_all(reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(container)->dv_dict),
             deep, depth + 1);
  } else if (type == &PyDictProxy_Type) {
    refuse("reads a mappingproxy (vars() or __dict__ of a class)");
  } else if (PyIter_Check(container) && !PyGen_Check(container)) {
    refuse("advances an iterator that was made before the call");
  }
}

// What C code shows and compares of an object whose inside it knows. False for other objects.
bool Recording::read_object_inside(PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  const KnownTypes& types = known_types();
  const bool is_exception = PyExceptionInstance_Check(object);
  const bool is_namespace =
      types.simple_namespace && PyType_IsSubtype(type, types.simple_namespace);
  const bool is_partial = types.partial && PyType_IsSubtype(type, types.partial);
  if (!is_exception && !is_namespace && !is_partial) return false;
  read_type_of(object);
  read_protocol(type);
  if (is_namespace) {
    if (PyObject* dict = instance_dict(object)) read_all(dict, /*deep=*/true, depth + 1);
    return true;
  }
  for (const char* field : {is_exception ? "args" : "func", "args", "keywords"}) {
    if (is_exception && std::string_view(field) != "args") continue;
    PyRef name = PyRef::steal(PyUnicode_InternFromString(field));
    read_attribute(object, name.get(), /*generic=*/true);
    ErrorAside aside;
    PyRef part = PyRef::steal(PyObject_GenericGetAttr(object, name.get()));
    if (!part) PyErr_Clear();
    if (part) read_all(part.get(), /*deep=*/true, depth + 1);
  }
  return true;
}

void Recording::read_items_of_set(PyObject* set) {
  PyObject* item;
  Py_ssize_t position = 0;
  while (next_in_set(set, &position, &item)) {
    if (is_heap_type(Py_TYPE(item)) && !PyType_Check(item)) read_all(item, /*deep=*/true);
  }
}

namespace {

int collect(PyObject* object, void* found) {
  static_cast<std::vector<PyObject*>*>(found)->push_back(object);
  return 0;
}

}  // namespace

// C code that looks at the items of a view or an iterator looks at what stands behind it.
void Recording::read_behind(PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  const bool is_view = PyDictViewSet_Check(object) || PyDictValues_Check(object);
  const bool is_iterator = PyIter_Check(object) && !PyGen_Check(object) && !is_heap_type(type);
  if ((!is_view && !is_iterator) || type->tp_traverse == nullptr) return;
  std::vector<PyObject*> behind;
  type->tp_traverse(object, collect, &behind);
  for (PyObject* one : behind) {
    if (!PyFunction_Check(one)) read_all(one, /*deep=*/true, depth + 1);
  }
}

void Recording::read_order(PyObject* ordered_dict) {
  PyRef keys = PyRef::steal(ordered_keys(ordered_dict));
  if (keys) add_fact(FactKind::OrderedAll, ordered_dict, nullptr, keys.get(), MatchBy::Identity);
}

void Recording::read_weak_reference(PyObject* reference) {
  if (is_born(reference) || has_fact(FactKind::WeakReference, reference, nullptr)) return;
  PyObject* target = reinterpret_cast<PyWeakReference*>(reference)->wr_object;
  if (target == Py_None) return refuse("calls a weak reference whose object is gone");
  add_fact(FactKind::WeakReference, reference, nullptr, target, MatchBy::Identity);
}

// What the thread has there that makes the call.
void Recording::read_thread_local(PyObject* object, PyObject* name) {
  if (is_born(object) || has_fact(FactKind::ThreadLocal, object, name)) return;
  if (name == names().dict) return refuse("takes the attributes of a threading.local");
  ErrorAside aside;
  const PyRef value = PyRef::steal(PyObject_GetAttr(object, name));
  if (!value) PyErr_Clear();
  add_fact(FactKind::ThreadLocal, object, name, value.get(), match_by(value.get()));
}

void Recording::read_context_variable(PyObject* variable) {
  if (is_born(variable) || contexts_.count(variable)) return;
  if (has_fact(FactKind::ContextVariable, variable, nullptr)) return;
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) PyErr_Clear();
  PyRef owned = PyRef::steal(value);
  add_fact(FactKind::ContextVariable, variable, nullptr, value, match_by(value));
}

// An audited query, such as a C-level flag of torch: called again by each check.
void Recording::read_call_result(PyObject* callee, PyObject* arguments, PyObject* result) {
  if (!is_value(result) || !is_value(arguments)) {
    return refuse("calls " + describe_object(callee) +
                  " with or for an object that cannot be guarded");
  }
  PyRef label = PyRef::steal(PyUnicode_FromString(describe_object(arguments).c_str()));
  PyObject* key = canonical(label.get());
  if (has_fact(FactKind::CallResult, callee, key)) return;
  Fact& fact = add_fact(FactKind::CallResult, callee, key, result, MatchBy::Value);
  fact.extra = PyRef::borrow(arguments);
}

}  // namespace fulgurite::python::watching
