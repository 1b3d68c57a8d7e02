#include "internals.h"

#include "lru_cache.h"

#include <algorithm>

#include "call.h"
#include "recording.h"
#include "values.h"

namespace fulgurite::python::watching {
namespace {

// The heads of the two objects of Modules/_functoolsmodule.c.
struct Link {
  PyObject ob_base;
  Link* previous;
  Link* next;
  Py_hash_t hash;
  PyObject* key;
  PyObject* result;
};
struct LruCache {
  Link root;
  void* wrapper;
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maxsize;  // -1: without bound, and the dict holds the results themselves
  Py_ssize_t misses;
  PyObject* keyword_mark;
};

const LruCache& parts_of(PyObject* object) { return *reinterpret_cast<LruCache*>(object); }

}  // namespace

PyObject* lru_cache_dict(PyObject* object) {
  const LruCache& parts = parts_of(object);
  PyRef wrapped = PyRef::steal(PyObject_GetAttrString(object, "__wrapped__"));
  if (!wrapped) PyErr_Clear();
  const bool as_expected = wrapped && wrapped.get() == parts.function && parts.cache &&
                           PyDict_CheckExact(parts.cache) && parts.keyword_mark &&
                           (parts.typed == 0 || parts.typed == 1);
  return as_expected ? parts.cache : nullptr;
}

PyRef lru_cache_key(PyObject* object, PyObject* positional, PyObject* keywords) {
  const LruCache& parts = parts_of(object);
  const Py_ssize_t named = keywords ? PyDict_GET_SIZE(keywords) : 0;
  const Py_ssize_t count = PyTuple_GET_SIZE(positional);
  PyRef key;
  if (!parts.typed && named == 0) {
    PyObject* only = count == 1 ? PyTuple_GET_ITEM(positional, 0) : nullptr;
    const bool bare = only && (PyUnicode_CheckExact(only) || PyLong_CheckExact(only));
    key = PyRef::borrow(bare ? only : positional);
  } else {
    PyRef items = PyRef::steal(PySequence_List(positional));
    PyObject *name, *value;
    Py_ssize_t position = 0;
    if (named > 0) PyList_Append(items.get(), parts.keyword_mark);
    while (named > 0 && PyDict_Next(keywords, &position, &name, &value)) {
      PyList_Append(items.get(), name);
      PyList_Append(items.get(), value);
    }
    if (parts.typed) {
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyList_Append(items.get(),
                      reinterpret_cast<PyObject*>(Py_TYPE(PyTuple_GET_ITEM(positional, i))));
      }
      position = 0;
      while (named > 0 && PyDict_Next(keywords, &position, &name, &value)) {
        PyList_Append(items.get(), reinterpret_cast<PyObject*>(Py_TYPE(value)));
      }
    }
    key = PyRef::steal(PyList_AsTuple(items.get()));
  }
  return is_safe_key(key.get()) ? std::move(key) : PyRef();
}

PyObject* lru_cached_result(PyObject* object, PyObject* key) {
  const LruCache& parts = parts_of(object);
  bool unsafe = false;
  PyObject* found = dict_lookup(parts.cache, key, &unsafe);
  if (!found || unsafe) return nullptr;
  return parts.maxsize < 0 ? found : reinterpret_cast<Link*>(found)->result;
}

bool Recording::read_lru_cache(PyObject* object, PyObject* key) {
  PyObject* cache = lru_cache_dict(object);
  PyObject* result = lru_cached_result(object, key);
  if (!result || is_born(result)) return false;
  key = canonical(key);
  if (has_fact(FactKind::CachedCall, cache, key)) return true;
  auto parent = known_.find(object);
  know(cache, parent == known_.end() ? kNoParent : parent->second);
  add_fact(FactKind::CachedCall, cache, key, result, match_by(result)).extra =
      PyRef::borrow(object);
  return true;
}

// A call that finds its result does nothing else, and depends on nothing else: the guard is that
// the result is still there. One that does not find it runs the function, which the next call will
// not.
bool Call::call_lru_cache() {
  numbers({});  // keys of a cache
  PyRef wrapped = PyRef::steal(PyObject_GetAttrString(callee_, "__wrapped__"));
  if (!wrapped) PyErr_Clear();
  std::string name = "a cached function";
  if (wrapped && PyFunction_Check(wrapped.get())) {
    auto* function = reinterpret_cast<PyFunctionObject*>(wrapped.get());
    name = text_of(function->func_qualname);
    // torch's own cached functions depend on nothing but their arguments and the build.
    std::string module = text_of(function->func_module);
    if (module == "torch" || module.starts_with("torch.") || module == "typing") return true;
  }
  const size_t named = arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0;
  const bool complete =
      std::count(a_.begin(), a_.end(), static_cast<PyObject*>(nullptr)) == 0 && named <= a_.size();
  if (!complete || !lru_cache_dict(callee_)) {
    r_.refuse("calls " + name + ", an lru_cache: what its stored results depended on is not known");
    return true;
  }
  const std::vector<PyObject*> values(a_.begin(), a_.end() - static_cast<std::ptrdiff_t>(named));
  PyRef keywords = PyRef::steal(PyDict_New());
  for (size_t i = 0; i < named; ++i) {
    PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(arguments_.names, i), a_[values.size() + i]);
  }
  if (arguments_.keywords) PyDict_Update(keywords.get(), arguments_.keywords);
  PyRef key = lru_cache_key(callee_, tuple_of(values).get(), keywords.get());
  if (!key) {
    r_.refuse("calls " + name + ", an lru_cache, with an argument whose hash is Python code");
  } else if (!r_.read_lru_cache(callee_, key.get())) {
    r_.refuse("calls " + name + ", an lru_cache that has no result for these arguments yet");
  }
  return true;
}

}  // namespace fulgurite::python::watching
