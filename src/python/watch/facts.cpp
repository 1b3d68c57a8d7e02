// How a single fact is checked against the present, without running user code.
#include "internals.h"

#include <structmember.h>

#include <cstring>
#include <iterator>

#include "guard_table.h"
#include "lru_cache.h"

namespace fulgurite::python::watching {
namespace {

// The head of the nodes of an OrderedDict's linked list (Objects/odictobject.c).
struct OrderedNode {
  PyObject* key;
  Py_hash_t hash;
  OrderedNode* next;
  OrderedNode* previous;
};
struct OrderedDict {
  PyDictObject dict;
  OrderedNode* first;
};

bool items_match(PyObject* const* current, Py_ssize_t n, PyObject* expected) {
  if (n != PyTuple_GET_SIZE(expected)) return false;
  PyObject* const* wanted = &PyTuple_GET_ITEM(expected, 0);
  if (n == 0 || std::memcmp(current, wanted, n * sizeof(PyObject*)) == 0) return true;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (wanted[i] == any_item()) continue;
    if (!matches(current[i], wanted[i], match_by(wanted[i]))) return false;
  }
  return true;
}

bool has_listed(PyObject* holder, const Fact& fact) {
  PyObject* expected = fact.expected.get();
  if (PyList_Check(holder)) {
    return items_match(reinterpret_cast<PyListObject*>(holder)->ob_item, PyList_GET_SIZE(holder),
                       expected);
  }
  if (count_items(holder) != PyTuple_GET_SIZE(expected)) return false;
  const PyRef items = items_in_order(holder), maxlen = maxlen_of(holder);
  return items && maxlen && values_equal(maxlen.get(), fact.extra.get()) &&
         items_match(&PyTuple_GET_ITEM(items.get(), 0), PyTuple_GET_SIZE(items.get()), expected);
}

bool dict_matches(PyObject* dict, PyObject* expected) {
  if (PyDict_GET_SIZE(dict) * 2 != PyTuple_GET_SIZE(expected)) return false;
  PyObject *key, *value;
  Py_ssize_t position = 0, i = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    PyObject* expected_key = PyTuple_GET_ITEM(expected, i++);
    PyObject* expected_value = PyTuple_GET_ITEM(expected, i++);
    if (!matches(key, expected_key, match_by(expected_key))) return false;
    if (expected_value == any_item()) continue;
    if (!matches(value, expected_value, match_by(expected_value))) return false;
  }
  return true;
}

bool set_matches(PyObject* set, PyObject* expected) {
  if (PySet_GET_SIZE(set) != PyTuple_GET_SIZE(expected)) return false;
  Py_ssize_t position = 0, i = 0;
  PyObject* item;
  while (next_in_set(set, &position, &item)) {
    PyObject* wanted = PyTuple_GET_ITEM(expected, i++);
    if (!matches(item, wanted, match_by(wanted))) return false;
  }
  return true;
}

// Both tuples or null; `used` as in FactKind::FunctionCode.
bool defaults_match(PyObject* now, PyObject* then, Py_ssize_t used) {
  if (now == then || used == 0) return true;
  if (!now || !then || !PyTuple_Check(now)) return false;
  const Py_ssize_t count = PyTuple_GET_SIZE(then), present = PyTuple_GET_SIZE(now);
  if (used == kAllDefaults && present != count) return false;
  for (Py_ssize_t i = 1; i <= count; ++i) {
    if (used != kAllDefaults && (used >> i & 1) == 0) continue;
    PyObject* wanted = PyTuple_GET_ITEM(then, count - i);
    if (i > present || !matches(PyTuple_GET_ITEM(now, present - i), wanted, match_by(wanted)))
      return false;
  }
  return true;
}

}  // namespace

PyObject* ordered_keys(PyObject* ordered) {
  PyRef keys = PyRef::steal(PyList_New(0));
  for (OrderedNode* node = reinterpret_cast<OrderedDict*>(ordered)->first; node;
       node = node->next) {
    PyList_Append(keys.get(), node->key);
  }
  return PyList_AsTuple(keys.get());
}

