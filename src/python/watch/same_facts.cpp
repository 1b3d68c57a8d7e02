// Which facts of two guard programs are the same, so that programs which were recorded one beside
// the other (run/branch_tree.h) check them once.
#include "internals.h"

#include <algorithm>
#include <atomic>

#include "guard_table.h"

namespace fulgurite::python::watching {
namespace {

// Keys are mostly strings, whose hash is there.
uint64_t hash_of(const Fact& fact) {
  PyObject* key = fact.key.get();
  const bool text = key != nullptr && PyUnicode_CheckExact(key);
  uint64_t hash = reinterpret_cast<uint64_t>(fact.holder.get()) * 31 +
                  static_cast<uint64_t>(fact.kind) * 1000003 + static_cast<uint64_t>(fact.number);
  return hash * 1000003 + (text ? static_cast<uint64_t>(PyObject_Hash(key)) : 0);
}

// The expected tuple was made for the fact, of what a container had.
bool is_snapshot(FactKind kind) {
  return kind == FactKind::DictAll || kind == FactKind::OrderedAll || kind == FactKind::ListAll ||
         kind == FactKind::SetAll || kind == FactKind::Mro;
}

// The same object, equal values, or tuples of such.
bool same_items(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  if (match_by(a) == MatchBy::Value && match_by(b) == MatchBy::Value) return values_equal(a, b);
  if (!PyTuple_CheckExact(a) || !PyTuple_CheckExact(b)) return false;
  if (PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    PyObject* x = PyTuple_GET_ITEM(a, i);
    PyObject* y = PyTuple_GET_ITEM(b, i);
    if (x == y) continue;
    if (match_by(x) != MatchBy::Value || match_by(y) != MatchBy::Value || !values_equal(x, y))
      return false;
  }
  return true;
}

bool same_dynamic_fact(const Fact& a, const Fact& b) {
  return a.is_dynamic() && b.is_dynamic() && a.slot == b.slot && a.holder_slot == b.holder_slot &&
         same_fact(a, b);
}

}  // namespace

bool same_fact(const Fact& a, const Fact& b) {
  if (a.kind != b.kind || a.by != b.by || a.number != b.number || a.length != b.length ||
      a.holder.get() != b.holder.get())
    return false;
  const bool as_expected = a.by == MatchBy::Value || is_snapshot(a.kind)
                               ? same_items(a.expected.get(), b.expected.get())
                               : a.expected.get() == b.expected.get();
  return as_expected && same_items(a.key.get(), b.key.get()) &&
         same_items(a.extra.get(), b.extra.get());
}

void GuardTable::number_facts(const GuardTable* like) {
  static std::atomic<uint32_t> last{0};
  static std::atomic<uint64_t> last_table{0};
  serial_ = ++last_table;
  ids_.assign(facts_.size(), 0);
  std::unordered_multimap<uint64_t, uint32_t> theirs;
  if (like != nullptr)
    for (uint32_t i = 0; i < like->facts_.size(); ++i)
      if (!like->facts_[i].is_dynamic()) theirs.emplace(hash_of(like->facts_[i]), i);
  for (uint32_t i = 0; i < facts_.size(); ++i) {
    if (facts_[i].is_dynamic()) continue;
    const auto [begin, end] = theirs.equal_range(hash_of(facts_[i]));
    for (auto it = begin; it != end && ids_[i] == 0; ++it)
      if (same_fact(facts_[i], like->facts_[it->second])) ids_[i] = like->ids_[it->second];
  }
  // What a dynamic fact finds depends on those before it.
  for (size_t k = 0; like != nullptr && k < dynamic_.size() && k < like->dynamic_.size(); ++k) {
    if (!same_dynamic_fact(facts_[dynamic_[k]], like->facts_[like->dynamic_[k]])) break;
    ids_[dynamic_[k]] = like->ids_[like->dynamic_[k]];
  }
  for (uint32_t& id : ids_)
    if (id == 0) id = ++last;
  sorted_ids_ = ids_;
  std::sort(sorted_ids_.begin(), sorted_ids_.end());
}

bool GuardTable::has_fact(uint32_t number) const {
  return number != 0 && std::binary_search(sorted_ids_.begin(), sorted_ids_.end(), number);
}

bool GuardTable::check_beside(const GuardTable& held) {
  if (serial_ == 0 || held.serial_ == 0) return check();
  constexpr size_t kMost = 1024;
  if (beside_.size() >= kMost) beside_.clear();
  const auto [it, is_new] = beside_.try_emplace(held.serial_);
  if (is_new) it->second = compile(&held);
  return check(it->second);
}

}  // namespace fulgurite::python::watching
