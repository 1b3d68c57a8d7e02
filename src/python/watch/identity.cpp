// Where a program uses which object it is that a followed place holds (follow.cpp): the program is
// then for that object alone.
#include "call.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace fulgurite::python::watching {

void Recording::pin(PyObject* object, int depth) {
  if (slot_of_.empty() || object == nullptr || depth > 6) return;
  if (auto it = slot_of_.find(object); it != slot_of_.end()) {
    const auto slot = static_cast<size_t>(it->second);
    pinned_.resize(std::max(pinned_.size(), slot + 1));
    pinned_[slot] = PyRef::borrow(object);
  }
  if (is_deque(object)) {
    for (Py_ssize_t i = 0; i < count_items(object); ++i) pin(item_at(object, i).get(), depth + 1);
  } else if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      pin(PySequence_Fast_GET_ITEM(object, i), depth + 1);
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      pin(key, depth + 1);
      pin(value, depth + 1);
    }
  } else if (PyAnySet_Check(object)) {
    PyObject* item;
    Py_ssize_t position = 0;
    while (next_in_set(object, &position, &item)) pin(item, depth + 1);
  }
}

// Pins what a C function hashes, compares by identity, or shows the address of.
void Call::pin_arguments(Callee callee) {
  if (frame_.copies) return;
  constexpr std::string_view by_name[] = {"set",
                                          "frozenset",
                                          "builtins.hash",
                                          "builtins.repr",
                                          "builtins.ascii",
                                          "str",
                                          "builtins.format",
                                          "list.index",
                                          "list.count",
                                          "list.remove",
                                          "collections.deque.index",
                                          "collections.deque.count",
                                          "collections.deque.remove",
                                          "tuple.index",
                                          "tuple.count",
                                          "_operator.eq",
                                          "_operator.ne",
                                          "_operator.is_",
                                          "dict.fromkeys",
                                          "_operator.is_not",
                                          "_operator.countOf",
                                          "_operator.indexOf"};
  const std::string called = name();
  bool uses = callee == Callee::Contains || callee == Callee::Format || callee == Callee::Io ||
              called.starts_with("set.") || called.starts_with("frozenset.") ||
              called == "itertools.groupby" || called == "_collections._count_elements" ||
              std::find(std::begin(by_name), std::end(by_name), called) != std::end(by_name);
  if (is_slot_wrapper()) {
    for (const char* slot : {"__hash__", "__eq__", "__ne__", "__repr__", "__str__", "__format__"})
      uses = uses || method_name() == slot;
  }
  const bool takes_pairs = callee == Callee::Update || called == "dict";
  for (PyObject* value : a_)
    if (value && !is_tensor(value) && (uses || (takes_pairs && !PyDict_Check(value))))
      r_.pin(value);
}

}  // namespace fulgurite::python::watching
