// Texts with numbers in them that vary (numbers.h): f"loss {loss.item():.3f}".
#include "internals.h"

#include "call.h"

namespace fulgurite::python::watching {

// CPython has each text of one character once; this one nobody else has.
PyRef fresh_text(PyObject* text) {
  const Py_ssize_t length = PyUnicode_GET_LENGTH(text);
  PyRef fresh = PyRef::steal(PyUnicode_New(length, PyUnicode_MAX_CHAR_VALUE(text)));
  if (length == 0 || !fresh ||
      PyUnicode_CopyCharacters(fresh.get(), 0, text, 0, length) != length) {
    PyErr_Clear();
    return {};
  }
  return fresh;
}

bool gives_text(const std::vector<PyRef>& pieces, PyObject* text) {
  PyRef all = PyRef::steal(PyUnicode_FromString(""));
  for (const PyRef& part : pieces) {
    PyRef piece = part;
    if (PyTuple_Check(part.get()))
      piece = PyRef::steal(
          PyObject_Format(PyTuple_GET_ITEM(part.get(), 0), PyTuple_GET_ITEM(part.get(), 1)));
    if (piece && all) all = PyRef::steal(PyUnicode_Concat(all.get(), piece.get()));
    if (!piece || !all) return PyErr_Clear(), false;
  }
  return values_equal(all.get(), text);
}

void NumberWatch::track_text(PyObject* text, std::vector<int> nodes, std::vector<PyRef> pieces) {
  carry(text, std::move(nodes));
  texts_.emplace(text, std::move(pieces));
}

std::vector<PyRef> NumberWatch::pieces_of(PyObject* object) const {
  if (auto it = texts_.find(object); it != texts_.end()) return it->second;
  if (find(object) < 0) return {PyRef::borrow(object)};
  PyRef none = PyRef::steal(PyUnicode_FromString(""));
  return {PyRef::steal(PyTuple_Pack(2, object, none.get()))};
}

void NumberWatch::fix_escaped_texts() {
  for (const auto& [text, pieces] : texts_)
    if (Py_REFCNT(text) > 1) fix_in(text);  // one reference is ours
}

// Whether `count` numbers are all that is printed of numbers, as they are or in texts.
bool Call::prints_numbers(size_t count) const {
  if (name() != "builtins.print") return false;
  const auto named = static_cast<size_t>(arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0);
  std::vector<int> nodes;
  for (size_t i = explicit_from_; i + named < a_.size(); ++i)
    if (r_.numbers.find(a_[i]) >= 0 || r_.numbers.is_text(a_[i])) r_.numbers.collect(a_[i], nodes);
  return nodes.size() == count;
}

}  // namespace fulgurite::python::watching