Py_ssize_t count_items(PyObject* container) {
  return PyList_Check(container) ? PyList_GET_SIZE(container)
                                 : known_types().deque->tp_as_sequence->sq_length(container);
}

PyRef item_at(PyObject* container, Py_ssize_t index) {
  if (index >= count_items(container)) return {};
  if (PyList_Check(container)) return PyRef::borrow(PyList_GET_ITEM(container, index));
  return PyRef::steal(known_types().deque->tp_as_sequence->sq_item(container, index));
}

PyRef items_in_order(PyObject* container) {
  if (PyList_Check(container)) return PyRef::steal(PyList_AsTuple(container));
  PyRef items = PyRef::steal(PyTuple_New(count_items(container)));
  for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i)
    PyTuple_SET_ITEM(items.get(), i, item_at(container, i).release());
  return items;
}

PyRef maxlen_of(PyObject* container) {
  if (PyList_Check(container)) return {};
  ErrorAside aside;
  PyObject* getter = PyDict_GetItemString(known_types().deque->tp_dict, "maxlen");
  PyRef maxlen = PyRef::steal(getset_value(container, getter));
  if (!maxlen) PyErr_Clear();
  return maxlen;
}

bool set_contains(PyObject* set, PyObject* key) {
  // By identity first: types and other objects have no other equality, and sets of them may be
  // long.
  const auto* table = reinterpret_cast<PySetObject*>(set);
  for (Py_ssize_t i = 0; i <= table->mask; ++i) {
    if (table->table[i].key == key) return true;
  }
  if (PyType_Check(key)) return false;
  Py_ssize_t position = 0;
  PyObject* item;
  while (next_in_set(set, &position, &item)) {
    if (item == key || (Py_TYPE(item) == Py_TYPE(key) && values_equal(item, key))) return true;
  }
  return false;
}

PyObject* slot_value(PyObject* holder, PyObject* descriptor) {
  PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  ErrorAside aside;
  PyObject* value = PyMember_GetOne(reinterpret_cast<const char*>(holder), member);
  if (!value) PyErr_Clear();
  return value;
}

PyObject* getset_value(PyObject* holder, PyObject* descriptor) {
  PyGetSetDef* getset = reinterpret_cast<PyGetSetDescrObject*>(descriptor)->d_getset;
  if (!getset->get) return nullptr;
  ErrorAside aside;
  PyObject* value = getset->get(holder, getset->closure);
  if (!value) PyErr_Clear();
  return value;
}

PyObject* call_again(const Fact& fact) {
  ErrorAside aside;
  PyObject* value = PyObject_Call(fact.holder.get(), fact.extra.get(), nullptr);
  if (!value) PyErr_Clear();
  return value;
}

PyObject* any_item() {
  static PyObject* sentinel = PyUnicode_InternFromString("<any>");
  return sentinel;
}

namespace {

// What the fact finds in `holder`: a new reference or null. Only of kinds that find one object.
PyRef find(const Fact& fact, PyObject* holder, bool* unsafe) {
  switch (fact.kind) {
    case FactKind::DictItem:
      if (!PyDict_Check(holder)) break;
      return PyRef::borrow(dict_lookup(holder, fact.key.get(), unsafe));
    case FactKind::TypeAttribute:
      return PyRef::borrow(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(holder), fact.key.get()));
    case FactKind::Cell:
      return PyRef::borrow(PyCell_GET(holder));
    case FactKind::ListItem:
      return has_items(holder) ? item_at(holder, fact.number) : PyRef();
    case FactKind::TupleItem:
      if (!PyTuple_Check(holder) || fact.number >= PyTuple_GET_SIZE(holder)) break;
      return PyRef::borrow(PyTuple_GET_ITEM(holder, fact.number));
    case FactKind::Slot:
      return PyRef::steal(slot_value(holder, fact.extra.get()));
    case FactKind::Getset:
      return PyRef::steal(getset_value(holder, fact.extra.get()));
    case FactKind::CallResult:
      return PyRef::steal(call_again(fact));
    case FactKind::TypeOf:
      return PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(holder)));
    case FactKind::InstanceDict: {
      PyObject** address = _PyObject_GetDictPtr(holder);
      return PyRef::borrow(address != nullptr ? *address : nullptr);
    }
    case FactKind::WeakReference:
      return PyRef::borrow(reinterpret_cast<PyWeakReference*>(holder)->wr_object);
    case FactKind::ContextVariable: {
      PyObject* value = nullptr;
      ErrorAside aside;
      if (PyContextVar_Get(holder, nullptr, &value) < 0) PyErr_Clear();
      return PyRef::steal(value);
    }
    case FactKind::ThreadLocal: {
      ErrorAside aside;
      PyRef value = PyRef::steal(PyObject_GetAttr(holder, fact.key.get()));
      if (!value) PyErr_Clear();
      return value;
    }
    case FactKind::CachedCall:
      return PyRef::borrow(lru_cached_result(fact.extra.get(), fact.key.get()));
    default:
      break;
  }
  return {};
}

