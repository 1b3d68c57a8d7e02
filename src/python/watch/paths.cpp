// How facts are written for people: "self.fc.weight is <parameter>", "globals()['K'] == 3".
#include <algorithm>
#include <cstring>

#include "guard_table.h"

namespace fulgurite::python::watching {
namespace {

bool is_identifier(PyObject* key) { return PyUnicode_Check(key) && PyUnicode_IsIdentifier(key); }

std::string subscript(PyObject* key) { return "[" + describe_object(key, 40) + "]"; }

// `_modules`, `_parameters` and `_buffers` are where nn.Module keeps what users write as
// attributes.
bool is_module_store(PyObject* key) {
  std::string name = text_of(key);
  return name == "_modules" || name == "_parameters" || name == "_buffers";
}

std::string attribute(const std::string& owner, PyObject* key) {
  return is_identifier(key) ? owner + "." + text_of(key) : owner + ".__dict__" + subscript(key);
}

std::string type_name(PyObject* type) {
  std::string name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

bool is_namespace(PyObject* object, std::string* name) {
  if (!PyDict_Check(object)) return false;
  PyObject* found = PyDict_GetItemString(object, "__name__");
  if (!found || !PyUnicode_Check(found)) return false;
  *name = text_of(found);
  return true;
}

}  // namespace

const Fact* PathPrinter::fact_of(int parent) const {
  return parent >= 0 && static_cast<size_t>(parent) < facts_.size() ? &facts_[parent] : nullptr;
}

std::string PathPrinter::object(PyObject* object, int parent, int depth) const {
  if (depth > 24 || object == nullptr) return "...";
  std::string name;
  if (PyType_Check(object)) return type_name(object);
  if (PyModule_Check(object))
    return is_namespace(PyModule_GetDict(object), &name) ? name : "module";
  if (parent <= -2) return roots_[-2 - parent];
  if (const Fact* fact = fact_of(parent)) {
    if (fact->slot >= 0 || fact->expected.get() == object) return access(*fact, depth + 1);
    return inside(*fact, object, depth + 1);
  }
  if (is_namespace(object, &name)) return name;
  if (PyFunction_Check(object)) {
    return text_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname);
  }
  return describe_object(object);
}

// The path of an object that a fact about a container (or a tuple, a method, ...) brought along.
std::string PathPrinter::inside(const Fact& fact, PyObject* object, int depth) const {
  PyObject* whole = fact.expected.get();
  // (A dynamic fact about a whole container keeps only the words for it.)
  std::string base = fact.kind == FactKind::ListAll || fact.kind == FactKind::DictAll
                         ? access(fact, depth)
                         : PathPrinter::object(fact.holder.get(), fact.parent, depth);
  if (whole && PyTuple_Check(whole)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(whole); ++i) {
      if (PyTuple_GET_ITEM(whole, i) != object) continue;
      switch (fact.kind) {
        case FactKind::DictAll: {
          if (i % 2 == 0) return "key " + describe_object(object) + " of " + base;
          PyObject* key = PyTuple_GET_ITEM(whole, i - 1);
          const Fact* via = fact_of(fact.parent);
          if (via && via->kind == FactKind::DictItem && is_module_store(via->key.get())) {
            std::string owner = base.substr(0, base.rfind('.'));
            return is_identifier(key) ? owner + "." + text_of(key)
                                      : owner + "[" + text_of(key) + "]";
          }
          if (via && via->kind == FactKind::InstanceDict) {
            return attribute(PathPrinter::object(via->holder.get(), via->parent, depth), key);
          }
          return base + subscript(key);
        }
        case FactKind::ListAll:
          return base + "[" + std::to_string(i) + "]";
        case FactKind::Protocol:
          return base + "." + text_of(special_names(fact.number != 0)[static_cast<size_t>(i)]);
        default:
          return access(fact, depth) + "[" + std::to_string(i) + "]";
      }
    }
  }
  if (fact.kind == FactKind::FunctionCode) return base + "'s " + describe_object(object);
  return whole && fact.kind != FactKind::TypeOf ? access(fact, depth) : base;
}

