// Implementation of born.h. `original` is the allocator below our hook; `watchers` counts the
// threads that watch at the same time, and the first and last of them install and remove hook and
// free lists. All of it is guarded by the GIL, which the object allocator needs anyway.
#include "internals.h"

#include "born.h"

#include <internal/pycore_context.h>
#include <internal/pycore_tuple.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace fulgurite::python::watching {
namespace {

thread_local AddressSet* born_here = nullptr;
PyMemAllocatorEx original;
int watchers = 0;
bool hooked = false;

void note(void* block) {
  if (block && born_here) born_here->insert(reinterpret_cast<uintptr_t>(block));
}
void* hook_malloc(void*, size_t size) {
  void* block = original.malloc(original.ctx, size);
  note(block);
  return block;
}
void* hook_calloc(void*, size_t count, size_t size) {
  void* block = original.calloc(original.ctx, count, size);
  note(block);
  return block;
}
void* hook_realloc(void*, void* old, size_t size) {
  void* block = original.realloc(original.ctx, old, size);
  if (block != old) note(block);
  return block;
}
void hook_free(void*, void* block) { original.free(original.ctx, block); }

// Where the interpreter keeps the blocks of objects that are gone: in an array, or linked to one
// another.
template <typename T>
struct Stack {
  T** items;
  int* count;
};
template <typename T>
struct Chain {
  T** head;
  int* count;
};

struct FreeLists {
  Chain<PyFloatObject> floats;
  Chain<PyContext> contexts;
  std::array<Chain<PyTupleObject>, PyTuple_NFREELISTS> tuples;  // by length
  Stack<PyListObject> lists;
  Stack<PyDictObject> dicts;
  Stack<PyDictKeysObject> keys;
  Stack<struct _PyAsyncGenWrappedValue> async_values;
  Stack<struct PyAsyncGenASend> async_sends;
  PySliceObject** slice;
};

Stack<PyListObject> free_list_blocks(PyInterpreterState* interp) {
#if PY_VERSION_HEX >= 0x030D0000
  auto& at = interp->object_state.freelists.lists;
  return {at.items, &at.numfree};
#else
  return {interp->list.free_list, &interp->list.numfree};
#endif
}

Stack<PyDictObject> free_dict_blocks(PyInterpreterState* interp) {
#if PY_VERSION_HEX >= 0x030D0000
  auto& at = interp->object_state.freelists.dicts;
  return {at.items, &at.numfree};
#else
  return {interp->dict_state.free_list, &interp->dict_state.numfree};
#endif
}

FreeLists free_lists() {
  PyInterpreterState* interp = PyInterpreterState_Get();
  FreeLists all{};
  all.lists = free_list_blocks(interp);
  all.dicts = free_dict_blocks(interp);
#if PY_VERSION_HEX >= 0x030D0000
  struct _Py_object_freelists& at = interp->object_state.freelists;
  all.floats = {&at.floats.items, &at.floats.numfree};
  all.contexts = {&at.contexts.items, &at.contexts.numfree};
  for (size_t i = 0; i < all.tuples.size(); ++i)
    all.tuples[i] = {&at.tuples.items[i], &at.tuples.numfree[i]};
  all.keys = {at.dictkeys.items, &at.dictkeys.numfree};
  all.async_values = {at.async_gens.items, &at.async_gens.numfree};
  all.async_sends = {at.async_gen_asends.items, &at.async_gen_asends.numfree};
  all.slice = &at.slices.slice_cache;
#else
  all.floats = {&interp->float_state.free_list, &interp->float_state.numfree};
  all.contexts = {&interp->context.freelist, &interp->context.numfree};
  for (size_t i = 0; i < all.tuples.size(); ++i)
    all.tuples[i] = {&interp->tuple.free_list[i], &interp->tuple.numfree[i]};
  all.keys = {interp->dict_state.keys_free_list, &interp->dict_state.keys_numfree};
  all.async_values = {interp->async_gen.value_freelist, &interp->async_gen.value_numfree};
  all.async_sends = {interp->async_gen.asend_freelist, &interp->async_gen.asend_numfree};
  all.slice = &interp->slice_cache;
#endif
  return all;
}

void free_keys(PyDictKeysObject* keys) {
#if PY_VERSION_HEX >= 0x030D0000
  PyMem_Free(keys);
#else
  PyObject_Free(keys);
#endif
}

// What was in a list before the run.
template <typename T>
struct Aside {
  std::vector<T*> items;  // of a stack
  T* head = nullptr;      // of a chain
  int count = 0;

