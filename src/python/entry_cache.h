// The programs of one function, found by a hash of the cheap part of their guards.
//
// The hash covers what is guarded exactly and is there without a search: how many arguments there
// are, their types, and the geometry of the tensors among them (containers are opened). An entry
// with another hash cannot serve the call, so that many entries cost little more than one.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fulgurite::python {

class Entry;

class EntryCache {
 public:
  static uint64_t key_of(PyObject* const* args, size_t nargs, PyObject* kwnames);

  // Drops the entry that was used longest ago if there are `most`. True if that one was never used.
  bool add(std::shared_ptr<Entry> entry, uint64_t key, size_t most);
  void remove(const Entry* entry);
  // True if there were any.
  bool remove_if(bool (*predicate)(const Entry&));
  // How many of this key were never used; of those that differ in the geometry of what their guards
  // find (a cache that grows), the most that agree.
  size_t count_unused(uint64_t key) const;
  void remove_unused(uint64_t key);
  void clear();

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  // The first entry at or after `i` with this key; size() if there is none.
  size_t find(uint64_t key, size_t i) const {
    while (i < keys_.size() && keys_[i] != key) ++i;
    return i;
  }
  size_t index_of(const Entry* entry) const;  // size() if it is not there
  const std::shared_ptr<Entry>& operator[](size_t i) const { return entries_[i]; }
  // Entry i served a call: it comes before the others of its key.
  void used(size_t i);
  // The entry that is nearest to a call that none could serve: of the same key if there is one, the
  // last used; null if there are no entries.
  std::shared_ptr<Entry> nearest(uint64_t key) const;
  std::vector<std::shared_ptr<Entry>> last_used_first() const;

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<uint64_t> keys_;
  std::vector<std::shared_ptr<Entry>> entries_;
  uint64_t clock_ = 0;
};

}  // namespace fulgurite::python
