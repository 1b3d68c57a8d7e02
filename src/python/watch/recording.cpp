// The bookkeeping of a recording: facts, known objects, writes, refusals, and its end.
#include "internals.h"

#include "recording.h"

#include <algorithm>

namespace fulgurite::python::watching {
namespace {

constexpr size_t kMostFacts = 200'000;
constexpr size_t kMostEffects = 20'000;
constexpr size_t kMostRefusals = 50;

uint64_t version_now() {
  PyRef fresh = PyRef::steal(PyDict_New());
  PyDict_SetItemString(fresh.get(), "x", Py_None);
  return version_of(fresh.get());
}

}  // namespace

const Names& names() {
  static const Names table = [] {
    auto s = PyUnicode_InternFromString;
    return Names{s("__dict__"),
                 s("__class__"),
                 s("__getattr__"),
                 s("__getattribute__"),
                 s("__setattr__"),
                 s("__delattr__"),
                 s("__call__"),
                 s("__getitem__"),
                 s("__setitem__"),
                 s("__delitem__"),
                 s("__iter__"),
                 s("__next__"),
                 s("__bool__"),
                 s("__len__"),
                 s("__contains__"),
                 s("__enter__"),
                 s("__exit__"),
                 s("__missing__"),
                 s("__init__"),
                 s("__new__"),
                 s("grad"),
                 s("__instancecheck__"),
                 s("__subclasscheck__"),
                 s("__get__"),
                 s("__set__"),
                 s("__delete__"),
                 s("__hash__"),
                 s("__eq__"),
                 s("__build_class__"),
                 s("__class_getitem__"),
                 s("__format__"),
                 s("__spec__")};
  }();
  return table;
}

Recording::Recording(AddressSet* born, const WatchOptions& options)
    : born_(born), start_tag_(version_now()), canonical_keys_(PyRef::steal(PyDict_New())) {
  index_.reserve(512);
  known_.reserve(512);
  frames.reserve(64);
  for (PyObject* container : options.argument_structure) arguments_.insert(container);
  on_grad_access_ = options.on_grad_access;
  on_requires_grad_ = options.on_requires_grad;
  on_alias_ = options.on_alias;
  grad_context_ = options.context;
  places_ = options.places;
  for (PyObject* object : options.followed) new_slot(object);
  numbers.start(options.numbers);
  functions.set_sink(options.functions);
  varying_ = options.varying;
  for (const auto& [object, node] : options.number_arguments) numbers.track(object, node);
}

Recording::~Recording() {
  for (auto& [object, parent] : known_) Py_DECREF(object);
}

void Recording::add_root(PyObject* object, std::string label) {
  roots_.push_back(std::move(label));
  know(object, -1 - static_cast<int>(roots_.size()));
}

void Recording::add_argument(PyObject* object, std::string label, int depth) {
  add_root(object, label);
  if (is_tensor(object)) arguments_.insert(object);
  if (!is_argument(object) && !PyTuple_CheckExact(object)) return;
  if (depth > 8) return;
  auto child = [&](PyObject* item, const std::string& key) {
    if (!is_value(item)) add_argument(item, label + "[" + key + "]", depth + 1);
  };
  if (PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      child(PyTuple_GET_ITEM(object, i), std::to_string(i));
    }
  } else if (PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      child(PyList_GET_ITEM(object, i), std::to_string(i));
    }
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) child(value, describe_object(key, 40));
  }
}

bool Recording::is_born(PyObject* object) const {
  return born_->contains(block_of(object)) && (not_born_.empty() || !not_born_.count(object));
}

void Recording::keep(PyObject* object) { kept_.push_back(PyRef::borrow(object)); }

// What is inside something that the guards fix is fixed as well.
void Recording::know_inside(PyObject* object, int parent) {
  if (object && !slot_of_.empty() && is_followed(object)) pin(object);
  know(object, parent);
}

