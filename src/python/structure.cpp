#include "structure.h"

#include <cstring>
#include <unordered_map>

#include "structure_nodes.h"
#include "watch/values.h"

namespace fulgurite::python {
namespace {

using Kind = StructureNode::Kind;

bool is_named_tuple(PyTypeObject* type) {
  return PyType_IsSubtype(type, &PyTuple_Type) && type != &PyTuple_Type &&
         (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 &&
         PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "_fields");
}

bool is_torch_size(PyTypeObject* type) { return std::strcmp(type->tp_name, "torch.Size") == 0; }
bool is_struct_sequence(PyTypeObject* type) {
  return PyType_IsSubtype(type, &PyTuple_Type) &&
         std::strncmp(type->tp_name, "torch.return_types.", 19) == 0;
}

void flatten(PyObject* o, std::vector<StructureNode>& nodes, std::vector<PyObject*>& tensors,
             std::vector<PyObject*>& containers, std::string& refusal, int depth) {
  PyTypeObject* type = Py_TYPE(o);
  if (is_plain_tensor(o) && has_attributes(o)) {
    refusal = "an argument is a tensor with Python attributes of its own, which are not guarded";
    nodes.push_back({Kind::Identity, 0, PyRef::borrow(o), {}});
    return;
  }
  if (is_plain_tensor(o)) {
    nodes.push_back({Kind::Tensor,
                     static_cast<int32_t>(tensors.size()),
                     {},
                     PyRef::borrow(reinterpret_cast<PyObject*>(type))});
    tensors.push_back(o);
    return;
  }
  if (is_any_tensor(o)) {
    refusal = std::string("an argument is a tensor subclass (") + type->tp_name +
              "), which is not compiled yet";
    nodes.push_back({Kind::Identity, 0, PyRef::borrow(o), {}});
    return;
  }
  if (is_value_type(type)) {
    nodes.push_back({Kind::Value, 0, PyRef::borrow(o), {}});
    return;
  }
  const bool tuple = type == &PyTuple_Type || is_torch_size(type) || is_named_tuple(type) ||
                     is_struct_sequence(type);
  if (depth < 16 && (tuple || type == &PyList_Type)) {
    containers.push_back(o);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    nodes.push_back({tuple ? Kind::Tuple : Kind::List,
                     static_cast<int32_t>(n),
                     {},
                     PyRef::borrow(reinterpret_cast<PyObject*>(type))});
    for (Py_ssize_t i = 0; i < n; ++i)
      flatten(PySequence_Fast_GET_ITEM(o, i), nodes, tensors, containers, refusal, depth + 1);
    return;
  }
  if (depth < 16 && type == &PyDict_Type) {
    bool plain_keys = true;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (PyDict_Next(o, &pos, &key, &value))
      plain_keys = plain_keys && is_value_type(Py_TYPE(key));
    if (plain_keys) {
      containers.push_back(o);
      PyRef keys = PyRef::steal(PyTuple_New(PyDict_GET_SIZE(o)));
      pos = 0;
      Py_ssize_t i = 0;
      while (PyDict_Next(o, &pos, &key, &value)) {
        Py_INCREF(key);
        PyTuple_SET_ITEM(keys.get(), i++, key);
      }
      nodes.push_back({Kind::Dict, static_cast<int32_t>(PyDict_GET_SIZE(o)), keys, {}});
      pos = 0;
      while (PyDict_Next(o, &pos, &key, &value))
        flatten(value, nodes, tensors, containers, refusal, depth + 1);
      return;
    }
  }
  // (Slices, ranges, numpy scalars.)
  nodes.push_back({watching::is_value(o) ? Kind::Value : Kind::Identity, 0, PyRef::borrow(o), {}});
}

struct Found {
  std::vector<PyObject*>& tensors;
  std::vector<PyObject*>& followed;
  std::vector<PyObject*> objects{};  // whose identity the program may notice
  PyObject* other = nullptr;  // where an object differs by identity: it, and the recorded one
  PyObject* recorded = nullptr;
};

// Matches `o` against the nodes from `at` on; advances it. On a difference, `why` (if given) says
// which.
bool match_node(PyObject* o, const std::vector<StructureNode>& nodes, size_t& at, Found& found,
                std::string* why, const std::string& path) {
  const StructureNode& n = nodes[at++];
  auto differ = [&](const std::string& expected, const std::string& given) {
    if (why != nullptr) *why = path + " was " + expected + " when recorded, is " + given;
    return false;
  };
  switch (n.kind) {
    case Kind::Tensor:
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != n.type.get())
        return differ("a tensor", short_text(o));
      // Attributes that Python code set on a tensor may be read by the program; those were not
      // recorded.
      if (has_attributes(o))
        return differ("a tensor without Python attributes", "one that has some");
      found.tensors.push_back(o);
      return true;
    case Kind::Followed:
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != n.type.get())
        return differ("an object of the same class", short_text(o));
      found.followed.push_back(o);
      found.objects.push_back(o);
      return true;
    case Kind::Value:
      return same_value(o, n.object.get()) || differ(repr(n.object.get()), short_text(o));
    case Kind::Number:
      return (Py_TYPE(o) == Py_TYPE(n.object.get()) && is_number(o)) ||
             differ(std::string("a number of type ") + Py_TYPE(n.object.get())->tp_name,
                    short_text(o));
    case Kind::Identity:
      found.objects.push_back(o);
      if (o == n.object.get()) return true;
      found.other = o;
      found.recorded = n.object.get();
      return differ(short_text(n.object.get()), "another object");
    case Kind::Tuple:
    case Kind::List: {
      if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != n.type.get())
        return differ(n.kind == Kind::List ? "a list" : "a tuple", short_text(o));
      if (n.kind == Kind::List) found.objects.push_back(o);
      if (PySequence_Fast_GET_SIZE(o) != n.count)
        return differ(std::to_string(n.count) + " long",
                      std::to_string(PySequence_Fast_GET_SIZE(o)) + " long");
      for (int32_t i = 0; i < n.count; ++i)
        if (!match_node(PySequence_Fast_GET_ITEM(o, i), nodes, at, found, why,
                        why != nullptr ? path + "[" + std::to_string(i) + "]" : path))
          return false;
      return true;
    }
    case Kind::Dict: {
      if (Py_TYPE(o) != &PyDict_Type) return differ("a dict", short_text(o));
      found.objects.push_back(o);
      if (PyDict_GET_SIZE(o) != n.count)
        return differ(std::to_string(n.count) + " long", "of another length");
      PyObject *key, *value;
      Py_ssize_t pos = 0;
      Py_ssize_t i = 0;
      while (PyDict_Next(o, &pos, &key, &value)) {
        PyObject* expected = PyTuple_GET_ITEM(n.object.get(), i++);
        if (!same_value(key, expected))
          return differ("a dict with key " + repr(expected), "one with " + repr(key));
        if (!match_node(value, nodes, at, found, why,
                        why != nullptr ? path + "[" + repr(key) + "]" : path))
          return false;
      }
      return true;
    }
  }
  return false;
}

