// Compilation of facts into the flat guard program, its check, and its account of itself.
#include "internals.h"

#include "guard_table.h"
#include "numbers.h"

#include <structmember.h>

#include <algorithm>
#include <map>

namespace fulgurite::python::watching {
namespace {

PyObject** slot_address(const Fact& fact) {
  PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(fact.extra.get())->d_member;
  if (member->type != T_OBJECT_EX && member->type != T_OBJECT) return nullptr;
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(fact.holder.get()) + member->offset);
}

// Where an attribute of a function or of a class is stored, or null.
PyObject** getset_address(const Fact& fact) {
  PyObject* holder = fact.holder.get();
  const std::string name = text_of(fact.key.get());
  if (PyFunction_Check(holder)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(holder);
    if (name == "__name__") return &function->func_name;
    if (name == "__qualname__") return &function->func_qualname;
    if (name == "__code__") return &function->func_code;
  }
  if (PyType_Check(holder) && is_heap_type(reinterpret_cast<PyTypeObject*>(holder))) {
    auto* type = reinterpret_cast<PyHeapTypeObject*>(holder);
    if (name == "__name__") return &type->ht_name;
    if (name == "__qualname__") return &type->ht_qualname;
  }
  return nullptr;
}

// Attributes that never change: those of code objects, and the names of C functions.
bool is_immutable_getset(const Fact& fact) {
  PyObject* holder = fact.holder.get();
  return PyCode_Check(holder) ||
         (PyCFunction_Check(holder) && text_of(fact.key.get()) == "__name__");
}

}  // namespace

GuardTable::GuardTable(Facts facts, std::vector<std::string> roots, std::vector<PyRef> tensors,
                       std::vector<PyRef> pinned, size_t slots)
    : slots_(slots),
      pinned_(std::move(pinned)),
      facts_(std::move(facts)),
      roots_(std::move(roots)),
      tensors_(std::move(tensors)) {
  for (uint32_t i = 0; i < facts_.size(); ++i)
    if (facts_[i].is_dynamic()) dynamic_.push_back(i);
  checks_ = compile(nullptr);
  check();  // fills in the tags of what holds already
}

GuardTable::Checks GuardTable::compile(const GuardTable* held) const {
  Checks out;
  std::map<PyObject*, std::vector<uint32_t>> by_dict, by_type;
  for (uint32_t i = 0; i < facts_.size(); ++i) {
    const Fact& fact = facts_[i];
    PyObject* holder = fact.holder.get();
    PyObject* expected = fact.expected.get();
    if (fact.is_dynamic() || (held != nullptr && held->has_fact(number_of(i)))) continue;
    auto word = [&](PyObject** address, PyObject* value) {
      out.words.push_back({address, value, i});
    };
    switch (fact.kind) {
      case FactKind::DictItem:
      case FactKind::DictAll:
      case FactKind::DictLength:
      case FactKind::CachedCall:
        (owns_values(holder) ? by_dict[holder] : out.untagged).push_back(i);
        break;
      case FactKind::TypeAttribute:
      case FactKind::Mro:
      case FactKind::Protocol:
        by_type[holder].push_back(i);
        break;
      case FactKind::Cell:
        word(&reinterpret_cast<PyCellObject*>(holder)->ob_ref, expected);
        break;
      case FactKind::TypeOf:
        word(reinterpret_cast<PyObject**>(&holder->ob_type), expected);
        break;
      case FactKind::InstanceDict:
        word(_PyObject_GetDictPtr(holder), expected);
        break;
      case FactKind::FunctionCode: {
        auto* function = reinterpret_cast<PyFunctionObject*>(holder);
        word(&function->func_code, expected);
        word(&function->func_defaults, fact.extra.get());
        word(&function->func_kwdefaults, fact.key.get());
        break;
      }
      case FactKind::WeakReference:
        word(&reinterpret_cast<PyWeakReference*>(holder)->wr_object, expected);
        break;
      case FactKind::Slot:
        if (PyObject** address = slot_address(fact)) {
          word(address, expected);
          break;
        }
        out.untagged.push_back(i);
        break;
      case FactKind::Getset:
        if (is_immutable_getset(fact)) break;
        if (PyObject** address = getset_address(fact)) {
          word(address, expected);
        } else {
          out.untagged.push_back(i);
        }
        break;
      default:
        out.untagged.push_back(i);
    }
  }
  auto group = [&out](const std::vector<uint32_t>& members, auto add) {
    auto begin = static_cast<uint32_t>(out.grouped.size());
    out.grouped.insert(out.grouped.end(), members.begin(), members.end());
    add(begin, static_cast<uint32_t>(out.grouped.size()));
  };
  for (auto& [dict, members] : by_dict) {
    group(members, [&](uint32_t begin, uint32_t end) {
      out.dicts.push_back({reinterpret_cast<PyDictObject*>(dict), 0, begin, end});
    });
  }
  for (auto& [type, members] : by_type) {
    group(members, [&](uint32_t begin, uint32_t end) {
      out.types.push_back({reinterpret_cast<PyTypeObject*>(type), 0, begin, end});
    });
  }
  return out;
}

