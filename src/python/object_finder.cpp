// Where the objects of a recorded call are found in another one.
#include "recipe.h"
#include "structure.h"
#include "watch/values.h"

namespace fulgurite::python {

PyObject* Locator::find(PyObject* const* args, const std::vector<PyRef>& slots) const {
  if (kind == Kind::Fixed) return Py_NewRef(object.get());
  if (kind == Kind::Slot) return Py_NewRef(slots[static_cast<size_t>(index)].get());
  PyRef found = PyRef::borrow(args[index]);
  for (const PyRef& step : steps) {
    found = PyRef::steal(PyObject_GetItem(found.get(), step.get()));
    if (!found) return nullptr;
  }
  return found.release();
}

ObjectFinder::ObjectFinder(const Observation& seen, PyObject* const* args, size_t nargs)
    : seen_(seen) {
  std::vector<PyRef> steps;
  for (size_t i = 0; i < nargs; ++i) add_argument(args[i], i, steps, 0);
}

void ObjectFinder::add_argument(PyObject* object, size_t index, std::vector<PyRef>& steps,
                                int depth) {
  types_.insert(Py_TYPE(object));
  const bool list = PyList_CheckExact(object), dict = PyDict_CheckExact(object);
  const bool tuple = PyTuple_Check(object);
  if ((!list && !dict && !tuple && !is_any_tensor(object)) || depth > 16) return;
  Locator here;
  here.kind = Locator::Kind::Argument;
  here.index = static_cast<int>(index);
  here.steps = steps;
  if (!arguments_.emplace(object, std::move(here)).second) return;
  auto child = [&](PyRef key, PyObject* item) {
    steps.push_back(std::move(key));
    add_argument(item, index, steps, depth + 1);
    steps.pop_back();
  };
  if (dict) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) child(PyRef::borrow(key), value);
    return;
  }
  for (Py_ssize_t i = 0; (list || tuple) && i < PySequence_Fast_GET_SIZE(object); ++i)
    child(PyRef::steal(PyLong_FromSsize_t(i)), PySequence_Fast_GET_ITEM(object, i));
}

bool ObjectFinder::is_older(PyObject* object) const {
  return seen_.slots.count(object) != 0 || arguments_.count(object) != 0 ||
         seen_.known.contains(object);
}

bool ObjectFinder::is_older_type(PyTypeObject* type) const {
  const watching::KnownTypes& known = watching::known_types();
  if (type == known.tensor || type == known.parameter) return true;
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || types_.count(type) != 0 ||
         is_older(reinterpret_cast<PyObject*>(type));
}

Locator ObjectFinder::locate(PyObject* object) const {
  Locator found;
  if (auto it = seen_.slots.find(object); it != seen_.slots.end()) {
    found.kind = Locator::Kind::Slot;
    found.index = it->second;
  } else if (auto argument = arguments_.find(object); argument != arguments_.end()) {
    found = argument->second;
  } else if (seen_.known.contains(object)) {
    found.kind = Locator::Kind::Fixed;
    found.object = PyRef::borrow(object);
  }
  return found;
}

}  // namespace fulgurite::python
