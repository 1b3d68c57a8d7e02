// The facts of a recording and the flat program that checks them.
//
// A Fact says: looking for `key` in `holder`, in the way of `kind`, gives `expected`. Some facts
// are *dynamic*: what they find differs from call to call, goes to a slot, and may be the holder of
// further facts. Those are checked one by one, in the order in which they were recorded, by
// `resolve`. For all others the check is
// three passes over flat arrays, in order of cost:
//   words    *address == expected           cells, instance dicts, function code, types, slots
//   dicts    dict version tag unchanged     all facts about one dict stand behind one compare
//   types    type version tag unchanged     all facts about one class likewise
// and a fourth over the facts that have no tag (lists, sets, getset attributes). Where a tag or
// word differs, the facts behind it are checked one by one, and a tag that moved for another reason
// is refreshed. Holders and expected values are owned, so no address can be used again.
#pragma once

#include <Python.h>

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "py_ref.h"
#include "values.h"
#include "watcher.h"

namespace fulgurite::python::watching {

enum class FactKind : uint8_t {
  DictItem,       // dict.get(key)
  DictAll,        // keys and values in order; expected: tuple (k0, v0, k1, v1, ...)
  DictLength,     // number
  OrderedAll,     // the order of an OrderedDict's keys; expected: tuple
  TypeAttribute,  // _PyType_Lookup(holder, key)
  Cell,           // key: the variable's name
  ListAll,        // of a list or deque; expected: tuple; extra: the maxlen of a deque
  ListLength,     // number
  ListItem,       // number: index; key: the index as an int
  SetAll,         // expected: tuple in table order
  SetContains,    // number: whether key is in it
  Slot,           // a __slots__ or other object member, through descriptor `extra`
  Getset,         // a getset attribute of an audited type, through descriptor `extra`
  FunctionCode,  // expected: code, key: kwdefaults, extra: defaults; number: a bit for each default
                 // that was used, counted from the end (the last is bit 1)
  CallResult,    // an audited query without state: holder(*extra)
  TypeOf,        // type(holder)
  InstanceDict,  // the object that is holder.__dict__
  WeakReference,  // what a weakref points to
  ContextVariable,
  ThreadLocal,  // an attribute of a threading.local
  TupleItem,    // number: index
  CachedCall,   // holder: the results of lru_cache `extra`; expected: the one under key
  Mro,          // the method resolution order of a class; expected: tuple
  Protocol,     // what a class has under the names of special methods; number: of operators, too
};

// A place in a program, resolved to a line only when someone asks.
struct Place {
  PyRef code;
  int offset = 0;
};
SourceLocation locate(const Place& place);
std::string short_location(const Place& place);

struct Fact {
  FactKind kind;
  MatchBy by;
  PyRef holder;
  PyRef key;
  PyRef expected;
  PyRef extra;
  Py_ssize_t number = 0;
  int parent =
      0;  // the fact through which the holder was reached, or a root (see GuardTable::roots)
  Place place;
  int slot = -1;          // where what is found goes
  int holder_slot = -1;   // where the holder comes from; -1: it is `holder`
  Py_ssize_t length = 0;  // MatchBy::Type with a tuple type: how long it is; Same: the slot
  int node = -1;          // of a number that differs from call to call (numbers.h)
  std::string text{};     // of a dynamic fact: its access, as its objects are not kept
  bool is_dynamic() const { return slot >= 0 || holder_slot >= 0 || by == MatchBy::Same; }
};

constexpr Py_ssize_t kAllDefaults = -1;

// Stands for an item of a ListAll or DictAll that a fact of its own is about.
PyObject* any_item();

using Facts = std::deque<Fact>;  // references stay valid while facts are added

// How the state behind some kinds of fact is read, without running Python code.
PyObject* ordered_keys(PyObject* ordered_dict);            // a new tuple, in order
PyRef items_in_order(PyObject* list_or_deque);             // a new tuple
PyRef item_at(PyObject* list_or_deque, Py_ssize_t index);  // null beyond its end
Py_ssize_t count_items(PyObject* list_or_deque);
PyRef maxlen_of(PyObject* list_or_deque);                        // null of a list
bool set_contains(PyObject* set, PyObject* key);                 // by a scan
PyObject* slot_value(PyObject* holder, PyObject* descriptor);    // new reference or null
PyObject* getset_value(PyObject* holder, PyObject* descriptor);  // new reference or null

// What C code looks up in a class without being told to by the program.
const std::vector<PyObject*>& special_names(bool operators);
PyRef special_methods(PyTypeObject* type, bool operators);  // a new tuple
bool has_special_methods(PyTypeObject* type, bool operators, PyObject* expected);

// `slots`: the objects in the slots so far; `found`, if given, gets what was found (a dynamic fact
// only).
bool fact_holds(const Fact& fact, const std::vector<PyRef>& slots, PyRef* found = nullptr);
// What the fact finds now, printed.
std::string current_value(const Fact& fact, const std::vector<PyRef>& slots);

constexpr int kNoParent = -1;  // root i is written as -2 - i

// Whether two facts are the same: where one holds, the other does. Not for dynamic facts.
bool same_fact(const Fact& a, const Fact& b);

class GuardTable {
 public:
  // `pinned`: by slot, the object that has to be there; null: any.
  GuardTable(Facts facts, std::vector<std::string> roots, std::vector<PyRef> tensors,
             std::vector<PyRef> pinned, size_t slots);

