// Numbers in the instructions of a program: see numbers.h.
#include "internals.h"

#include "numbers.h"

#include <cmath>

#include "recording.h"

namespace fulgurite::python::watching {

bool is_number_object(PyObject* object) {
  if (PyFloat_CheckExact(object)) return true;
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0;
}

PyRef fresh_number(PyObject* number) {
  if (PyFloat_CheckExact(number))
    return PyRef::steal(PyFloat_FromDouble(PyFloat_AS_DOUBLE(number)));
  return PyRef::steal(copy_of_int(number));
}

int NumberWatch::find(PyObject* object) const {
  auto it = nodes_.find(object);
  return it == nodes_.end() ? -1 : it->second;
}

void NumberWatch::collect(PyObject* object, std::vector<int>& nodes, int depth) const {
  if (object == nullptr || nodes_.empty()) return;
  if (const int node = find(object); node >= 0) {
    nodes.push_back(node);
    return;
  }
  if (auto it = carriers_.find(object); it != carriers_.end()) {
    nodes.insert(nodes.end(), it->second.begin(), it->second.end());
    return;
  }
  if (depth > 8) return;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      collect(PySequence_Fast_GET_ITEM(object, i), nodes, depth + 1);
  } else if (has_items(object)) {
    for (Py_ssize_t i = 0; i < count_items(object); ++i)
      collect(item_at(object, i).get(), nodes, depth + 1);
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(object, &position, &key, &value)) {
      collect(key, nodes, depth + 1);
      collect(value, nodes, depth + 1);
    }
  } else if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    for (PyObject* part : {slice->start, slice->stop, slice->step}) collect(part, nodes, depth + 1);
  } else if (PyExceptionInstance_Check(object)) {
    collect(reinterpret_cast<PyBaseExceptionObject*>(object)->args, nodes, depth + 1);
  } else if (known_types().simple_namespace &&
             PyType_IsSubtype(Py_TYPE(object), known_types().simple_namespace)) {
    PyObject** attributes = _PyObject_GetDictPtr(object);
    collect(attributes != nullptr ? *attributes : nullptr, nodes, depth + 1);
  } else if (PyMethod_Check(object)) {
    collect(PyMethod_GET_SELF(object), nodes, depth + 1);
  } else if (PyCFunction_Check(object)) {
    collect(PyCFunction_GET_SELF(object), nodes, depth + 1);
  } else if (PyDictViewSet_Check(object) || PyDictValues_Check(object)) {
    collect(reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(object)->dv_dict),
            nodes, depth + 1);
  }
}

bool NumberWatch::holds(PyObject* object) const {
  std::vector<int> nodes;
  collect(object, nodes);
  return !nodes.empty();
}

void NumberWatch::fix(const std::vector<int>& nodes) {
  for (int node : nodes)
    if (node >= 0) sink_->fix(node);
}

void NumberWatch::fix_in(PyObject* object) {
  std::vector<int> nodes;
  collect(object, nodes);
  fix(nodes);
}

void NumberWatch::track(PyObject* object, int node) {
  if (nodes_.emplace(object, node).second) owned_.push_back(PyRef::borrow(object));
}

void NumberWatch::carry(PyObject* object, std::vector<int> nodes) {
  auto [it, added] = carriers_.try_emplace(object, std::move(nodes));
  if (added) owned_.push_back(PyRef::borrow(object));
}

int NumberWatch::operand(PyObject* object, bool as_float) {
  if (!is_number_object(object)) return -1;
  const int node = find(object);
  if (!as_float || PyFloat_CheckExact(object)) return node >= 0 ? node : sink_->constant(object);
  PyRef converted = PyRef::steal(PyFloat_FromDouble(PyLong_AsDouble(object)));
  if (!converted) {
    PyErr_Clear();
    return -1;
  }
  return node >= 0 ? sink_->calculate("float_of", node, -1, converted.get())
                   : sink_->constant(converted.get());
}

bool NumberWatch::decide(int operation, PyObject* left, PyObject* right, bool outcome) {
  const bool floats = PyFloat_CheckExact(left) || PyFloat_CheckExact(right);
  const bool swapped = operation == Py_GT || operation == Py_GE;
  const bool equality = operation == Py_EQ || operation == Py_NE;
  const bool strict = operation == Py_LT || operation == Py_GT;
  const int a = operand(swapped ? right : left, floats);
  const int b = operand(swapped ? left : right, floats);
  const char* what = equality ? (floats ? "float_eq" : "int_eq")
                     : strict ? (floats ? "float_lt" : "int_lt")
                              : (floats ? "float_le" : "int_le");
  return a >= 0 && b >= 0 && sink_->decide(what, a, b, outcome != (operation == Py_NE));
}

