#include "entry_cache.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <unordered_map>

#include "entry.h"
#include "structure.h"

namespace fulgurite::python {
namespace {

void mix(uint64_t& hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  hash ^= hash >> 29;
}

// Only what ArgumentStructure and TensorGuard compare exactly.
void mix_object(uint64_t& hash, PyObject* o, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  mix(hash, reinterpret_cast<uint64_t>(type));
  if (is_plain_tensor(o)) {
    const c10::TensorImpl* t = tensor_of(o).unsafeGetTensorImpl();
    mix(hash, static_cast<uint64_t>(c10::typeMetaToScalarType(t->dtype())));
    if (t->layout() != at::kStrided || tensor_of(o).is_nested() || t->has_symbolic_sizes_strides())
      return;
    mix(hash, static_cast<uint64_t>(t->dim()));
    for (int64_t size : t->sizes()) mix(hash, static_cast<uint64_t>(size));
    return;
  }
  if (depth >= 3) return;
  if (type == &PyTuple_Type || type == &PyList_Type) {
    mix(hash, static_cast<uint64_t>(PySequence_Fast_GET_SIZE(o)));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      mix_object(hash, PySequence_Fast_GET_ITEM(o, i), depth + 1);
  } else if (type == &PyDict_Type) {
    mix(hash, static_cast<uint64_t>(PyDict_GET_SIZE(o)));
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) mix_object(hash, value, depth + 1);
  }
}

}  // namespace

uint64_t EntryCache::key_of(PyObject* const* args, size_t nargs, PyObject* kwnames) {
  const size_t total =
      nargs + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  uint64_t hash = nargs * 64 + total;
  for (size_t i = 0; i < total; ++i) mix_object(hash, args[i], 0);
  return hash;
}

bool EntryCache::add(std::shared_ptr<Entry> entry, uint64_t key, size_t most) {
  bool unused = false;
  while (!entries_.empty() && entries_.size() >= most) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    unused = (*oldest)->hits == 0;
    remove(oldest->get());
  }
  entry->last_used = ++clock_;
  // Before the others of its key, which did not serve this call.
  const auto at = static_cast<std::ptrdiff_t>(find(key, 0));
  keys_.insert(keys_.begin() + at, key);
  entries_.insert(entries_.begin() + at, std::move(entry));
  return unused;
}

size_t EntryCache::index_of(const Entry* entry) const {
  size_t i = 0;
  while (i < entries_.size() && entries_[i].get() != entry) ++i;
  return i;
}

void EntryCache::remove(const Entry* entry) {
  const size_t i = index_of(entry);
  if (i == entries_.size()) return;
  keys_.erase(keys_.begin() + static_cast<std::ptrdiff_t>(i));
  const std::shared_ptr<Entry> gone = std::move(entries_[i]);
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
}

bool EntryCache::remove_if(bool (*predicate)(const Entry&)) {
  bool any = false;
  for (size_t i = entries_.size(); i-- > 0;) {
    if (i >= entries_.size() || !predicate(*entries_[i])) continue;
    any = true;
    remove(entries_[i].get());
  }
  return any;
}

size_t EntryCache::count_unused(uint64_t key) const {
  std::unordered_map<uint64_t, size_t> counts;
  size_t most = 0;
  for (size_t i = find(key, 0); i < entries_.size(); i = find(key, i + 1))
    // Answers to yes-or-no questions come again, and a tree is bounded (run/branch_tree.h).
    if (entries_[i]->hits == 0 && !entries_[i]->is_other_answer())
      most = std::max(most, ++counts[entries_[i]->geometry]);
  return most;
}

void EntryCache::remove_unused(uint64_t key) {
  for (size_t i = entries_.size(); i-- > 0;)
    if (i < entries_.size() && keys_[i] == key && entries_[i]->hits == 0) remove(entries_[i].get());
}

void EntryCache::clear() {
  keys_.clear();
  const auto gone = std::move(entries_);
  entries_.clear();
}

void EntryCache::used(size_t i) {
  entries_[i]->last_used = ++clock_;
  const size_t first = find(keys_[i], 0);
  if (first < i)
    std::rotate(entries_.begin() + static_cast<std::ptrdiff_t>(first),
                entries_.begin() + static_cast<std::ptrdiff_t>(i),
                entries_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  if (first < i)
    std::rotate(keys_.begin() + static_cast<std::ptrdiff_t>(first),
                keys_.begin() + static_cast<std::ptrdiff_t>(i),
                keys_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
}

std::shared_ptr<Entry> EntryCache::nearest(uint64_t key) const {
  std::shared_ptr<Entry> best;
  bool same = false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const bool fits = keys_[i] == key;
    if (!best || fits > same || (fits == same && entries_[i]->last_used > best->last_used)) {
      best = entries_[i];
      same = fits;
    }
  }
  return best;
}

std::vector<std::shared_ptr<Entry>> EntryCache::last_used_first() const {
  std::vector<std::shared_ptr<Entry>> list = entries_;
  std::sort(list.begin(), list.end(),
            [](const auto& a, const auto& b) { return a->last_used > b->last_used; });
  return list;
}

}  // namespace fulgurite::python
