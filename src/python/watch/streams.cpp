#include "streams.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "py_ref.h"

namespace fulgurite::python {
namespace {

PyTypeObject* type_of_io(const char* name) {
  PyRef module = PyRef::steal(PyImport_ImportModule("_io"));
  PyObject* type = module ? PyObject_GetAttrString(module.get(), name) : nullptr;
  if (type == nullptr) PyErr_Clear();
  return reinterpret_cast<PyTypeObject*>(type);  // kept for the life of the process
}

struct Types {
  PyTypeObject* text = type_of_io("TextIOWrapper");
  PyTypeObject* string = type_of_io("StringIO");
  std::array<PyTypeObject*, 4> binary = {type_of_io("BufferedWriter"), type_of_io("BufferedRandom"),
                                         type_of_io("BytesIO"), type_of_io("FileIO")};
};
const Types& types() {
  static const Types found;
  return found;
}

// The attribute as the C class gives it; null if a subclass or the instance has another one.
PyRef own_attribute(PyObject* stream, const char* name) {
  PyRef key = PyRef::steal(PyUnicode_InternFromString(name));
  PyTypeObject* base = types().text;
  PyObject** attributes = _PyObject_GetDictPtr(stream);
  const bool is_set = attributes != nullptr && *attributes != nullptr &&
                      PyDict_GetItemWithError(*attributes, key.get()) != nullptr;
  PyObject* descriptor = _PyType_Lookup(base, key.get());
  if (is_set || descriptor == nullptr || _PyType_Lookup(Py_TYPE(stream), key.get()) != descriptor)
    return {};
  PyRef found = PyRef::steal(PyObject_GenericGetAttr(stream, key.get()));
  if (!found) PyErr_Clear();
  return found;
}

bool is_plain_binary(PyObject* o) {
  for (PyTypeObject* type : types().binary)
    if (Py_TYPE(o) == type) {
      if (type == types().binary[2] || type == types().binary[3]) return true;
      PyRef raw = PyRef::steal(PyObject_GetAttrString(o, "raw"));
      if (!raw) PyErr_Clear();
      return raw && Py_TYPE(raw.get()) == types().binary[3];
    }
  return false;
}

bool is_closed(PyObject* o) {
  PyRef closed = PyRef::steal(PyObject_GetAttrString(o, "closed"));
  if (!closed) PyErr_Clear();
  return !closed || closed.get() != Py_False;
}

std::string_view text_of(PyObject* unicode) {
  const char* text =
      unicode != nullptr && PyUnicode_Check(unicode) ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "";
}

}  // namespace

bool is_plain_stream(PyObject* stream) {
  if (types().string != nullptr && Py_TYPE(stream) == types().string) return !is_closed(stream);
  if (types().text == nullptr || !PyType_IsSubtype(Py_TYPE(stream), types().text) ||
      Py_TYPE(stream)->tp_getattro != types().text->tp_getattro)
    return false;
  const PyRef buffer = own_attribute(stream, "buffer");
  return buffer && is_plain_binary(buffer.get()) && !is_closed(buffer.get()) &&
         own_attribute(stream, "write") && own_attribute(stream, "flush");
}

bool can_write(PyObject* stream, PyObject* text) {
  if (Py_TYPE(stream) == types().string) return true;
  const PyRef name = own_attribute(stream, "encoding");
  const std::string_view encoding = text_of(name.get());
  const bool is_utf8 = encoding == "utf-8" || encoding == "UTF-8" || encoding == "utf8";
  constexpr std::array<std::string_view, 6> others = {"ascii",   "US-ASCII",   "ANSI_X3.4-1968",
                                                      "latin-1", "ISO-8859-1", "cp1252"};
  if (!is_utf8 && std::find(others.begin(), others.end(), encoding) == others.end()) return false;
  if (PyUnicode_IS_ASCII(text)) return true;
  if (!is_utf8) return false;
  const bool encodes = PyUnicode_AsUTF8(text) != nullptr;
  if (!encodes) PyErr_Clear();
  return encodes;
}

}  // namespace fulgurite::python