void NumberWatch::hand_over(std::unordered_map<PyObject*, int>& objects,
                            std::vector<PyRef>& owners) {
  if (sink_ == nullptr) return;
  for (const auto& [object, node] : nodes_)
    if (sink_->is_free(node)) objects.emplace(object, node);
  owners = std::move(owned_);
}

// A value that C code receives may be used by it; one that goes straight to a watched frame is not.
void number_return(Recording& r, PyObject* value) {
  NumberWatch& n = r.numbers;
  if (value == nullptr || r.frames.size() < 2 || !n.holds(value)) return;
  const Frame& returning = r.frames.back();
  const Frame& caller = r.frames[r.frames.size() - 2];
  if (!is_called_by_c(returning.frame) || caller.muted) return;
  bool direct = !caller.callee;
  if (direct) {
    switch (caller.running.operation) {
      case Operation::Call:
      case Operation::CallNamed:
      case Operation::CallFunctionEx:
      case Operation::LoadAttr:
      case Operation::BinarySubscr:
      case Operation::BeforeWith:
        break;
      case Operation::FormatValue:  // f"{t}" is what t.__format__ gives
        direct = (caller.running.argument & 3) == 0;
        break;
      case Operation::ForIter:
      case Operation::Send: {
        PyObject* iterator = caller.top[caller.running.operation == Operation::ForIter ? -1 : -2];
        direct = returning.frame->owner == FRAME_OWNED_BY_GENERATOR &&
                 reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(returning.frame)) == iterator;
        break;
      }
      default:
        direct = false;
    }
  }
  if (!direct) n.fix_in(value);
}

namespace {

// The places in nested lists.
void add_leaves(PyObject* list, std::vector<std::pair<PyObject*, Py_ssize_t>>& leaves) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (PyList_CheckExact(item)) {
      add_leaves(item, leaves);
    } else {
      leaves.emplace_back(list, i);
    }
  }
}

// The numbers in what tolist() gave are those of the tensor.
bool read_elements(NumberWatch& n, PyObject* tensor, PyObject* result) {
  std::vector<std::pair<PyObject*, Py_ssize_t>> leaves;
  add_leaves(result, leaves);
  std::vector<int> nodes;
  if (!n.sink()->read_all(tensor, leaves.size(), nodes)) return false;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto [list, k] = leaves[i];
    if (nodes[i] < 0) continue;
    PyRef fresh = fresh_number(PyList_GET_ITEM(list, k));
    if (!fresh) {
      PyErr_Clear();
      return false;
    }
    n.track(fresh.get(), nodes[i]);
    PyList_SetItem(list, k, fresh.release());
  }
  return true;
}

// float(t) of a tensor of integers.
int read_whole(NumberWatch& n, const NumberStep& step, PyObject* result) {
  constexpr double kMostExact = 9007199254740992.0;
  if (!PyFloat_CheckExact(result) || !(std::fabs(PyFloat_AS_DOUBLE(result)) < kMostExact))
    return -1;
  const PyRef read = PyRef::steal(PyLong_FromDouble(PyFloat_AS_DOUBLE(result)));
  if (!read) PyErr_Clear();
  const int node = read ? n.sink()->read(step.since, read.get()) : -1;
  return node >= 0 ? n.sink()->calculate("float_of", node, -1, result) : -1;
}

// A tuple whose numbers nobody else has, in the place of one from outside.
void replace_in_tuple(NumberWatch& n, PyObject*& place, const std::vector<int>& nodes) {
  PyRef fresh = PyRef::steal(PyTuple_New(PyTuple_GET_SIZE(place)));
  for (size_t i = 0; fresh && i < nodes.size(); ++i) {
    const auto k = static_cast<Py_ssize_t>(i);
    PyRef item = PyRef::borrow(PyTuple_GET_ITEM(place, k));
    if (nodes[i] >= 0) item = fresh_number(item.get());
    if (!item) break;
    if (nodes[i] >= 0) n.track(item.get(), nodes[i]);
    PyTuple_SET_ITEM(fresh.get(), k, item.release());
  }
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return n.fix(nodes);
  }
  Py_SETREF(place, fresh.release());
}

}  // namespace

