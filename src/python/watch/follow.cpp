// Places whose content differs from call to call: a hidden state that is kept on an object, a
// counter, an argument that is made anew for each call.
//
// A fact about such a place does not say which object is there, only of which type it is; the
// object goes to a slot, and facts about what is inside it find it there. Which places those are is
// learned: a first recording fixes what it finds, and what turns out to change is followed by the
// next. Following is never wrong, only a little slower, so the names of places may be ambiguous.
#include "internals.h"

#include <algorithm>

#include "recording.h"

namespace fulgurite::python::watching {
namespace {

bool is_plain_tensor_type(PyTypeObject* type) {
  return type == known_types().tensor || type == known_types().parameter;
}

// Objects whose inside is read through facts, so that they can be followed by path.
bool is_open(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (is_simple(object) || is_tensor(object) || PyMethod_Check(object) || PyGen_Check(object))
    return false;
  const bool is_dict = PyDict_Check(object) && !PyODict_Check(object);  // a defaultdict, too
  return is_dict || type == &PyList_Type || is_deque(object) || PyTuple_Check(object) ||
         is_heap_type(type);
}

// A value, but one that is taken apart: betas=(0.9, 0.999).
bool is_tuple_of_numbers(PyObject* object) {
  if (!PyTuple_CheckExact(object) || PyTuple_GET_SIZE(object) == 0) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    if (!is_number_object(PyTuple_GET_ITEM(object, i))) return false;
  return true;
}

bool is_liftable_pair(PyObject* before, PyObject* now) {
  if (!before || !now || Py_TYPE(before) != Py_TYPE(now)) return false;
  if (is_tensor(now)) return is_plain_tensor_type(Py_TYPE(now));
  if (is_plain_number(now)) return is_number_object(now);
  if (is_tuple_of_numbers(now))
    return is_tuple_of_numbers(before) && PyTuple_GET_SIZE(now) == PyTuple_GET_SIZE(before);
  if (PyTuple_Check(now) && PyTuple_GET_SIZE(now) != PyTuple_GET_SIZE(before)) return false;
  return is_open(now);
}

}  // namespace

int Recording::new_slot(PyObject* object) {
  const int slot = static_cast<int>(slot_objects_.size());
  slot_objects_.push_back(PyRef::borrow(object));
  if (!is_value(object)) slot_of_.emplace(object, slot);
  return slot;
}

bool Recording::should_follow(const Fact& fact, PyObject* value) const {
  if (is_known(value) || is_argument(value) || is_born(value)) return false;
  auto hinted = [&] {
    return follows_all_ || (places_ && is_hinted(PathPrinter(facts_, roots_).access(fact)));
  };
  if (is_tensor(value))
    return is_plain_tensor_type(Py_TYPE(value)) && (fact.holder_slot >= 0 || hinted());
  if (is_number_object(value)) return numbers.sink() != nullptr && hinted();
  if (is_tuple_of_numbers(value)) return numbers.sink() != nullptr && hinted();
  if (!is_open(value)) return false;
  // Inside an object that is made anew, what nobody else refers to is made anew as well.
  if (fact.holder_slot >= 0 && (Py_REFCNT(value) <= 4 || PyTuple_Check(value))) return true;
  return hinted();
}

// Decides how a new fact is tied to the slots; it is the last one of facts_.
void Recording::follow(Fact& fact, int number) {
  if (auto it = slot_of_.find(fact.holder.get()); it != slot_of_.end())
    fact.holder_slot = it->second;
  PyObject* value = fact.expected.get();
  switch (fact.kind) {
    case FactKind::InstanceDict:
      if (!value || fact.holder_slot < 0) return;
      break;
    case FactKind::DictItem:
    case FactKind::TypeAttribute:
    case FactKind::Cell:
    case FactKind::ListItem:
    case FactKind::TupleItem:
    case FactKind::Slot:
    case FactKind::Getset:
      if (!value ||
          (fact.by == MatchBy::Value && !is_number_object(value) && !is_tuple_of_numbers(value)))
        return;
      break;
    default:
      return;
  }
  if (auto it = slot_of_.find(value); it != slot_of_.end()) {
    fact.by = MatchBy::Same;
    fact.length = it->second;
    for (const auto& [other, nodes] : tuple_nodes_) {
      if (facts_[static_cast<size_t>(other)].slot != it->second) continue;
      tuple_nodes_.emplace(number, std::vector<int>(nodes));
      return;
    }
    return;
  }
  if (fact.kind != FactKind::InstanceDict && !should_follow(fact, value)) return;
  fact.by = MatchBy::Type;
  fact.slot = new_slot(value);
  value = slot_objects_.back().get();
  fact.expected = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value)));
  if (is_number_object(value)) return follow_number(fact, number);
  if (is_tensor(value)) arguments_.insert(value);
  if (known_.emplace(value, number).second) Py_INCREF(value);
  if (!PyTuple_Check(value)) return;
  fact.length = PyTuple_GET_SIZE(value);
  follow_items(value, number);
}

