// Names of C callables and their place in the table.
//
// The table is keyed by qualified name; a name that ends in ".*" stands for everything below it,
// and the longest match wins. Answers for functions are cached by their PyMethodDef, which is
// static in the extension modules that the table names; nothing is cached for objects that can die.
#include "internals.h"

#include "callees.h"

#include <string_view>
#include <unordered_map>

#include "py_ref.h"
#include "values.h"

namespace fulgurite::python::watching {
namespace {

struct Entry {
  Callee callee;
  const char* reason;
  const char* names;  // separated by spaces
};

constexpr Entry kTable[] = {
#define FG_CALLEES(callee, reason, names) {Callee::callee, reason, names},
#define FG_FUNCTIONS(callee, reason, names)
#include "callees.inc"
#undef FG_CALLEES
#undef FG_FUNCTIONS
};

constexpr Entry kFunctions[] = {
#define FG_CALLEES(callee, reason, names)
#define FG_FUNCTIONS(callee, reason, names) {Callee::callee, reason, names},
#include "callees.inc"
#undef FG_CALLEES
#undef FG_FUNCTIONS
};

using Table = std::unordered_map<std::string, CalleeModel>;

template <size_t n>
Table make_table(const Entry (&entries)[n]) {
  Table table;
  for (const Entry& entry : entries) {
    std::string_view names = entry.names;
    while (!names.empty()) {
      size_t space = names.find(' ');
      if (space != 0) table[std::string(names.substr(0, space))] = {entry.callee, entry.reason};
      if (space == std::string_view::npos) break;
      names.remove_prefix(space + 1);
    }
  }
  return table;
}

struct WrapperObject {
  PyObject ob_base;
  PyWrapperDescrObject* descriptor;
  PyObject* self;
};

bool is_pybind_record(PyObject* self) {
  std::string_view type = Py_TYPE(self)->tp_name;
  return type == "PyCapsule" ||
         type.find("pybind11_detail_function_record") != std::string_view::npos ||
         type.find("nb_func") != std::string_view::npos;
}

// The class in whose dict the method behind a bound builtin is defined, or null.
PyTypeObject* owner_of(PyTypeObject* type, PyMethodDef* method) {
  for (Py_ssize_t i = 0; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* dict = dict_of(base);
    PyObject* found = dict ? PyDict_GetItemString(dict, method->ml_name) : nullptr;
    if (!found) continue;
    if ((Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyClassMethodDescr_Type) &&
        reinterpret_cast<PyMethodDescrObject*>(found)->d_method == method) {
      return base;
    }
  }
  return nullptr;
}

std::string function_name(PyCFunctionObject* function) {
  std::string name = function->m_ml->ml_name;
  PyObject* self = function->m_self;
  if (self && !PyModule_Check(self) && !is_pybind_record(self)) {
    if (name == "__new__" && PyType_Check(self)) {
      return qualified_type_name(reinterpret_cast<PyTypeObject*>(self)) + ".__new__";
    }
    PyTypeObject* start = Py_TYPE(self);
    PyTypeObject* owner = nullptr;
    if (PyType_Check(self)) {  // a class method, or else a method of the metaclass
      owner = owner_of(reinterpret_cast<PyTypeObject*>(self), function->m_ml);
      if (!owner && !owner_of(start, function->m_ml)) start = reinterpret_cast<PyTypeObject*>(self);
    }
    if (!owner) owner = owner_of(start, function->m_ml);
    return qualified_type_name(owner ? owner : start) + "." + name;
  }
  std::string module;
  if (function->m_module && PyUnicode_Check(function->m_module)) {
    module = text_of(function->m_module);
  } else if (self && PyModule_Check(self)) {
    const char* module_name = PyModule_GetName(self);
    if (!module_name) PyErr_Clear();
    module = module_name ? module_name : "";
  }
  // The generated operators of `torch.*` are static methods of a hidden class.
  if (!self && module == "torch") module = "torch._C._VariableFunctionsClass";
  return module + "." + name;
}

CalleeModel look_up(const Table& table, const std::string& name) {
  if (auto it = table.find(name); it != table.end()) return it->second;
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1)) {
    if (auto it = table.find(name.substr(0, dot) + ".*"); it != table.end()) return it->second;
  }
  return {};
}