void number_result(Recording& r, Frame& frame) {
  std::unique_ptr<NumberStep> step = std::move(frame.number_step);
  NumberWatch& n = r.numbers;
  PyObject** place = frame.top - 1;
  PyObject* result = frame.top > stack_of(frame.frame) ? *place : nullptr;
  // Puts a fresh object in the place of one that others may have.
  auto replace = [&](int node) {
    PyRef fresh = fresh_number(result);
    if (!fresh) return PyErr_Clear();
    n.track(fresh.get(), node);
    PyObject* old = *place;
    *place = fresh.release();
    Py_DECREF(old);
  };
  auto take = [&](int node) {
    if (PyFloat_CheckExact(result)) return n.track(result, node);
    replace(node);
  };
  if (result == nullptr) return n.fix(step->nodes);
  switch (step->kind) {
    case NumberStep::Kind::Read:
      if (!is_number_object(result) || step->delegated) return;  // (a bool is guarded)
      if (const int node = n.sink()->read(step->since, result); node >= 0) {
        take(node);
      } else if (const int whole = read_whole(n, *step, result); whole >= 0) {
        take(whole);
      } else {
        n.note_lost();
      }
      return;
    case NumberStep::Kind::ReadAll:
      if (!step->delegated && PyList_CheckExact(result)) {
        if (read_elements(n, step->tensors[0].get(), result)) return;
      } else if (std::vector<int> nodes;
                 !step->delegated && n.sink()->read_all(step->tensors[0].get(), 1, nodes)) {
        if (nodes[0] >= 0) take(nodes[0]);
        return;
      }
      return r.refuse("takes the data of a large or unusual tensor out to Python (tolist)");
    case NumberStep::Kind::Use:
      if (!step->delegated) return n.sink()->use(step->since, step->places);
      // The reflected method in Python has the number now; other callees might have used it.
      if (!step->places.front().is_operand) n.fix(step->nodes);
      return;
    case NumberStep::Kind::UseTensors: {
      if (step->delegated) return;
      std::vector<PyObject*> tensors;
      for (const PyRef& t : step->tensors) tensors.push_back(t.get());
      return n.sink()->use_tensors(step->since, step->places, tensors);
    }
    case NumberStep::Kind::Calculate: {
      const int b = step->nodes.size() > 1 ? step->nodes[1] : -1;
      const int node = is_number_object(result)
                           ? n.sink()->calculate(step->what, step->nodes[0], b, result)
                           : -1;
      if (node >= 0 && n.find(result) < 0) return take(node);
      return n.fix(step->nodes);
    }
    case NumberStep::Kind::Same:
      return is_number_object(result) ? replace(step->nodes[0]) : n.fix(step->nodes);
    case NumberStep::Kind::Decide: {
      const int b = step->nodes.size() > 1 ? step->nodes[1] : -1;
      if (PyBool_Check(result) &&
          n.sink()->decide(step->what, step->nodes[0], b, result == Py_True))
        return;
      return n.fix(step->nodes);
    }
    case NumberStep::Kind::Carry:
      // What holds numbers and cannot be looked into. None, True or a method hold none.
      if (PyIter_Check(result)) n.carry(result, std::move(step->nodes));
      return;
    case NumberStep::Kind::Text: {
      const bool as_expected =
          PyUnicode_CheckExact(result) && !step->delegated && gives_text(step->pieces, result);
      PyRef fresh = as_expected ? fresh_text(result) : PyRef();
      if (!fresh) return n.fix(step->nodes);
      n.track_text(fresh.get(), std::move(step->nodes), std::move(step->pieces));
      PyObject* old = *place;
      *place = fresh.release();
      Py_DECREF(old);
      return;
    }
    case NumberStep::Kind::Source:
      if (result != step->source || step->delegated) return n.fix(step->nodes);
      if (!PyTuple_CheckExact(result)) return replace(step->nodes[0]);
      return replace_in_tuple(n, *place, step->nodes);
  }
}

void number_raise(Recording& r, Frame& frame) {
  if (!frame.number_step) return;
  r.numbers.fix(frame.number_step->nodes);
  frame.number_step.reset();
}

}  // namespace fulgurite::python::watching