  void take(Stack<T> list) {
    items.assign(list.items, list.items + *list.count);
    *list.count = 0;
  }
  void take(Chain<T> list) {
    head = std::exchange(*list.head, nullptr);
    count = std::exchange(*list.count, 0);
  }
  void put_back(Stack<T> list) {
    std::copy(items.begin(), items.end(), list.items);
    *list.count = static_cast<int>(items.size());
  }
  void put_back(Chain<T> list) {
    *list.head = head;
    *list.count = count;
  }
};

struct {
  Aside<PyFloatObject> floats;
  Aside<PyContext> contexts;
  std::array<Aside<PyTupleObject>, PyTuple_NFREELISTS> tuples;
  Aside<PyListObject> lists;
  Aside<PyDictObject> dicts;
  Aside<PyDictKeysObject> keys;
  Aside<struct _PyAsyncGenWrappedValue> async_values;
  Aside<struct PyAsyncGenASend> async_sends;
  PySliceObject* slice;
} aside;

template <typename T>
void drain(Stack<T> list, void (*give_back)(T*)) {
  while (*list.count > 0) give_back(list.items[--*list.count]);
}

// `next`: where a block says which comes after it.
template <typename T, typename Next>
void drain(Chain<T> list, Next next, void (*give_back)(T*)) {
  for (T* block = *list.head; block != nullptr;) {
    T* following = reinterpret_cast<T*>(next(block));
    give_back(block);
    block = following;
  }
}

template <typename T>
void give_collected(T* block) {
  PyObject_GC_Del(block);
}

void set_free_lists_aside() {
  const FreeLists all = free_lists();
  aside.floats.take(all.floats);
  aside.contexts.take(all.contexts);
  for (size_t i = 0; i < all.tuples.size(); ++i) aside.tuples[i].take(all.tuples[i]);
  aside.lists.take(all.lists);
  aside.dicts.take(all.dicts);
  aside.keys.take(all.keys);
  aside.async_values.take(all.async_values);
  aside.async_sends.take(all.async_sends);
  aside.slice = std::exchange(*all.slice, nullptr);
}

// Frees what gathered during the run, then puts the lists from before back.
void put_free_lists_back() {
  const FreeLists all = free_lists();
  drain(
      all.floats, [](PyFloatObject* block) { return block->ob_base.ob_type; },
      +[](PyFloatObject* block) { PyObject_Free(block); });
  aside.floats.put_back(all.floats);
  drain(all.contexts, [](PyContext* block) { return block->ctx_weakreflist; }, give_collected);
  aside.contexts.put_back(all.contexts);
  for (size_t i = 0; i < all.tuples.size(); ++i) {
    drain(all.tuples[i], [](PyTupleObject* block) { return block->ob_item[0]; }, give_collected);
    aside.tuples[i].put_back(all.tuples[i]);
  }
  drain(all.lists, give_collected);
  aside.lists.put_back(all.lists);
  drain(all.dicts, give_collected);
  aside.dicts.put_back(all.dicts);
  drain(all.keys, free_keys);
  aside.keys.put_back(all.keys);
  // The rest is small: what gathered stays, what was set aside comes back only into empty places.
  if (*all.async_values.count == 0 && *all.async_sends.count == 0) {
    aside.async_values.put_back(all.async_values);
    aside.async_sends.put_back(all.async_sends);
  }
  if (*all.slice == nullptr) {
    *all.slice = aside.slice;
  } else if (aside.slice != nullptr) {
    PyObject_GC_Del(aside.slice);
  }
}

bool our_hook_is_on() {
  PyMemAllocatorEx current;
  PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &current);
  return current.malloc == hook_malloc;
}

}  // namespace

void AddressSet::place(uintptr_t address) {
  size_t mask = slots_.size() - 1;
  size_t i = hash(address) & mask;
  while (slots_[i] != 0) {
    if (slots_[i] == address) return;
    i = (i + 1) & mask;
  }
  slots_[i] = address;
  taken_.push_back(static_cast<uint32_t>(i));
}

void AddressSet::grow() {
  std::vector<uintptr_t> old(slots_.size() * 2);
  old.swap(slots_);
  taken_.clear();
  for (uintptr_t address : old) {
    if (address != 0) place(address);
  }
}

void AddressSet::clear() {
  if (slots_.size() > kKept) {
    std::vector<uintptr_t>(kSmallest).swap(slots_);
    std::vector<uint32_t>().swap(taken_);
  } else {
    for (uint32_t i : taken_) slots_[i] = 0;
    taken_.clear();
  }
}

AllocationWatch::AllocationWatch(AddressSet* born) {
  if (watchers++ == 0) {
    set_free_lists_aside();
    if (!hooked) {
      PyMem_GetAllocator(PYMEM_DOMAIN_OBJ, &original);
      PyMemAllocatorEx hook = {nullptr, hook_malloc, hook_calloc, hook_realloc, hook_free};
      PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &hook);
      hooked = true;
    }
  } else {
    drain_free_lists();
  }
  born_here = born;
}

AllocationWatch::~AllocationWatch() {
  born_here = nullptr;
  if (--watchers > 0) return;
  // Something like tracemalloc may have put its own hook above ours: then ours stays, and passes
  // on.
  if (our_hook_is_on()) {
    PyMem_SetAllocator(PYMEM_DOMAIN_OBJ, &original);
    hooked = false;
  }
  put_free_lists_back();
}

void drain_free_lists() {
  PyInterpreterState* interp = PyInterpreterState_Get();
  drain(free_list_blocks(interp), give_collected);
  drain(free_dict_blocks(interp), give_collected);
}

}  // namespace fulgurite::python::watching
