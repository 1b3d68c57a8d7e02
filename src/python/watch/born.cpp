// Implementation of born.h. `original` is the allocator below our hook; `watchers` counts the
// threads that watch at the same time, and the first and last of them install and remove hook and
// free lists. All of it is guarded by the GIL, which the object allocator needs anyway.
#include "internals.h"

#include "born.h"

#include <internal/pycore_context.h>
#include <internal/pycore_tuple.h>

#include <algorithm>
#include <iterator>

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

struct FreeLists {
  struct _Py_float_state floats;
  struct _Py_tuple_state tuples;
  struct _Py_list_state lists;
  struct _Py_dict_state dicts;
  struct _Py_context_state contexts;
  struct _Py_async_gen_state async_generators;
  PySliceObject* slice;
};
FreeLists aside;

void drain(struct _Py_list_state* lists) {
  while (lists->numfree > 0) PyObject_GC_Del(lists->free_list[--lists->numfree]);
}
void drain(struct _Py_dict_state* dicts) {
  while (dicts->numfree > 0) PyObject_GC_Del(dicts->free_list[--dicts->numfree]);
}

void set_free_lists_aside() {
  PyInterpreterState* interp = PyInterpreterState_Get();
  aside.floats = interp->float_state;
  interp->float_state.numfree = 0;
  interp->float_state.free_list = nullptr;
  aside.tuples = interp->tuple;
  for (int i = 0; i < PyTuple_NFREELISTS; ++i) {
    interp->tuple.numfree[i] = 0;
    interp->tuple.free_list[i] = nullptr;
  }
  aside.lists = interp->list;
  interp->list.numfree = 0;
  aside.dicts = interp->dict_state;
  interp->dict_state.numfree = 0;
  interp->dict_state.keys_numfree = 0;
  aside.contexts = interp->context;
  interp->context.freelist = nullptr;
  interp->context.numfree = 0;
  aside.async_generators = interp->async_gen;
  interp->async_gen.value_numfree = 0;
  interp->async_gen.asend_numfree = 0;
  aside.slice = interp->slice_cache;
  interp->slice_cache = nullptr;
}

// Frees what gathered during the run, then puts the lists from before back.
void put_free_lists_back() {
  PyInterpreterState* interp = PyInterpreterState_Get();
  for (PyFloatObject* block = interp->float_state.free_list; block;) {
    auto* next = reinterpret_cast<PyFloatObject*>(block->ob_base.ob_type);
    PyObject_Free(block);
    block = next;
  }
  interp->float_state = aside.floats;
  for (int i = 0; i < PyTuple_NFREELISTS; ++i) {
    for (PyTupleObject* block = interp->tuple.free_list[i]; block;) {
      auto* next = reinterpret_cast<PyTupleObject*>(block->ob_item[0]);
      PyObject_GC_Del(block);
      block = next;
    }
    interp->tuple.numfree[i] = aside.tuples.numfree[i];
    interp->tuple.free_list[i] = aside.tuples.free_list[i];
  }
  drain(&interp->list);
  interp->list = aside.lists;
  struct _Py_dict_state& dicts = interp->dict_state;
  drain(&dicts);
  while (dicts.keys_numfree > 0) PyObject_Free(dicts.keys_free_list[--dicts.keys_numfree]);
  dicts.numfree = aside.dicts.numfree;
  dicts.keys_numfree = aside.dicts.keys_numfree;
  std::copy(std::begin(aside.dicts.free_list), std::end(aside.dicts.free_list), dicts.free_list);
  std::copy(std::begin(aside.dicts.keys_free_list), std::end(aside.dicts.keys_free_list),
            dicts.keys_free_list);
  for (PyContext* block = interp->context.freelist; block;) {
    PyContext* next = reinterpret_cast<PyContext*>(block->ctx_weakreflist);
    PyObject_GC_Del(block);
    block = next;
  }
  interp->context = aside.contexts;
  // The rest is small: what gathered stays, what was set aside comes back only into empty places.
  if (interp->async_gen.value_numfree == 0 && interp->async_gen.asend_numfree == 0) {
    interp->async_gen = aside.async_generators;
  }
  if (!interp->slice_cache) {
    interp->slice_cache = aside.slice;
  } else if (aside.slice) {
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
  if (interp->list.numfree > 0) drain(&interp->list);
  if (interp->dict_state.numfree > 0) drain(&interp->dict_state);
}

}  // namespace fulgurite::python::watching