bool is_of_type(PyObject* object, const Fact& fact) {
  if (object == nullptr || reinterpret_cast<PyObject*>(Py_TYPE(object)) != fact.expected.get())
    return false;
  if (PyTuple_Check(object)) return PyTuple_GET_SIZE(object) == fact.length;
  if (!is_tensor(object)) return true;
  // What Python code set on a tensor may be read by the program; that was not recorded.
  PyObject** dict = _PyObject_GetDictPtr(object);
  return dict == nullptr || *dict == nullptr || PyDict_GET_SIZE(*dict) == 0;
}

}  // namespace

bool fact_holds(const Fact& fact, const std::vector<PyRef>& slots, PyRef* found) {
  PyObject* holder = fact.holder_slot >= 0 ? slots[static_cast<size_t>(fact.holder_slot)].get()
                                           : fact.holder.get();
  PyObject* expected = fact.expected.get();
  switch (fact.kind) {
    case FactKind::DictAll:
      return dict_matches(holder, expected);
    case FactKind::DictLength:
      return PyDict_GET_SIZE(holder) == fact.number;
    case FactKind::OrderedAll: {
      PyRef keys = PyRef::steal(ordered_keys(holder));
      return keys &&
             items_match(&PyTuple_GET_ITEM(keys.get(), 0), PyTuple_GET_SIZE(keys.get()), expected);
    }
    case FactKind::ListAll:
      return has_listed(holder, fact);
    case FactKind::ListLength:
      return count_items(holder) == fact.number;
    case FactKind::SetAll:
      return set_matches(holder, expected);
    case FactKind::Mro: {
      PyObject* mro = reinterpret_cast<PyTypeObject*>(holder)->tp_mro;
      return mro && items_match(&PyTuple_GET_ITEM(mro, 0), PyTuple_GET_SIZE(mro), expected);
    }
    case FactKind::Protocol:
      return has_special_methods(reinterpret_cast<PyTypeObject*>(holder), fact.number != 0,
                                 expected);
    case FactKind::SetContains:
      return set_contains(holder, fact.key.get()) == (fact.number != 0);
    case FactKind::FunctionCode: {
      auto* function = reinterpret_cast<PyFunctionObject*>(holder);
      return function->func_code == expected && function->func_kwdefaults == fact.key.get() &&
             defaults_match(function->func_defaults, fact.extra.get(), fact.number);
    }
    default:
      break;
  }
  bool unsafe = false;
  PyRef value = find(fact, holder, &unsafe);
  if (unsafe) return false;
  if (found != nullptr) *found = value;
  switch (fact.by) {
    case MatchBy::Type:
      return is_of_type(value.get(), fact);
    case MatchBy::Same:
      return value.get() == slots[static_cast<size_t>(fact.length)].get();
    default:
      return matches(value.get(), expected, fact.by);
  }
}