  // The dynamic facts. `slots` begins with the objects that the caller gives and gets the rest.
  bool resolve(std::vector<PyRef>& slots) const;
  bool check();
  // What `held`, all of which has just held, does not say as well.
  bool check_beside(const GuardTable& held);
  // Numbers the facts: those that `like` has too get its numbers. See GuardProgram.
  void number_facts(const GuardTable* like);
  uint32_t number_of(size_t fact) const { return fact < ids_.size() ? ids_[fact] : 0; }
  uint32_t failed() const { return number_of(failed_); }
  bool has_fact(uint32_t number) const;
  std::string changing_place(const std::vector<PyRef>& given) const;
  bool holds_facts_about(PyObject* object) const;
  size_t size() const { return facts_.size(); }
  std::vector<GuardInfo> describe() const;
  std::string explain_failure(const std::vector<PyRef>& given);
  PyObject* number(uint32_t fact) const;
  std::vector<std::string> varied() const;
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Word {
    PyObject** address;
    PyObject* expected;
    uint32_t fact;
  };
  struct DictGroup {
    PyDictObject* dict;
    uint64_t tag;
    uint32_t begin, end;  // in grouped_
  };
  struct TypeGroup {
    PyTypeObject* type;
    unsigned version;
    uint32_t begin, end;
  };

  // The facts that are not dynamic, or some of them.
  struct Checks {
    std::vector<Word> words;
    std::vector<DictGroup> dicts;
    std::vector<TypeGroup> types;
    std::vector<uint32_t> untagged;
    std::vector<uint32_t> grouped;
  };

  // Without those that `held` has, if it is given.
  Checks compile(const GuardTable* held) const;
  bool check(Checks& checks);
  bool all_hold(const Checks& checks, uint32_t begin, uint32_t end);
  bool fails(uint32_t fact) {
    failed_ = fact;
    return false;
  }

  Checks checks_;
  std::unordered_map<uint64_t, Checks> beside_;  // by the serial number of the other table
  uint64_t serial_ = 0;
  std::vector<uint32_t> dynamic_;
  size_t slots_ = 0;
  std::vector<uint32_t> ids_, sorted_ids_;           // once numbered
  mutable size_t failed_ = static_cast<size_t>(-1);  // the fact that failed last
  std::vector<PyRef> pinned_;
  Facts facts_;
  std::vector<std::string> roots_;
  std::vector<PyRef> tensors_;
};

// How the objects that facts talk about are written: "self.layers[0].weight".
class PathPrinter {
 public:
  PathPrinter(const Facts& facts, const std::vector<std::string>& roots)
      : facts_(facts), roots_(roots) {}
  std::string object(PyObject* object, int parent, int depth = 0) const;
  std::string access(const Fact& fact, int depth = 0) const;  // what the fact looks at
  std::string expression(const Fact& fact) const;             // "... == value"

 private:
  std::string inside(const Fact& container, PyObject* object, int depth) const;
  const Fact* fact_of(int parent) const;
  const Facts& facts_;
  const std::vector<std::string>& roots_;
};

// The place that a fact looks at, if it found another object of the same kind than it expects:
// following what is there may serve both. "" otherwise.
std::string place_to_follow(const PathPrinter& printer, const Fact& fact, PyObject* found,
                            const std::vector<PyRef>& slots);

const char* fact_kind_name(FactKind kind);

}  // namespace fulgurite::python::watching