// Known objects are owned until the recording ends, so that their addresses stay theirs. Those born
// during the run are not: the program decides how long they live.
void Recording::know(PyObject* object, int parent) {
  if (!object) return;
  if (!PyTuple_Check(object) && is_value(object)) return;
  if (parent >= 0 && is_argument(object)) reach_argument(object, parent);
  if (!is_born(object)) {
    if (!known_.emplace(object, parent).second) return;
    Py_INCREF(object);
  }
  if (PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      know_inside(PyTuple_GET_ITEM(object, i), parent);
  } else if (PyMethod_Check(object)) {
    know_inside(PyMethod_GET_SELF(object), parent);
    know_inside(PyMethod_GET_FUNCTION(object), parent);
  } else if (PyCFunction_Check(object)) {
    know_inside(PyCFunction_GET_SELF(object), parent);
  } else if (PyFunction_Check(object)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(object);
    know_inside(function->func_defaults, parent);
    know_inside(function->func_closure, parent);
    know_inside(function->func_globals, kNoParent);
    if (PyObject* defaults = function->func_kwdefaults) {
      know_inside(defaults, parent);
      PyObject *key, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(defaults, &position, &key, &value)) know_inside(value, parent);
    }
  } else if (Py_TYPE(object) == &PyStaticMethod_Type || Py_TYPE(object) == &PyClassMethod_Type) {
    know_inside(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + sizeof(PyObject)),
                parent);
  }
}

// An argument that the program finds in Python state as well. The next call may bring another
// object as the argument while the one in the state stays: tensors are reported, containers
// refused.
void Recording::reach_argument(PyObject* object, int parent) {
  if (is_tensor(object)) {
    reached_arguments_.emplace(object, parent);
  } else {
    refuse("finds the argument " + path(object) +
           " in Python state as well, and may change with either");
  }
}

bool Recording::has_origin(PyObject* object) const {
  if (!object || is_simple(object) || is_tensor(object)) return true;
  if (!PyTuple_CheckExact(object))
    return is_born(object) || is_known(object) || is_argument(object);
  // Tuples are immutable; and a free list may have hidden the birth of one.
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (!has_origin(PyTuple_GET_ITEM(object, i))) return false;
  }
  return true;
}

void Recording::require_origin(PyObject* object, const std::string& whence) {
  if (has_origin(object)) return;
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      require_origin(PyTuple_GET_ITEM(object, i), whence);
    }
    return;
  }
  know(object, kNoParent);
  refuse("gets a " + describe_object(object) + " from " + whence + ", which no guard covers");
}

Place Recording::here() const {
  for (auto it = frames.rbegin(); it != frames.rend(); ++it) {
    if (!it->user && it + 1 != frames.rend()) continue;
    const Frame& frame = it->user ? *it : frames.back();
    return {PyRef::borrow(reinterpret_cast<PyObject*>(code_of(frame.frame))),
            offset_of(frame.frame)};
  }
  return {};
}

SourceLocation locate(const Place& place) {
  if (!place.code) return {"<caller>", 0};
  auto* code = reinterpret_cast<PyCodeObject*>(place.code.get());
  return {text_of(code->co_filename), PyCode_Addr2Line(code, place.offset)};
}

std::string short_location(const Place& place) {
  SourceLocation where = locate(place);
  if (where.line == 0) return "the call";
  size_t slash = where.file.rfind('/');
  return (slash == std::string::npos ? where.file : where.file.substr(slash + 1)) + ":" +
         std::to_string(where.line);
}

// `dedup_key` is the fact's key, except where a kind has but one fact per holder.
Fact& Recording::add_fact(FactKind kind, PyObject* holder, PyObject* dedup_key, PyObject* expected,
                          MatchBy by, PyObject* key) {
  int number = static_cast<int>(facts_.size());
  index_.emplace(Key{static_cast<int>(kind), holder, dedup_key}, number);
  if (facts_.size() >= kMostFacts && !over) {
    refuse("reads too much state: more than " + std::to_string(kMostFacts) + " facts");
    over = true;
  }
  auto parent = known_.find(holder);
  facts_.push_back(Fact{kind, by, PyRef::borrow(holder), PyRef::borrow(key ? key : dedup_key),
                        PyRef::borrow(expected), PyRef(), 0,
                        parent == known_.end() ? kNoParent : parent->second, here()});
  Fact& fact = facts_.back();
  if (places_ != nullptr || !slot_of_.empty()) follow(fact, number);
  const bool is_tied = fact.slot >= 0 || fact.by == MatchBy::Same;
  if (!is_tied && expected && is_followed(expected)) pin(expected);
  if (fact.slot < 0) know(expected, number);
  // The place of an item is known only after its index is.
  if (kind != FactKind::ListItem) vary(number);
  note_number_read(number, holder, dedup_key);
  return fact;
}