std::string PathPrinter::access(const Fact& fact, int depth) const {
  if (depth > 24) return "...";
  if (!fact.text.empty()) return fact.text;
  PyObject* key = fact.key.get();
  std::string holder = object(fact.holder.get(), fact.parent, depth + 1);
  switch (fact.kind) {
    case FactKind::DictItem: {
      const Fact* via = fact_of(fact.parent);
      if (via && (via->slot >= 0 || via->expected.get() == fact.holder.get())) {
        if (via->kind == FactKind::InstanceDict) {
          return attribute(object(via->holder.get(), via->parent, depth + 1), key);
        }
        if (via->kind == FactKind::DictItem && is_module_store(via->key.get()) &&
            holder.size() > 1) {
          std::string owner = holder.substr(0, holder.rfind('.'));
          if (is_identifier(key)) return owner + "." + text_of(key);
          if (PyUnicode_Check(key)) return owner + "[" + text_of(key) + "]";
        }
      }
      std::string name;
      if (fact.parent == kNoParent && is_namespace(fact.holder.get(), &name)) {
        return PyUnicode_Check(key) ? name + "." + text_of(key) : name + subscript(key);
      }
      return holder + subscript(key);
    }
    case FactKind::DictAll:
    case FactKind::ListAll:
    case FactKind::SetAll:
      return holder;
    case FactKind::OrderedAll:
      return "list(" + holder + ")";
    case FactKind::DictLength:
    case FactKind::ListLength:
      return "len(" + holder + ")";
    case FactKind::TypeAttribute:
      return holder + "." + text_of(key);
    case FactKind::Cell:
      return "closure " + text_of(key);
    case FactKind::ListItem:
      return holder + subscript(key);
    case FactKind::SetContains:
      return "(" + describe_object(key) + " in " + holder + ")";
    case FactKind::Slot:
    case FactKind::Getset:
      return holder + "." + text_of(key);
    case FactKind::FunctionCode:
      return holder + ".__code__";
    case FactKind::CallResult: {
      std::string arguments = describe_object(fact.extra.get());
      return describe_object(fact.holder.get()) + (arguments == "()" ? "()" : arguments);
    }
    case FactKind::ThreadLocal:
      return holder + "." + text_of(key);
    case FactKind::TypeOf:
      return "type(" + holder + ")";
    case FactKind::InstanceDict:
      return holder + ".__dict__";
    case FactKind::WeakReference:
      return holder + "()";
    case FactKind::ContextVariable:
      return holder + ".get()";
    case FactKind::TupleItem:
      return holder + "[" + std::to_string(fact.number) + "]";
    case FactKind::CachedCall:
      return "the cached " + describe_object(fact.extra.get()) + " of " + describe_object(key);
    case FactKind::Mro:
      return holder + ".__mro__";
    case FactKind::Protocol:
      return std::string(fact.number ? "the operators of " : "the special methods of ") + holder;
  }
  return "?";
}

std::string PathPrinter::expression(const Fact& fact) const {
  std::string left = access(fact);
  switch (fact.kind) {
    case FactKind::DictLength:
    case FactKind::ListLength:
      return left + " == " + std::to_string(fact.number);
    case FactKind::SetContains:
      return left + " is " + (fact.number ? "True" : "False");
    case FactKind::DictAll:
    case FactKind::SetAll:
    case FactKind::ListAll:
    case FactKind::OrderedAll: {
      PyObject* items = fact.expected.get();
      if (is_value(items)) return left + " has the items " + describe_object(items);
      Py_ssize_t n = PyTuple_GET_SIZE(items) / (fact.kind == FactKind::DictAll ? 2 : 1);
      return left + " has the same " + std::to_string(n) + " items";
    }
    case FactKind::FunctionCode:
      return left + " and defaults unchanged";
    case FactKind::Mro:
    case FactKind::Protocol:
      return left + " unchanged";
    case FactKind::InstanceDict:
      return fact.expected ? left + " is the same dict" : left + " is empty";
    default:
      break;
  }
  switch (fact.by) {
    case MatchBy::Absent:
      return left + " is absent";
    case MatchBy::NumberType:
      return left + " is a number of type " + Py_TYPE(fact.expected.get())->tp_name;
    case MatchBy::Value:
      return left + " == " + describe_object(fact.expected.get());
    case MatchBy::Identity:
      return left + " is " + describe_object(fact.expected.get());
    case MatchBy::Type:
      return "type(" + left + ") is " + describe_object(fact.expected.get());
    case MatchBy::Same:
      return left + " is the object that was found before";
  }
  return left;
}

}  // namespace fulgurite::python::watching
