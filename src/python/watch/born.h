// Which objects were born during a watched run.
//
// A hook on Python's object allocator notes the address of every block that the watching thread
// allocates; an object is born if its block is in the set. Blocks are never taken out: whatever
// lives at such an address later is younger than the run's beginning, so the answer stays right.
// CPython's free lists bypass the allocator, so they are set aside for the length of the run and
// those of lists and dicts are emptied as they fill.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fulgurite::python::watching {

// An open-addressing set of addresses; `clear` keeps the memory of ordinary runs.
class AddressSet {
 public:
  AddressSet() : slots_(kSmallest) {}
  void insert(uintptr_t address) {
    if (full()) return;
    if ((taken_.size() + 1) * 2 > slots_.size()) grow();
    place(address);
  }
  bool contains(uintptr_t address) const {
    size_t mask = slots_.size() - 1;
    for (size_t i = hash(address) & mask; slots_[i] != 0; i = (i + 1) & mask) {
      if (slots_[i] == address) return true;
    }
    return false;
  }
  void clear();
  // So many objects that the recording has to be given up; no more are taken in.
  bool full() const { return taken_.size() >= kMost; }

 private:
  static constexpr size_t kSmallest = size_t{1} << 14;
  static constexpr size_t kMost = size_t{1} << 24;
  static constexpr size_t kKept = size_t{1} << 18;
  static size_t hash(uintptr_t address) { return (address >> 4) * 0x9E3779B97F4A7C15ull >> 20; }
  void place(uintptr_t address);
  void grow();

  std::vector<uintptr_t> slots_;
  std::vector<uint32_t> taken_;  // which of the slots are in use
};

// Collects the allocations of this thread into `born` for the length of a scope.
class AllocationWatch {
 public:
  explicit AllocationWatch(AddressSet* born);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;
};

// Gives the blocks in the free lists of lists and dicts back to the allocator.
void drain_free_lists();

// The address of the block in which `object` lives: what the interpreter keeps for the garbage
// collector, its dict and its weak references comes first.
inline uintptr_t block_of(PyObject* object) {
#if PY_VERSION_HEX >= 0x030C0000
  constexpr unsigned long kManaged = Py_TPFLAGS_MANAGED_DICT | Py_TPFLAGS_MANAGED_WEAKREF;
#else
  constexpr unsigned long kManaged = Py_TPFLAGS_MANAGED_DICT;
#endif
  unsigned long flags = Py_TYPE(object)->tp_flags;
  return reinterpret_cast<uintptr_t>(object) - (flags & Py_TPFLAGS_HAVE_GC ? 16 : 0) -
         (flags & kManaged ? 16 : 0);
}

}  // namespace fulgurite::python::watching