void Recording::follow_number(Fact& fact, int number) {
  PyObject* value = slot_objects_[static_cast<size_t>(fact.slot)].get();
  fact.node = numbers.sink()->input(value, PathPrinter(facts_, roots_).access(fact));
  number_facts_.push_back(number);
}

// A tuple cannot change, so no fact would be recorded when its items are taken.
void Recording::follow_items(PyObject* tuple, int tuple_fact) {
  const int slot = facts_[static_cast<size_t>(tuple_fact)].slot;
  // Numbers go on from where the tuple is read (`Source`); not those of a tuple inside.
  std::vector<int> nodes(static_cast<size_t>(PyTuple_GET_SIZE(tuple)), -1);
  const bool is_read = PyTuple_CheckExact(tuple) && numbers.sink() != nullptr &&
                       facts_[static_cast<size_t>(tuple_fact)].kind != FactKind::TupleItem;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    const int number = static_cast<int>(facts_.size());
    PyRef index = PyRef::steal(PyLong_FromSsize_t(i));
    facts_.push_back(Fact{FactKind::TupleItem, match_by(item), PyRef::borrow(tuple), index,
                          PyRef::borrow(item), PyRef(), i, tuple_fact, here()});
    Fact& fact = facts_.back();
    fact.holder_slot = slot;
    if (is_number_object(item)) {
      if (!is_read) continue;
      fact.by = MatchBy::Type;
      fact.slot = new_slot(item);
      fact.expected = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(item)));
      follow_number(fact, number);
      nodes[static_cast<size_t>(i)] = fact.node;
      continue;
    }
    follow(fact, number);
    if (fact.slot < 0) know(item, number);
  }
  if (std::any_of(nodes.begin(), nodes.end(), [](int node) { return node >= 0; }))
    tuple_nodes_.emplace(tuple_fact, std::move(nodes));
}

// Items of a list or dict that are followed get facts of their own; the fact about the whole then
// says nothing about them.
void Recording::separate_items(PyObject* container, PyObject* items) {
  if (!places_ && slot_of_.empty()) return;
  const bool is_dict = PyDict_Check(container);
  const Py_ssize_t n = PyTuple_GET_SIZE(items);
  auto parent = known_.find(container);
  auto slot = slot_of_.find(container);
  // If one item changes, so may its neighbours.
  const std::string place = path(container);
  follows_all_ = false;
  for (Py_ssize_t i = is_dict ? 1 : 0; places_ && i < n; i += is_dict ? 2 : 1) {
    std::string name = std::to_string(i);
    if (is_dict) name = describe_object(PyTuple_GET_ITEM(items, i - 1), 40);
    follows_all_ = follows_all_ || is_hinted(place + "[" + name + "]");
  }
  struct Done {
    bool& flag;
    ~Done() { flag = false; }
  } done{follows_all_};
  for (Py_ssize_t i = is_dict ? 1 : 0; i < n; i += is_dict ? 2 : 1) {
    PyObject* item = PyTuple_GET_ITEM(items, i);
    PyRef index = PyRef::steal(PyLong_FromSsize_t(i));
    PyObject* key = is_dict ? PyTuple_GET_ITEM(items, i - 1) : index.get();
    if (is_dict && !is_safe_key(key)) continue;
    key = canonical(key);
    const FactKind kind = is_dict ? FactKind::DictItem : FactKind::ListItem;
    auto known = index_.find({static_cast<int>(kind), container, key});
    if (known == index_.end()) {
      Fact fact{kind,
                match_by(item),
                PyRef::borrow(container),
                PyRef::borrow(key),
                PyRef::borrow(item),
                PyRef(),
                i,
                parent == known_.end() ? kNoParent : parent->second,
                {}};
      if (slot != slot_of_.end()) fact.holder_slot = slot->second;
      if (!slot_of_.count(item) && !should_follow(fact, item)) continue;
      add_fact(kind, container, key, item, match_by(item)).number = i;
      known = index_.find({static_cast<int>(kind), container, key});
    }
    const Fact& fact = facts_[static_cast<size_t>(known->second)];
    if (fact.slot < 0 && fact.by != MatchBy::Same) continue;
    // Whoever reads the whole may do anything with the numbers in it.
    number_reads_.push_back(known->second);
    fix_number_reads(number_reads_.size() - 1);
    Py_INCREF(any_item());
    PyTuple_SET_ITEM(items, i, any_item());
    Py_DECREF(item);
  }
}

