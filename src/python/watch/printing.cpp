// `print(...)` of what is the same in every call and of the program's numbers, and `write(text)`
// and `flush()` of text streams: each call that the program serves writes again, to the stream as
// it is then.
#include "call.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "streams.h"

namespace fulgurite::python::watching {

bool has_fixed_text(PyObject* o, int depth) {
  if (depth > 8) return false;
  if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      if (!has_fixed_text(PySequence_Fast_GET_ITEM(o, i), depth + 1)) return false;
    return true;
  }
  if (PyDict_CheckExact(o)) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value))
      if (!has_fixed_text(key, depth + 1) || !has_fixed_text(value, depth + 1)) return false;
    return true;
  }
  // (That of numpy's depends on its options.)
  return is_value(o) && std::string_view(Py_TYPE(o)->tp_name).find("numpy.") != 0;
}

namespace {

// What is printed: texts, and numbers with how they are formatted, in order.
struct Printed {
  std::vector<PyRef> pieces;
  PyRef text = PyRef::steal(PyUnicode_FromString(""));  // all that is the same in every call
  bool add(PyObject* part) {
    PyRef piece = PyRef::steal(PyObject_Str(part));
    if (piece) text = PyRef::steal(PyUnicode_Concat(text.get(), piece.get()));
    if (piece && text) return pieces.push_back(piece), true;
    PyErr_Clear();
    return false;
  }
  bool add_pieces(const std::vector<PyRef>& parts) {
    for (const PyRef& part : parts) {
      if (PyTuple_Check(part.get())) {
        pieces.push_back(part);
      } else if (!add(part.get())) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace

// The arguments by name; false if there are others.
bool Call::print_options(PyObject* (&options)[4]) const {
  static const char* const names[] = {"sep", "end", "file", "flush"};
  auto set = [&](PyObject* name, PyObject* value) {
    for (size_t k = 0; k < 4; ++k) {
      if (text_of(name) != names[k]) continue;
      options[k] = value;
      return true;
    }
    return false;
  };
  const auto named = static_cast<size_t>(arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0);
  for (size_t i = 0; i < named; ++i)
    if (!set(PyTuple_GET_ITEM(arguments_.names, static_cast<Py_ssize_t>(i)),
             a_[a_.size() - named + i]))
      return false;
  if (arguments_.keywords == nullptr) return true;
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(arguments_.keywords, &position, &key, &value))
    if (!set(key, value)) return false;
  return true;
}

void Call::writes_text(PyObject* stream, const std::vector<PyRef>& pieces, PyObject* text,
                       bool flush) {
  PyRef value = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(pieces.size())));
  for (size_t i = 0; i < pieces.size(); ++i)
    PyTuple_SET_ITEM(value.get(), static_cast<Py_ssize_t>(i), Py_NewRef(pieces[i].get()));
  PyRef how = PyRef::steal(PyTuple_Pack(2, flush ? Py_True : Py_False, text));
  r_.effect(EffectKind::Print, stream, how.get(), value.get(), "calls " + name());
}

// True if it is an effect that is replayed. Where the run is tied to the values of numbers, each
// would need a program of its own: then the parts around it are compiled instead.
bool Call::prints() {
  if (r_.numbers.is_tied_to_values()) return false;
  const std::string called = name();
  if (called == "_io.TextIOWrapper.write" || called == "_io.TextIOWrapper.flush") {
    const bool flush = called.ends_with("flush");
    const bool fits = a_.size() == (flush ? 1u : 2u) && !arguments_.has_keywords() &&
                      !r_.is_born(a_[0]) && (flush || PyUnicode_CheckExact(a_[1]));
    if (!fits || !is_plain_stream(a_[0])) return false;
    Printed written;
    if ((!flush && !written.add(a_[1])) || !can_write(a_[0], written.text.get())) return false;
    return writes_text(a_[0], written.pieces, written.text.get(), flush), true;
  }
  PyObject* options[4] = {};
  if (called != "builtins.print" || !print_options(options)) return false;
  for (PyObject*& option : options)
    if (option == Py_None) option = nullptr;
  PyObject* stream = options[2] ? options[2] : PySys_GetObject("stdout");
  if (stream == nullptr || (options[2] && r_.is_born(stream)) ||
      (stream != Py_None && !is_plain_stream(stream)) ||
      (options[3] && options[3] != Py_True && options[3] != Py_False))
    return false;
  const auto named = static_cast<size_t>(arguments_.names ? PyTuple_GET_SIZE(arguments_.names) : 0);
  const size_t count = a_.size() - std::min(a_.size(), explicit_from_ + named);
  Printed printed;
  PyRef space = PyRef::steal(PyUnicode_FromString(" "));
  PyRef newline = PyRef::steal(PyUnicode_FromString("\n"));
  for (size_t i = 0; i < count; ++i) {
    PyObject* value = a_[explicit_from_ + i];
    if (i > 0 && !printed.add(options[0] ? options[0] : space.get())) return false;
    if (r_.numbers.is_text(value) || r_.numbers.find(value) >= 0) {
      if (!printed.add_pieces(r_.numbers.pieces_of(value))) return false;
    } else if (!has_fixed_text(value) || !printed.add(value)) {
      return false;
    }
  }
  for (PyObject* option : {options[0], options[1]})
    if (option && !PyUnicode_CheckExact(option)) return false;
  if (!printed.add(options[1] ? options[1] : newline.get())) return false;
  if (stream != Py_None && !can_write(stream, printed.text.get())) return false;
  writes_text(options[2], printed.pieces, printed.text.get(), options[3] == Py_True);
  return true;
}

}  // namespace fulgurite::python::watching