// For each object, where it is found first.
std::vector<uint32_t> first_places(const std::vector<PyObject*>& objects) {
  std::vector<uint32_t> places;
  std::unordered_map<PyObject*, uint32_t> known;
  for (uint32_t i = 0; i < objects.size(); ++i)
    places.push_back(known.emplace(objects[i], i).first->second);
  return places;
}

// Whether those are one object that were, and no others.
bool has_places(const std::vector<PyObject*>& objects, const std::vector<uint32_t>& places) {
  constexpr size_t kFew = 32;
  if (objects.size() > kFew) return first_places(objects) == places;
  for (uint32_t i = 1; i < objects.size(); ++i) {
    uint32_t first = 0;
    while (objects[first] != objects[i]) ++first;
    if (first != places[i]) return false;
  }
  return true;
}

// Objects of Python classes, whose inside is read through attributes that can be guarded, and
// containers that are no part of the structure.
bool can_follow(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (is_any_tensor(o) || PyType_Check(o)) return false;
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 || PyDict_Check(o) || watching::is_deque(o) ||
         type == watching::known_types().simple_namespace;
}

bool same_names(PyObject* a, PyObject* b) {
  const Py_ssize_t n = a != nullptr ? PyTuple_GET_SIZE(a) : 0;
  const Py_ssize_t m = b != nullptr ? PyTuple_GET_SIZE(b) : 0;
  if (n != m) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* x = PyTuple_GET_ITEM(a, i);
    PyObject* y = PyTuple_GET_ITEM(b, i);
    if (x != y && PyUnicode_Compare(x, y) != 0) return false;
  }
  return true;
}

}  // namespace

ArgumentStructure ArgumentStructure::of(PyObject* const* args, size_t nargs, PyObject* kwnames,
                                        std::vector<PyObject*>& tensors,
                                        std::vector<PyObject*>& containers, std::string& refusal) {
  ArgumentStructure s;
  s.nargs_ = nargs;
  s.kwnames_ = PyRef::borrow(kwnames);
  const size_t total =
      nargs + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  for (size_t i = 0; i < total; ++i) flatten(args[i], s.nodes_, tensors, containers, refusal, 0);
  std::vector<PyObject*> again, followed;
  Found found{again, followed};
  static const std::string none;
  size_t at = 0;
  for (size_t i = 0; i < total && refusal.empty(); ++i)
    match_node(args[i], s.nodes_, at, found, nullptr, none);
  s.first_places_ = first_places(found.objects);
  return s;
}