const std::vector<PyRef> no_slots;

bool GuardTable::resolve(std::vector<PyRef>& slots) const {
  slots.resize(slots_);
  for (uint32_t i : dynamic_) {
    const Fact& fact = facts_[i];
    PyRef found;
    if (!fact_holds(fact, slots, &found)) {
      failed_ = i;
      return false;
    }
    if (fact.slot >= 0) slots[static_cast<size_t>(fact.slot)] = std::move(found);
  }
  for (size_t i = 0; i < pinned_.size(); ++i)
    if (pinned_[i] && slots[i].get() != pinned_[i].get()) return false;
  return true;
}

bool GuardTable::holds_facts_about(PyObject* object) const {
  for (const Fact& fact : facts_) {
    if (!fact.is_dynamic() && fact.holder.get() == object) return true;
  }
  return false;
}

bool GuardTable::all_hold(const Checks& checks, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    if (!fact_holds(facts_[checks.grouped[i]], no_slots)) return fails(checks.grouped[i]);
  }
  return true;
}

bool GuardTable::check() { return check(checks_); }

bool GuardTable::check(Checks& checks) {
  // After other work nothing of this is in the processor's caches; the loads need not wait for one
  // another.
  constexpr size_t kAhead = 24;
  const std::vector<Word>& words = checks.words;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i + kAhead < words.size()) __builtin_prefetch(words[i + kAhead].address);
    const Word& word = words[i];
    if (*word.address != word.expected && !fact_holds(facts_[word.fact], no_slots)) [[unlikely]] {
      return fails(word.fact);
    }
  }
  std::vector<DictGroup>& dicts = checks.dicts;
  for (size_t i = 0; i < dicts.size(); ++i) {
    if (i + kAhead < dicts.size()) __builtin_prefetch(&dicts[i + kAhead].dict->ma_version_tag);
    DictGroup& group = dicts[i];
    if (group.dict->ma_version_tag != group.tag) [[unlikely]] {
      if (!all_hold(checks, group.begin, group.end)) return false;
      group.tag = group.dict->ma_version_tag;
    }
  }
  for (TypeGroup& group : checks.types) {
    unsigned version = version_of(group.type);
    if (version != group.version || version == 0) [[unlikely]] {
      if (!all_hold(checks, group.begin, group.end)) return false;
      group.version = version_of(group.type);
    }
  }
  for (uint32_t i : checks.untagged) {
    if (!fact_holds(facts_[i], no_slots)) return fails(i);
  }
  return true;
}

std::string GuardTable::explain_failure(const std::vector<PyRef>& given) {
  PathPrinter printer(facts_, roots_);
  std::vector<PyRef> slots = given;
  slots.resize(slots_);
  for (const Fact& fact : facts_) {
    PyRef found;
    if (fact_holds(fact, slots, &found)) {
      if (fact.slot >= 0) slots[static_cast<size_t>(fact.slot)] = std::move(found);
      continue;
    }
    return printer.expression(fact) + " (read at " + short_location(fact.place) + ") is now " +
           current_value(fact, slots);
  }
  for (size_t i = 0; i < pinned_.size(); ++i)
    if (pinned_[i] && slots[i].get() != pinned_[i].get())
      return "an object whose identity the program uses, " + describe_object(pinned_[i].get()) +
             ", is another one";
  return "";
}

// The place behind the first failing fact, if following it by type would help; else "".
std::string GuardTable::changing_place(const std::vector<PyRef>& given) const {
  PathPrinter printer(facts_, roots_);
  std::vector<PyRef> slots = given;
  slots.resize(slots_);
  for (const Fact& fact : facts_) {
    PyRef found;
    if (fact_holds(fact, slots, &found)) {
      if (fact.slot >= 0) slots[static_cast<size_t>(fact.slot)] = std::move(found);
      continue;
    }
    // Numbers that others change are inputs of the next program (`varied`).
    const bool varies = fact.kind == FactKind::DictItem || fact.kind == FactKind::Cell ||
                        fact.kind == FactKind::ListItem;
    if (varies && !fact.is_dynamic() && found && is_plain_number(found.get())) return "";
    return place_to_follow(printer, fact, found.get(), slots);
  }
  return "";
}

