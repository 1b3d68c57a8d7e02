// The arithmetic of arithmetic.h, done by Python's own number protocol.
#include "arithmetic.h"

#include <opcode.h>

#include <cstring>

namespace fulgurite::python {
namespace {

using Kind = Arithmetic::Node::Kind;

// By the argument of BINARY_OP; the in-place forms, 13 further on, do the same to numbers.
PyObject* apply_binary(int operation, PyObject* a, PyObject* b) {
  switch (operation % 13) {
    case 0:
      return PyNumber_Add(a, b);
    case 1:
      return PyNumber_And(a, b);
    case 2:
      return PyNumber_FloorDivide(a, b);
    case 3:
      return PyNumber_Lshift(a, b);
    case 5:
      return PyNumber_Multiply(a, b);
    case 6:
      return PyNumber_Remainder(a, b);
    case 7:
      return PyNumber_Or(a, b);
    case 8:
      return PyNumber_Power(a, b, Py_None);
    case 9:
      return PyNumber_Rshift(a, b);
    case 10:
      return PyNumber_Subtract(a, b);
    case 11:
      return PyNumber_TrueDivide(a, b);
    case 12:
      return PyNumber_Xor(a, b);
    default:
      PyErr_SetString(PyExc_TypeError, "no operation of numbers");
      return nullptr;
  }
}

const char* binary_sign(int operation) {
  static const char* const signs[] = {"+", "&",  "//", "<<", "@", "*", "%",
                                      "|", "**", ">>", "-",  "/", "^"};
  return signs[operation % 13];
}

std::string text_of_object(PyObject* object) {
  PyRef repr = PyRef::steal(PyObject_Repr(object));
  const char* text = repr ? PyUnicode_AsUTF8(repr.get()) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "?";
}

bool same_number(PyObject* a, PyObject* b) {
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    const double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

}  // namespace

PyRef Arithmetic::value(const Node& node, const std::vector<PyRef>& slots,
                        const std::vector<PyRef>& values) const {
  auto at = [&](int i) { return values[static_cast<size_t>(i)].get(); };
  switch (node.kind) {
    case Kind::Slot:
      return slots[static_cast<size_t>(node.left)];
    case Kind::Constant:
      return node.recorded;
    case Kind::Binary:
      return PyRef::steal(apply_binary(node.operation, at(node.left), at(node.right)));
    case Kind::Unary:
      return PyRef::steal(node.operation == UNARY_NEGATIVE   ? PyNumber_Negative(at(node.left))
                          : node.operation == UNARY_POSITIVE ? PyNumber_Positive(at(node.left))
                                                             : PyNumber_Invert(at(node.left)));
    case Kind::Compare:
      return PyRef::steal(PyObject_RichCompare(at(node.left), at(node.right), node.operation));
    case Kind::Truth: {
      const int truth = PyObject_IsTrue(at(node.left));
      return truth < 0 ? PyRef() : PyRef::borrow(truth != 0 ? Py_True : Py_False);
    }
  }
  return {};
}

bool Arithmetic::compute(const std::vector<PyRef>& slots, std::vector<PyRef>& values) const {
  values.clear();
  for (const Node& node : nodes) {
    PyRef found = value(node, slots, values);
    if (!found) PyErr_Clear();
    if (!found || Py_TYPE(found.get()) != Py_TYPE(node.recorded.get())) return false;
    values.push_back(std::move(found));
  }
  for (const Guard& guard : guards) {
    const auto i = static_cast<size_t>(guard.node);
    if (!same_number(values[i].get(), nodes[i].recorded.get())) return false;
  }
  return true;
}

std::string Arithmetic::explain_failure(const std::vector<PyRef>& slots) const {
  std::vector<PyRef> values;
  for (const Node& node : nodes) {
    PyRef found = value(node, slots, values);
    if (!found) PyErr_Clear();
    if (!found) return "the arithmetic on a number that the call keeps raises an exception";
    values.push_back(std::move(found));
  }
  for (const Guard& guard : guards) {
    const auto i = static_cast<size_t>(guard.node);
    if (!same_number(values[i].get(), nodes[i].recorded.get()))
      return guard.text + " is now " + text_of_object(values[i].get());
  }
  return "";
}

std::string Arithmetic::text(int index) const {
  const Node& node = nodes[static_cast<size_t>(index)];
  static const char* const comparisons[] = {"<", "<=", "==", "!=", ">", ">="};
  switch (node.kind) {
    case Kind::Slot: {
      const auto slot = static_cast<size_t>(node.left);
      return slot < slot_names.size() ? slot_names[slot] : "slot " + std::to_string(slot);
    }
    case Kind::Constant:
      return text_of_object(node.recorded.get());
    case Kind::Binary:
      return "(" + text(node.left) + " " + binary_sign(node.operation) + " " + text(node.right) +
             ")";
    case Kind::Unary:
      return (node.operation == UNARY_NEGATIVE   ? "-"
              : node.operation == UNARY_POSITIVE ? "+"
                                                 : "~") +
             text(node.left);
    case Kind::Compare:
      return "(" + text(node.left) + " " + comparisons[node.operation] + " " + text(node.right) +
             ")";
    case Kind::Truth:
      return "bool(" + text(node.left) + ")";
  }
  return "?";
}

}  // namespace fulgurite::python