bool ArgumentStructure::match(PyObject* const* args, size_t nargs, PyObject* kwnames,
                              std::vector<PyObject*>& tensors,
                              std::vector<PyObject*>& followed) const {
  if (nargs != nargs_) return false;
  if (kwnames != kwnames_.get() && !same_names(kwnames, kwnames_.get())) return false;
  const size_t total =
      nargs + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  size_t at = 0;
  static const std::string none;
  Found found{tensors, followed};
  for (size_t i = 0; i < total; ++i)
    if (!match_node(args[i], nodes_, at, found, nullptr, none)) return false;
  return has_places(found.objects, first_places_);
}

std::string ArgumentStructure::difference(PyObject* const* args, size_t nargs,
                                          PyObject* kwnames) const {
  if (nargs != nargs_)
    return "recorded with " + std::to_string(nargs_) + " positional arguments, called with " +
           std::to_string(nargs);
  if (!same_names(kwnames, kwnames_.get())) return "called with other keyword arguments";
  const size_t total =
      nargs + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  size_t at = 0;
  std::vector<PyObject*> tensors, followed;
  Found found{tensors, followed};
  std::string why;
  for (size_t i = 0; i < total; ++i)
    if (!match_node(args[i], nodes_, at, found, &why, argument_path(i, nargs, kwnames))) return why;
  return has_places(found.objects, first_places_)
             ? ""
             : "other arguments are one and the same object than when recorded";
}

std::string ArgumentStructure::place_to_follow(PyObject* const* args, size_t nargs,
                                               PyObject* kwnames) const {
  if (nargs != nargs_ || !same_names(kwnames, kwnames_.get())) return "";
  const size_t total =
      nargs + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  size_t at = 0;
  std::vector<PyObject*> tensors, followed;
  Found found{tensors, followed};
  std::string why;
  for (size_t i = 0; i < total; ++i) {
    if (match_node(args[i], nodes_, at, found, &why, argument_path(i, nargs, kwnames))) continue;
    if (found.other == nullptr || !can_follow(found.other) ||
        Py_TYPE(found.other) != Py_TYPE(found.recorded))
      return "";
    return why.substr(0, why.find(" was "));
  }
  return "";
}

void ArgumentStructure::follow(const std::unordered_set<std::string>& places,
                               std::vector<PyObject*>& followed) {
  const size_t total =
      nargs_ + (kwnames_ ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_.get())) : 0);
  size_t at = 0;
  for (size_t i = 0; i < total; ++i) {
    walk(nodes_, at, argument_path(i, nargs_, kwnames_.get()),
         [&](const StructureNode& n, const std::string& path) {
           if (n.kind != Kind::Identity || places.count(path) == 0) return;
           if (!can_follow(n.object.get())) return;
           auto& node = const_cast<StructureNode&>(n);  // ours; walk only looks
           followed.push_back(n.object.get());
           node.kind = Kind::Followed;
           node.type = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(n.object.get())));
         });
  }
}

size_t ArgumentStructure::node_of(size_t argument) const {
  size_t at = 0;
  for (size_t i = 0; i < argument; ++i)
    walk(nodes_, at, "", [](const StructureNode&, const std::string&) {});
  return at;
}

std::string ArgumentStructure::number_path(size_t i) const {
  const StructureNode& n = nodes_[node_of(i)];
  return n.kind == Kind::Value && is_number(n.object.get())
             ? argument_path(i, nargs_, kwnames_.get())
             : "";
}

void ArgumentStructure::let_number_vary(size_t i) { nodes_[node_of(i)].kind = Kind::Number; }

std::vector<std::string> ArgumentStructure::varied(PyObject* const* args, size_t nargs,
                                                   PyObject* kwnames) const {
  std::vector<std::string> paths;
  if (nargs != nargs_ || !same_names(kwnames, kwnames_.get())) return paths;
  const size_t total =
      nargs + (kwnames != nullptr ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
  for (size_t i = 0; i < total; ++i) {
    const StructureNode& n = nodes_[node_of(i)];
    if (n.kind == Kind::Value && is_number(n.object.get()) && is_number(args[i]) &&
        Py_TYPE(args[i]) == Py_TYPE(n.object.get()) && !same_value(args[i], n.object.get()))
      paths.push_back(argument_path(i, nargs, kwnames));
  }
  return paths;
}

int ArgumentStructure::traverse(visitproc visit, void* arg) const {
  for (const StructureNode& n : nodes_) {
    Py_VISIT(n.object.get());
  }
  return 0;
}

}  // namespace fulgurite::python