bool Recording::was_appended_to(PyObject* list) {
  if (!appended_.count(list)) return false;
  wanted_places_.push_back(path(list) + "[:]");
  refuse("reads " + path(list) + " after appending to it");
  return true;
}

std::string place_to_follow(const PathPrinter& printer, const Fact& fact, PyObject* found,
                            const std::vector<PyRef>& slots) {
  if (fact.by == MatchBy::Type) return "";
  PyObject* holder = fact.holder_slot >= 0 ? slots[static_cast<size_t>(fact.holder_slot)].get()
                                           : fact.holder.get();
  PyObject* before = fact.by == MatchBy::Same ? slots[static_cast<size_t>(fact.length)].get()
                                              : fact.expected.get();
  const bool is_list = fact.kind == FactKind::ListAll;
  if (is_list || fact.kind == FactKind::DictAll) {
    PyRef now = is_list ? items_in_order(holder) : PyRef::steal(PyTuple_New(0));
    if (!is_list) {
      PyRef pairs = PyRef::steal(PyList_New(0));
      PyObject *key, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(holder, &position, &key, &value)) {
        PyList_Append(pairs.get(), key);
        PyList_Append(pairs.get(), value);
      }
      now = PyRef::steal(PyList_AsTuple(pairs.get()));
    }
    if (PyTuple_GET_SIZE(now.get()) != PyTuple_GET_SIZE(before)) return "";
    for (Py_ssize_t i = is_list ? 0 : 1; i < PyTuple_GET_SIZE(before); i += is_list ? 1 : 2) {
      PyObject* old = PyTuple_GET_ITEM(before, i);
      PyObject* item = PyTuple_GET_ITEM(now.get(), i);
      if (old == any_item() || matches(item, old, match_by(old))) continue;
      if (!is_liftable_pair(old, item)) return "";
      PyRef index = PyRef::steal(PyLong_FromSsize_t(i));
      Fact single{is_list ? FactKind::ListItem : FactKind::DictItem,
                  match_by(old),
                  fact.holder,
                  is_list ? index : PyRef::borrow(PyTuple_GET_ITEM(before, i - 1)),
                  PyRef::borrow(old),
                  PyRef(),
                  i,
                  fact.parent,
                  {}};
      return printer.access(single);
    }
    return "";
  }
  return is_liftable_pair(before, found) ? printer.access(fact) : "";
}

// What the run read and then changed itself, and which the next run will find changed.
void Recording::find_changes(const std::vector<const Fact*>& ended, Observation& out) const {
  PathPrinter printer(facts_, roots_);
  for (const Fact* fact : ended) {
    PyRef found;
    if (fact_holds(*fact, slot_objects_, &found)) continue;
    std::string place = place_to_follow(printer, *fact, found.get(), slot_objects_);
    if (!place.empty() && !is_hinted(place)) out.changed.push_back(std::move(place));
  }
  for (const std::string& place : wanted_places_) {
    if (!is_hinted(place)) out.changed.push_back(place);
  }
}

// Numbers that the program takes are inputs of it; the others are guarded by their values after
// all.
void Recording::hand_over_numbers(Observation& out) {
  for (int number : number_facts_) {
    Fact& fact = facts_[static_cast<size_t>(number)];
    if (numbers.sink()->is_free(fact.node)) {
      if (fact.slot < 0) fact.by = MatchBy::NumberType;
      out.numbers.push_back({fact.node, fact.slot, fact.slot < 0 ? number : -1});
    } else if (fact.slot >= 0) {
      fact.by = MatchBy::Value;
      fact.expected = slot_objects_[static_cast<size_t>(fact.slot)];
      fact.slot = -1;
    }
  }
  numbers.hand_over(out.number_objects, out.number_owners);
}

// Dynamic facts keep no objects of this run, only words for them.
void Recording::hand_over_slots(Observation& out) {
  if (slot_objects_.empty()) return;
  PathPrinter printer(facts_, roots_);
  std::vector<std::string> texts;
  for (const Fact& fact : facts_) texts.push_back(fact.is_dynamic() ? printer.access(fact) : "");
  size_t i = 0;
  for (Fact& fact : facts_) {
    std::string& text = texts[i++];
    if (!fact.is_dynamic()) continue;
    if (fact.slot >= 0) {
      PyObject* object = slot_objects_[static_cast<size_t>(fact.slot)].get();
      if (is_tensor(object)) out.tensors.push_back({object, text, false, fact.slot});
    }
    fact.text = std::move(text);
  }
  for (Fact& fact : facts_) {
    if (fact.holder_slot >= 0) fact.holder = PyRef();
  }
  out.slots = slot_of_;
}

}  // namespace fulgurite::python::watching