namespace {

std::string changed_special_method(const Fact& fact) {
  auto* type = reinterpret_cast<PyTypeObject*>(fact.holder.get());
  const std::vector<PyObject*>& names = special_names(fact.number != 0);
  PyRef now = special_methods(type, fact.number != 0);
  for (size_t i = 0; now && i < names.size(); ++i) {
    const auto k = static_cast<Py_ssize_t>(i);
    if (PyTuple_GET_ITEM(now.get(), k) == PyTuple_GET_ITEM(fact.expected.get(), k)) continue;
    return text_of(names[i]) + " " + describe_object(PyTuple_GET_ITEM(now.get(), k));
  }
  return "another one";
}

}  // namespace

std::string current_value(const Fact& fact, const std::vector<PyRef>& slots) {
  PyObject* holder = fact.holder_slot >= 0 ? slots[static_cast<size_t>(fact.holder_slot)].get()
                                           : fact.holder.get();
  if (fact.by == MatchBy::Type) {
    PyRef value = find(fact, holder, nullptr);
    return value ? "a " + std::string(Py_TYPE(value.get())->tp_name) : "<absent>";
  }
  switch (fact.kind) {
    case FactKind::DictItem:
      return describe_object(dict_lookup(holder, fact.key.get(), nullptr));
    case FactKind::DictAll:
      return "a dict of " + std::to_string(PyDict_GET_SIZE(holder));
    case FactKind::DictLength:
      return std::to_string(PyDict_GET_SIZE(holder));
    case FactKind::OrderedAll:
      return "another order";
    case FactKind::TypeAttribute:
      return describe_object(
          _PyType_Lookup(reinterpret_cast<PyTypeObject*>(holder), fact.key.get()));
    case FactKind::Cell:
      return describe_object(PyCell_GET(holder));
    case FactKind::ListAll: {
      const PyRef items = items_in_order(holder);
      return is_value(items.get()) ? describe_object(items.get())
                                   : (PyList_Check(holder) ? "a list of " : "a deque of ") +
                                         std::to_string(count_items(holder));
    }
    case FactKind::ListLength:
      return std::to_string(count_items(holder));
    case FactKind::ListItem:
      return describe_object(find(fact, holder, nullptr).get());
    case FactKind::SetAll:
      return "a set of " + std::to_string(PySet_GET_SIZE(holder));
    case FactKind::SetContains:
      return set_contains(holder, fact.key.get()) ? "True" : "False";
    case FactKind::Slot:
      return describe_object(PyRef::steal(slot_value(holder, fact.extra.get())).get());
    case FactKind::Getset:
      return describe_object(PyRef::steal(getset_value(holder, fact.extra.get())).get());
    case FactKind::FunctionCode:
      return "other code or defaults";
    case FactKind::CallResult:
      return describe_object(PyRef::steal(call_again(fact)).get());
    case FactKind::TypeOf:
      return describe_object(reinterpret_cast<PyObject*>(Py_TYPE(holder)));
    case FactKind::InstanceDict:
      return "another dict";
    case FactKind::WeakReference:
      return describe_object(reinterpret_cast<PyWeakReference*>(holder)->wr_object);
    case FactKind::ContextVariable:
    case FactKind::ThreadLocal:
      return "another value";
    case FactKind::TupleItem:
      return describe_object(find(fact, holder, nullptr).get());
    case FactKind::CachedCall:
      return describe_object(lru_cached_result(fact.extra.get(), fact.key.get()));
    case FactKind::Mro:
      return "another order";
    case FactKind::Protocol:
      return changed_special_method(fact);
  }
  return "?";
}

const char* fact_kind_name(FactKind kind) {
  static constexpr const char* names[] = {"dict_item",
                                          "dict_all",
                                          "dict_length",
                                          "ordered_all",
                                          "type_attribute",
                                          "cell",
                                          "list_all",
                                          "list_length",
                                          "list_item",
                                          "set_all",
                                          "set_contains",
                                          "slot",
                                          "getset",
                                          "function",
                                          "call_result",
                                          "type_of",
                                          "instance_dict",
                                          "weak_reference",
                                          "context_variable",
                                          "thread_local",
                                          "tuple_item",
                                          "cached_call",
                                          "mro",
                                          "protocol"};
  static_assert(std::size(names) == static_cast<size_t>(FactKind::Protocol) + 1);
  return names[static_cast<size_t>(kind)];
}

}  // namespace fulgurite::python::watching
