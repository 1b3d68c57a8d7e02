// What writes to containers, globals and cells leave behind.
#include "internals.h"

#include "recording.h"

namespace fulgurite::python::watching {

bool Recording::is_no_change(PyObject* current, PyObject* value) const {
  if (!current || !value || numbers.holds(value)) return false;
  // What is there may be another number or tensor in the next call.
  if (places_ && (is_plain_number(value) || is_tensor(value))) return false;
  if (is_value(value)) return values_equal(current, value);
  return current == value && !is_born(value);
}

bool Recording::stores_the_same(PyObject* dict, PyObject* key, PyObject* value) {
  PyObject* current = dict_lookup(dict, key, nullptr);
  if (!is_no_change(current, value)) return false;
  read_dict(dict, key);                           // what makes it no change
  if (current != value) rewritten_.insert(dict);  // whose tag moves all the same
  return true;
}

// `container[key] = value`, or its deletion if `value` is null. A list is recorded as a whole
// before its first change, so that later reads of it follow from that and from the program itself.
void Recording::write_item(PyObject* container, PyObject* key, PyObject* value) {
  if (is_born(container)) return;
  EffectKind kind = value ? EffectKind::SetItem : EffectKind::DelItem;
  if (PyDict_Check(container)) {
    if (!is_safe_key(key)) {
      refuse("changes " + path(container) + " under a key whose hash or equality is Python code");
      return mark_all_written(container);
    }
    // The position of a new key is that of the insertion; whether it was there is part of the
    // state.
    if (!value) read_dict(container, key);
    if (stores_the_same(container, key, value)) return;
    mark_written(container, key);
  } else {
    read_all(container);
    mark_all_written(container);
  }
  effect(kind, container, key, value,
         std::string(value ? "sets " : "deletes ") + path(container) + "[" +
             (is_value(key) ? describe_object(key, 40) : "...") + "]");
}

// Whether there is again under the key what was there before the first write.
bool Recording::is_undone(const Effect& effect) {
  PyObject* dict = effect.holder.get();
  if (effect.kind == EffectKind::SetAttr) {
    dict = PyModule_Check(dict) || PyType_Check(dict) ? nullptr : instance_dict(dict);
  } else if (effect.kind != EffectKind::SetItem && effect.kind != EffectKind::SetGlobal) {
    return false;
  }
  PyObject* key = effect.key.get();
  if (!dict || !PyDict_Check(dict) || effect.whole || !is_safe_key(key)) return false;
  auto it = index_.find({static_cast<int>(FactKind::DictItem), dict, canonical(key)});
  if (it == index_.end()) return false;
  const Fact& fact = facts_[static_cast<size_t>(it->second)];
  PyObject* now = dict_lookup(dict, key, nullptr);
  return !fact.is_dynamic() && fact.node < 0 && fact.expected && now && !numbers.holds(now) &&
         matches(now, fact.expected.get(), fact.by);
}

// Parameters that were swapped for others and put back (torch.func.functional_call).
void Recording::drop_undone_writes() {
  std::unordered_set<PyObject*> changed;  // in other ways, which may depend on these
  for (const Effect& e : effects_)
    if (e.holder && !is_undone(e)) changed.insert(e.holder.get());
  std::erase_if(effects_,
                [&](const Effect& e) { return e.holder && changed.count(e.holder.get()) == 0; });
}

void Recording::write_global(PyObject* globals, PyObject* name, PyObject* value) {
  if (is_born(globals)) return;
  if (PyDict_Check(globals) && stores_the_same(globals, name, value)) return;
  if (!value && PyDict_Check(globals)) read_dict(globals, name);  // that it was there
  mark_written(globals, name);
  effect(value ? EffectKind::SetGlobal : EffectKind::DelGlobal, globals, name, value,
         std::string(value ? "sets" : "deletes") + " the global " + text_of(name));
}

void Recording::write_cell(PyObject* cell, PyObject* name, PyObject* value) {
  if (is_born(cell)) return;
  if (is_no_change(PyCell_GET(cell), value)) return read_cell(cell, name);
  if (!value) read_cell(cell, name);  // that it was full
  know(cell, kNoParent);
  written_.insert({0, cell, nullptr});
  effect(EffectKind::SetCell, cell, name, value, "sets the outer variable " + text_of(name));
}

void Recording::append(PyObject* list, PyObject* arguments) {
  if (all_written_.count(list) || has_fact(FactKind::ListAll, list, nullptr) ||
      has_fact(FactKind::ListLength, list, nullptr) || is_hinted(path(list) + "[:]")) {
    return mutate(list, "append", arguments);
  }
  know(list, kNoParent);
  appended_.insert(list);
  partly_written_.insert(list);
  PyRef key = PyRef::steal(PyUnicode_FromString("append"));
  effect(EffectKind::Mutate, list, key.get(), arguments, "calls " + path(list) + ".append");
}

// Any other change of a container: `how` is the method.
void Recording::mutate(PyObject* container, const std::string& how, PyObject* arguments) {
  if (is_born(container)) return;
  read_all(container);
  mark_all_written(container);
  PyRef key = PyRef::steal(PyUnicode_FromString(how.c_str()));
  if (!key) PyErr_Clear();
  effect(EffectKind::Mutate, container, key.get(), arguments,
         "calls " + path(container) + "." + how);
}

namespace {

PyRef value_of_context_variable(PyObject* variable) {
  PyObject* value = nullptr;
  ErrorAside aside;
  if (PyContextVar_Get(variable, nullptr, &value) < 0) PyErr_Clear();
  return PyRef::steal(value);
}

}  // namespace

// What counts is whether the variable is as it was when the call is over: most are put back.
void Recording::write_context_variable(PyObject* variable) {
  if (is_born(variable) || contexts_.count(variable)) return;
  read_context_variable(variable);
  contexts_.emplace(variable, ContextWrite{value_of_context_variable(variable), here()});
}

void Recording::refuse_changed_contexts() {
  for (auto& [variable, write] : contexts_) {
    PyRef now = value_of_context_variable(variable);
    if (now.get() == write.before.get()) continue;
    mark_all_written(variable);
    effects_.push_back({EffectKind::Other, PyRef::borrow(variable), PyRef(), std::move(now),
                        "sets a context variable", locate(write.place), false});
    refusals_.push_back({"sets a context variable", locate(write.place)});
  }
}

}  // namespace fulgurite::python::watching
