// The facts of a recording and the flat program that checks them.
//
// A Fact says: looking for `key` in `holder`, in the way of `kind`, gives `expected`. The check is
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
#include <string>
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
  ListAll,        // expected: tuple
  ListLength,     // number
  ListItem,       // number: index; key: the index as an int
  SetAll,         // expected: tuple in table order
  SetContains,    // number: whether key is in it
  Slot,           // a __slots__ or other object member, through descriptor `extra`
  Getset,         // a getset attribute of an audited type, through descriptor `extra`
  FunctionCode,   // expected: code, extra: defaults, key: kwdefaults
  CallResult,     // an audited query without state: holder(*extra)
  TypeOf,         // type(holder)
  InstanceDict,   // the object that is holder.__dict__
  WeakReference,  // what a weakref points to
  ContextVariable,
  CachedCall,  // holder: the results of lru_cache `extra`; expected: the one under key
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
};

// How the state behind some kinds of fact is read, without running Python code.
PyObject* ordered_keys(PyObject* ordered_dict);                  // a new tuple, in order
bool set_contains(PyObject* set, PyObject* key);                 // by a scan
PyObject* slot_value(PyObject* holder, PyObject* descriptor);    // new reference or null
PyObject* getset_value(PyObject* holder, PyObject* descriptor);  // new reference or null

bool fact_holds(const Fact& fact);
// What the fact finds now, printed.
std::string current_value(const Fact& fact);

constexpr int kNoParent = -1;  // root i is written as -2 - i

class GuardTable {
 public:
  GuardTable(std::vector<Fact> facts, std::vector<std::string> roots, std::vector<PyRef> tensors);

  bool check();
  size_t size() const { return facts_.size(); }
  std::vector<GuardInfo> describe() const;
  std::string explain_failure();
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

  void compile();
  bool all_hold(uint32_t begin, uint32_t end) const;

  std::vector<Word> words_;
  std::vector<DictGroup> dicts_;
  std::vector<TypeGroup> types_;
  std::vector<uint32_t> untagged_;
  std::vector<uint32_t> grouped_;
  std::vector<Fact> facts_;
  std::vector<std::string> roots_;
  std::vector<PyRef> tensors_;
};

// How the objects that facts talk about are written: "self.layers[0].weight".
class PathPrinter {
 public:
  PathPrinter(const std::vector<Fact>& facts, const std::vector<std::string>& roots)
      : facts_(facts), roots_(roots) {}
  std::string object(PyObject* object, int parent, int depth = 0) const;
  std::string access(const Fact& fact, int depth = 0) const;  // what the fact looks at
  std::string expression(const Fact& fact) const;             // "... == value"

 private:
  std::string inside(const Fact& container, PyObject* object, int depth) const;
  const Fact* fact_of(int parent) const;
  const std::vector<Fact>& facts_;
  const std::vector<std::string>& roots_;
};

const char* fact_kind_name(FactKind kind);

}  // namespace fulgurite::python::watching
