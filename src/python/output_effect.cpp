#include "output_effect.h"

#include <initializer_list>

#include "watch/streams.h"

namespace fulgurite::python {
namespace {

// The pieces in one text: a new reference, or nullptr with an exception set.
PyRef joined(PyObject* pieces) {
  PyRef text = PyRef::steal(PyUnicode_FromString(""));
  for (Py_ssize_t i = 0; text && i < PyTuple_GET_SIZE(pieces); ++i) {
    PyRef piece = PyRef::borrow(PyTuple_GET_ITEM(pieces, i));
    if (PyTuple_Check(piece.get()))
      piece = PyRef::steal(
          PyObject_Format(PyTuple_GET_ITEM(piece.get(), 0), PyTuple_GET_ITEM(piece.get(), 1)));
    text = piece ? PyRef::steal(PyUnicode_Concat(text.get(), piece.get())) : PyRef();
  }
  return text;
}

PyObject* logging() {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "logging");
  return module != nullptr && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
}

// Exactly of one of these classes of `logging`, and with methods of its class.
bool is_one_of(PyObject* object, std::initializer_list<const char*> classes,
               std::initializer_list<const char*> methods) {
  bool is_known = false;
  for (const char* name : classes)
    is_known = is_known || reinterpret_cast<PyObject*>(Py_TYPE(object)) ==
                               PyDict_GetItemString(logging(), name);
  PyObject** attributes = _PyObject_GetDictPtr(object);
  if (!is_known || attributes == nullptr || *attributes == nullptr) return false;
  for (const char* method : methods)
    if (PyDict_GetItemString(*attributes, method) != nullptr) return false;
  return true;
}

PyRef attribute(PyObject* object, const char* name) {
  PyRef found = PyRef::steal(PyObject_GetAttrString(object, name));
  if (!found) PyErr_Clear();
  return found;
}

bool has_no_filters(PyObject* object) {
  const PyRef filters = attribute(object, "filters");
  return filters && PyList_CheckExact(filters.get()) && PyList_GET_SIZE(filters.get()) == 0;
}

bool is_plain_handler(PyObject* handler) {
  if (!is_one_of(handler, {"StreamHandler", "FileHandler", "NullHandler", "_StderrHandler"},
                 {"emit", "handle", "format", "filter", "flush", "acquire", "release"}) ||
      !has_no_filters(handler))
    return false;
  if (reinterpret_cast<PyObject*>(Py_TYPE(handler)) ==
      PyDict_GetItemString(logging(), "NullHandler"))
    return true;
  const PyRef formatter = attribute(handler, "formatter"), stream = attribute(handler, "stream");
  const bool plain = formatter && (formatter.get() == Py_None ||
                                   is_one_of(formatter.get(), {"Formatter"},
                                             {"format", "formatTime", "formatMessage",
                                              "formatException", "converter", "usesTime"}));
  return plain && stream && is_plain_stream(stream.get());
}

}  // namespace

bool print_pieces(PyObject* stream, PyObject* pieces, bool flush) {
  if (stream == Py_None) return true;
  const PyRef text = joined(pieces);
  if (!text) return false;
  if (PyUnicode_GET_LENGTH(text.get()) > 0 &&
      !PyRef::steal(PyObject_CallMethod(stream, "write", "O", text.get())))
    return false;
  return !flush || static_cast<bool>(PyRef::steal(PyObject_CallMethod(stream, "flush", nullptr)));
}

bool logs_plainly(PyObject* logger) {
  PyObject* module = logging();
  if (module == nullptr || PyDict_GetItemString(module, "_logRecordFactory") !=
                               PyDict_GetItemString(module, "LogRecord"))
    return false;
  auto is_logger = [](PyObject* object) {
    return is_one_of(object, {"Logger", "RootLogger"},
                     {"handle", "makeRecord", "callHandlers", "filter", "findCaller", "_log"});
  };
  if (!is_logger(logger) || !has_no_filters(logger)) return false;
  bool handled = false;
  for (PyRef at = PyRef::borrow(logger); at && at.get() != Py_None;) {
    if (!is_logger(at.get())) return false;
    const PyRef handlers = attribute(at.get(), "handlers");
    if (!handlers || !PyList_CheckExact(handlers.get())) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(handlers.get()); ++i) {
      if (!is_plain_handler(PyList_GET_ITEM(handlers.get(), i))) return false;
      handled = true;
    }
    const PyRef propagates = attribute(at.get(), "propagate");
    const int goes_on = propagates ? PyObject_IsTrue(propagates.get()) : -1;
    if (goes_on < 0) PyErr_Clear();
    if (goes_on <= 0) break;
    at = attribute(at.get(), "parent");
  }
  PyObject* last = PyDict_GetItemString(module, "lastResort");
  return handled || (last != nullptr && (last == Py_None || is_plain_handler(last)));
}

bool log_again(PyObject* logger, PyObject* where, PyObject* what) {
  const PyRef message = joined(PyTuple_GET_ITEM(what, 0));
  const PyRef name = PyRef::steal(PyObject_GetAttrString(logger, "name"));
  if (!message || !name) return false;
  const PyRef record = PyRef::steal(PyObject_CallMethod(
      logger, "makeRecord", "OOOOOOOOOO", name.get(), PyTuple_GET_ITEM(where, 0),
      PyTuple_GET_ITEM(where, 1), PyTuple_GET_ITEM(where, 2), message.get(),
      PyTuple_GET_ITEM(what, 1), Py_None, PyTuple_GET_ITEM(where, 3), Py_None, Py_None));
  return record && PyRef::steal(PyObject_CallMethod(logger, "handle", "O", record.get()));
}

}  // namespace fulgurite::python