PyObject* Recording::interned(PyObject* text) {
  if (PyUnicode_CHECK_INTERNED(text)) return text;
  if (PyObject* known = PyDict_GetItemWithError(canonical_keys_.get(), text)) return known;
  // (A copy: the program's own object stays as it is.)
  PyObject* copy = PyUnicode_FromKindAndData(PyUnicode_KIND(text), PyUnicode_DATA(text),
                                             PyUnicode_GET_LENGTH(text));
  if (copy != nullptr) PyUnicode_InternInPlace(&copy);
  const PyRef same = PyRef::steal(copy);
  if (!same || PyDict_SetItem(canonical_keys_.get(), text, same.get()) < 0) {
    PyErr_Clear();
    keep(text);
    return text;
  }
  return same.get();
}

// One object per key, so that equal keys that are different objects share facts.
PyObject* Recording::canonical(PyObject* key) {
  if (PyUnicode_CheckExact(key)) return interned(key);
  if (!is_safe_key(key) || is_tensor(key)) {
    keep(key);
    return key;
  }
  PyObject* same = PyDict_SetDefault(canonical_keys_.get(), key, key);
  if (!same) PyErr_Clear();
  return same ? same : key;
}

uint64_t Recording::base_tag(PyObject* dict) const {
  auto it = not_born_.find(dict);
  return it == not_born_.end() ? start_tag_ : it->second;
}

void Recording::see_dict(PyObject* dict) {
  if (is_born(dict)) return;  // may be gone when the run is over
  if (!owns_values(dict)) refuse("reads attributes without memory to watch them");
  if (dicts_.insert(dict).second) know(dict, kNoParent);
}

bool Recording::changed_unseen(PyObject* dict) const {
  return version_of(dict) > base_tag(dict) && !partly_written_.count(dict) &&
         !all_written_.count(dict) && !rewritten_.count(dict);
}

bool Recording::was_written(PyObject* container, PyObject* key) const {
  if (!all_written_.count(container) && !written_.count({0, container, key})) return false;
  return true;
}

void Recording::mark_written(PyObject* container, PyObject* key) {
  // A dict that is read as a whole after a change of the run's own is read before it as well: then
  // what is there follows from that and from the program.
  if (places_ && PyDict_Check(container) && !partly_written_.count(container) &&
      is_hinted(path(container) + "[:]"))
    read_all(container);
  if (PyDict_Check(container)) see_dict(container);
  pin(key);
  know(container, kNoParent);
  written_.insert({0, container, canonical(key)});
  partly_written_.insert(container);
}

void Recording::mark_all_written(PyObject* container) {
  if (PyDict_Check(container)) see_dict(container);
  know(container, kNoParent);
  all_written_.insert(container);
}

void Recording::effect(EffectKind kind, PyObject* holder, PyObject* key, PyObject* value,
                       std::string text) {
  if (kind == EffectKind::Io || kind == EffectKind::Other) ++impure_;
  if (effects_.size() >= kMostEffects) {
    if (!over)
      refuse("changes too much state: more than " + std::to_string(kMostEffects) + " writes");
    over = true;
    return;
  }
  // What is stored is made again by each call (recipe.h), with the program's numbers in it.
  numbers.fix_in(key);
  const bool may_vary =
      kind < EffectKind::Backward || kind == EffectKind::Print || kind == EffectKind::Log;
  if (!may_vary || kind == EffectKind::TensorAttr) numbers.fix_in(value);
  if (kind == EffectKind::TensorAttr && on_requires_grad_ != nullptr && !is_born(holder) &&
      text_of(key) == "requires_grad") {
    ErrorAside aside;
    on_requires_grad_(holder, grad_context_);
  }
  // Nobody will do again what a refused run did; its values may go when the program lets them go.
  if (!refusals_.empty()) value = nullptr;
  effects_.push_back({kind, PyRef::borrow(holder), PyRef::borrow(key), PyRef::borrow(value),
                      std::move(text), locate(here()), holder && is_born(holder),
                      holder && all_written_.count(holder) != 0});
}

void Recording::stop_if_too_long() {
  if (!born_->full()) return;
  refuse("makes too many objects to be recorded");
  over = true;
}

void Recording::refuse(const std::string& what) {
  ++impure_;
  if (over) return;
  SourceLocation where = locate(here());
  if (!refusal_texts_.insert(what + "\n" + where.file + std::to_string(where.line)).second) return;
  if (refusals_.empty()) {
    for (Effect& effect : effects_) effect.value = PyRef();
  }
  refusals_.push_back({what, where});
  if (refusals_.size() >= kMostRefusals) over = true;
}