PyObject* GuardTable::number(uint32_t i) const {
  const Fact& fact = facts_[i];
  PyObject* holder = fact.holder.get();
  switch (fact.kind) {
    case FactKind::DictItem:
      return dict_lookup(holder, fact.key.get(), nullptr);
    case FactKind::Cell:
      return PyCell_GET(holder);
    case FactKind::ListItem:
      return item_at(holder, fact.number).get();  // the container keeps it
    default:
      return nullptr;
  }
}

std::vector<std::string> GuardTable::varied() const {
  std::vector<std::string> places;
  PathPrinter printer(facts_, roots_);
  for (uint32_t i = 0; i < facts_.size(); ++i) {
    const Fact& fact = facts_[i];
    if (fact.by != MatchBy::Value || fact.is_dynamic() || !fact.expected ||
        !is_number_object(fact.expected.get()) || fact_holds(fact, no_slots))
      continue;
    PyObject* now = number(i);
    if (now != nullptr && Py_TYPE(now) == Py_TYPE(fact.expected.get()))
      places.push_back(printer.access(fact));
  }
  return places;
}

std::vector<GuardInfo> GuardTable::describe() const {
  PathPrinter printer(facts_, roots_);
  std::vector<GuardInfo> infos;
  infos.reserve(facts_.size());
  for (const Fact& fact : facts_) {
    infos.push_back({fact_kind_name(fact.kind), printer.expression(fact),
                     "read at " + short_location(fact.place)});
  }
  return infos;
}

int GuardTable::traverse(visitproc visit, void* arg) const {
  for (const Fact& fact : facts_) {
    for (const PyRef* ref :
         {&fact.holder, &fact.key, &fact.expected, &fact.extra, &fact.place.code}) {
      Py_VISIT(ref->get());
    }
  }
  for (const PyRef& tensor : tensors_) Py_VISIT(tensor.get());
  for (const PyRef& object : pinned_) Py_VISIT(object.get());
  return 0;
}

}  // namespace fulgurite::python::watching

namespace fulgurite::python {

GuardProgram::GuardProgram() = default;
GuardProgram::GuardProgram(std::unique_ptr<watching::GuardTable> table)
    : table_(std::move(table)) {}
GuardProgram::GuardProgram(GuardProgram&&) noexcept = default;
GuardProgram& GuardProgram::operator=(GuardProgram&&) noexcept = default;
GuardProgram::~GuardProgram() = default;

bool GuardProgram::resolve(std::vector<PyRef>& slots) const {
  return !table_ || table_->resolve(slots);
}
std::string GuardProgram::changing_place(const std::vector<PyRef>& given) const {
  return table_ ? table_->changing_place(given) : "";
}
bool GuardProgram::holds_facts_about(PyObject* object) const {
  return table_ && table_->holds_facts_about(object);
}
bool GuardProgram::check() { return !table_ || table_->check(); }
bool GuardProgram::check_beside(const GuardProgram& held) {
  if (!table_) return true;
  return held.table_ ? table_->check_beside(*held.table_) : table_->check();
}
void GuardProgram::number_facts(const GuardProgram* like) {
  if (table_) table_->number_facts(like != nullptr ? like->table_.get() : nullptr);
}
uint32_t GuardProgram::number_of(size_t fact) const { return table_ ? table_->number_of(fact) : 0; }
uint32_t GuardProgram::failed() const { return table_ ? table_->failed() : 0; }
bool GuardProgram::has_fact(uint32_t number) const { return table_ && table_->has_fact(number); }
size_t GuardProgram::size() const { return table_ ? table_->size() : 0; }
std::vector<GuardInfo> GuardProgram::describe() const {
  return table_ ? table_->describe() : std::vector<GuardInfo>();
}
std::string GuardProgram::explain_failure(const std::vector<PyRef>& given) {
  return table_ ? table_->explain_failure(given) : "";
}
PyObject* GuardProgram::number(uint32_t guard) const {
  return table_ ? table_->number(guard) : nullptr;
}
std::vector<std::string> GuardProgram::varied() const {
  return table_ ? table_->varied() : std::vector<std::string>();
}
int GuardProgram::traverse(visitproc visit, void* arg) const {
  return table_ ? table_->traverse(visit, arg) : 0;
}
void GuardProgram::clear() { table_.reset(); }

}  // namespace fulgurite::python