// Of "a.b.c": "b.c" and "c", one of which is the qualified name of the function.
PyObject* all_endings(const Table& table) {
  PyObject* endings = PyDict_New();
  for (const auto& [name, model] : table) {
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      PyDict_SetItemString(endings, name.c_str() + dot + 1, Py_None);
  }
  return endings;
}

const Table& callee_table() {
  static const Table table = make_table(kTable);
  return table;
}

}  // namespace

std::string qualified_type_name(PyTypeObject* type) {
  std::string name = type->tp_name;
  if (!is_heap_type(type) || name.find('.') != std::string::npos) return name;
  PyObject* dict = dict_of(type);
  PyObject* module = dict ? PyDict_GetItemString(dict, "__module__") : nullptr;
  return "class " + (module ? text_of(module) + "." : "") + name;
}

std::string qualified_name(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable))
    return function_name(reinterpret_cast<PyCFunctionObject*>(callable));
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &PyClassMethodDescr_Type) {
    auto* descriptor = reinterpret_cast<PyDescrObject*>(callable);
    return qualified_type_name(descriptor->d_type) + "." + text_of(descriptor->d_name);
  }
  if (type == known_types().method_wrapper) {
    auto* wrapper = reinterpret_cast<WrapperObject*>(callable);
    return qualified_type_name(Py_TYPE(wrapper->self)) + "." + wrapper->descriptor->d_base->name;
  }
  if (PyType_Check(callable)) return qualified_type_name(reinterpret_cast<PyTypeObject*>(callable));
  return "a " + qualified_type_name(type) + " object";
}

CalleeModel find_callee_by_name(const std::string& name) { return look_up(callee_table(), name); }

CalleeModel find_callee(PyObject* callable) {
  static std::unordered_map<void*, CalleeModel> cache;
  void* method = nullptr;
  if (PyCFunction_Check(callable)) {
    auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
    bool stable = !function->m_self || !is_pybind_record(function->m_self);
    if (stable && std::string_view(function->m_ml->ml_name) != "__new__") method = function->m_ml;
  } else if (Py_TYPE(callable) == &PyMethodDescr_Type ||
             Py_TYPE(callable) == &PyClassMethodDescr_Type) {
    method = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  } else if (PyType_Check(callable) && !is_heap_type(reinterpret_cast<PyTypeObject*>(callable))) {
    method = callable;
  }
  if (method) {
    if (auto it = cache.find(method); it != cache.end()) return it->second;
  }
  CalleeModel model = find_callee_by_name(qualified_name(callable));
  if (method && model.callee != Callee::Unknown) cache.emplace(method, model);
  return model;
}

FunctionModel find_function(PyObject* object) {
  static const Table table = make_table(kFunctions);
  static PyObject* const listed = all_endings(table);
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  PyObject* module = function->func_module;
  if (!module || !PyUnicode_Check(module)) return {};
  PyObject* name = function->func_qualname;
  if (PyUnicode_CheckExact(name) && !PyDict_Contains(listed, name)) return {};
  CalleeModel model = look_up(table, text_of(module) + "." + text_of(function->func_qualname));
  // functools.wraps gives a wrapper the name of what it wraps; its code has its own.
  PyObject* own = reinterpret_cast<PyCodeObject*>(function->func_code)->co_qualname;
  if (model.callee == Callee::Unknown && own != function->func_qualname &&
      PyUnicode_Compare(own, function->func_qualname) != 0) {
    PyObject* where = PyDict_GetItemString(function->func_globals, "__name__");
    if (where != nullptr && PyUnicode_Check(where))
      model = look_up(table, text_of(where) + "." + text_of(own));
  }
  return {model.callee, model.reason};
}

}  // namespace fulgurite::python::watching