void Recording::tensor_grad_read(PyObject* tensor) {
  if (!(is_known(tensor) || is_argument(tensor))) return;
  grad_access(tensor);
  grads_read_.insert(tensor);
}

void Recording::grad_access(PyObject* tensor) {
  ErrorAside aside;
  if (on_grad_access_ != nullptr && !is_born(tensor)) on_grad_access_(tensor, grad_context_);
}

void Recording::alias(PyObject* tensor) {
  ErrorAside aside;
  if (on_alias_ != nullptr && !is_born(tensor)) on_alias_(tensor, grad_context_);
}

const std::string& Recording::path(PyObject* object) const {
  static thread_local std::string unknown;
  PathPrinter printer(facts_, roots_);
  auto it = known_.find(object);
  if (it == known_.end()) return unknown = printer.object(object, kNoParent);
  auto [entry, added] = paths_.try_emplace(object);
  if (added) entry->second = printer.object(object, it->second);
  return entry->second;
}

// Whether a write of the run itself may have ended the fact.
bool Recording::is_explained(const Fact& fact) const {
  PyObject* holder = fact.holder.get();
  PyObject* key = fact.key.get();
  if (all_written_.count(holder)) return true;
  switch (fact.kind) {
    case FactKind::DictItem:
    case FactKind::TypeAttribute:
    case FactKind::Slot:
    case FactKind::Getset:
      return written_.count({0, holder, key}) != 0;
    case FactKind::Cell:
      return written_.count({0, holder, nullptr}) != 0;
    case FactKind::InstanceDict:
      return written_.count({0, holder, names().dict}) != 0;
    default:
      return partly_written_.count(holder) != 0;
  }
}

// The last net: what was read, and is different now without a write that was seen. All facts that
// no longer hold.
std::vector<const Fact*> Recording::refuse_unseen_changes() {
  std::vector<const Fact*> ended;
  for (PyObject* dict : dicts_) {
    if (!is_born(dict) && changed_unseen(dict)) {
      refuse("changes " + path(dict) + " in a way that the watcher did not see");
    }
  }
  PathPrinter printer(facts_, roots_);
  for (const Fact& fact : facts_) {
    if (is_about_unseen_change(fact))
      refuse("reads " + printer.access(fact) +
             ", which changed in a way that the watcher did not see");
    if (fact_holds(fact, slot_objects_)) continue;
    ended.push_back(&fact);
    if (is_explained(fact)) continue;
    refuse("changes " + printer.access(fact) + " in a way that the watcher did not see");
  }
  return ended;
}

void Recording::finish(Observation& out) {
  ErrorAside aside;
  refuse_changed_contexts();
  find_changes(refuse_unseen_changes(), out);
  for (auto& [object, parent] : known_) {
    if (is_tensor(object) && !is_born(object) && !is_argument(object)) {
      out.tensors.push_back({object, path(object), false});
    }
    if (grads_read_.count(object)) out.tensors.push_back({object, path(object) + ".grad", true});
  }
  for (auto& [tensor, parent] : reached_arguments_) {
    out.tensors.push_back({tensor, PathPrinter(facts_, roots_).object(tensor, parent), false});
  }
  std::sort(out.tensors.begin(), out.tensors.end(),
            [](const TensorRead& a, const TensorRead& b) { return a.path < b.path; });
  drop_undone_writes();
  numbers.fix_escaped_texts();
  hand_over_numbers(out);
  out.effects = std::move(effects_);
  out.pure_parts = std::move(pure_parts_);
  out.refusals = std::move(refusals_);
  out.opcodes = opcodes;
  out.asked_for_gradients = asked_for_gradients_;
  hand_over_slots(out);
  std::vector<PyRef> tensors;  // facts own all but those inside defaults and the like
  for (const TensorRead& read : out.tensors) {
    if (read.slot < 0) tensors.push_back(PyRef::borrow(read.tensor));
  }
  out.guards = GuardProgram(std::make_unique<GuardTable>(std::move(facts_), std::move(roots_),
                                                         std::move(tensors), std::move(pinned_),
                                                         slot_objects_.size()));
  out.known = KnownObjects(std::move(known_));
  known_.clear();
}

}  // namespace fulgurite::python::watching
