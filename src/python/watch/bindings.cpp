// Implementation of bindings.h. `_watch` guards the containers among the arguments by structure, as
// a caller does that checks its arguments itself.
#include "bindings.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "watcher.h"

namespace nb = nanobind;

namespace fulgurite::python {
namespace {

struct Watched {
  Observation observation;
  nb::object callable;
  std::vector<nb::object> arguments;
};

void add_containers(nb::handle object, std::vector<PyObject*>& containers, int depth = 0) {
  PyObject* o = object.ptr();
  if (depth > 8) return;
  if (PyList_CheckExact(o)) {
    containers.push_back(o);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) {
      add_containers(PyList_GET_ITEM(o, i), containers, depth + 1);
    }
  } else if (PyTuple_CheckExact(o)) {
    containers.push_back(o);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
      add_containers(PyTuple_GET_ITEM(o, i), containers, depth + 1);
    }
  } else if (PyDict_CheckExact(o)) {
    containers.push_back(o);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &value)) add_containers(value, containers, depth + 1);
  }
}

nb::tuple watch_call(nb::object callable, nb::tuple args, nb::dict kwargs) {
  WatchOptions options;
  auto watched = std::make_unique<Watched>();
  std::vector<PyObject*> values;
  nb::list names;
  for (nb::handle value : args) values.push_back(value.ptr());
  for (auto [name, value] : kwargs) {
    names.append(name);
    values.push_back(value.ptr());
  }
  for (PyObject* value : values) {
    watched->arguments.push_back(nb::borrow(value));
    add_containers(value, options.argument_structure);
  }
  watched->callable = callable;
  nb::tuple kwnames(names);
  PyObject* result =
      watch(callable.ptr(), values.data(), nb::len(args),
            nb::len(kwnames) > 0 ? kwnames.ptr() : nullptr, options, watched->observation);
  // Only for a caller that makes a program of the run; nothing of it may be kept alive here.
  watched->observation.known = KnownObjects();
  watched->observation.slots.clear();
  watched->observation.pure_parts.clear();
  if (!result) throw nb::python_error();
  return nb::make_tuple(nb::steal(result),
                        nb::cast(watched.release(), nb::rv_policy::take_ownership));
}

using Refused = std::tuple<std::string, std::string, int>;

int watched_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const Watched& watched = *nb::inst_ptr<Watched>(self);
  Py_VISIT(watched.callable.ptr());
  for (const nb::object& argument : watched.arguments) Py_VISIT(argument.ptr());
  for (const Effect& effect : watched.observation.effects) {
    Py_VISIT(effect.holder.get());
    Py_VISIT(effect.key.get());
    Py_VISIT(effect.value.get());
  }
  return watched.observation.guards.traverse(visit, arg);
}

int watched_clear(PyObject* self) {
  Watched& watched = *nb::inst_ptr<Watched>(self);
  Observation gone = std::move(watched.observation);
  watched.observation = Observation();
  watched.callable.reset();
  watched.arguments.clear();
  return 0;
}

PyType_Slot watched_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(watched_traverse)},
                               {Py_tp_clear, reinterpret_cast<void*>(watched_clear)},
                               {0, nullptr}};

}  // namespace

void bind_watch(nb::module_& m) {
  nb::class_<Watched>(m, "Watched", nb::type_slots(watched_slots),
                      "What one run of a callable depended on and did.")
      .def(
          "check", [](Watched& w) { return w.observation.guards.check(); },
          "Whether everything that the run read is as it was.")
      .def(
          "explain_failure", [](Watched& w) { return w.observation.guards.explain_failure(); },
          "The first guard that fails now, with its old and new value; empty if all hold.")
      .def(
          "guards",
          [](Watched& w) {
            std::vector<std::tuple<std::string, std::string, std::string>> out;
            for (GuardInfo& g : w.observation.guards.describe()) {
              out.emplace_back(std::move(g.kind), std::move(g.expression), std::move(g.reason));
            }
            return out;
          },
          "(kind, expression, reason) of each guard.")
      .def(
          "effects",
          [](Watched& w) {
            std::vector<std::tuple<std::string, std::string, std::string, int>> out;
            for (const Effect& e : w.observation.effects) {
              out.emplace_back(effect_kind_name(e.kind), e.text, e.where.file, e.where.line);
            }
            return out;
          },
          "(kind, text, file, line) of each write that outlives the call, in order.")
      .def(
          "refusals",
          [](Watched& w) {
            std::vector<Refused> out;
            for (const Refusal& r : w.observation.refusals) {
              out.emplace_back(r.what, r.where.file, r.where.line);
            }
            return out;
          },
          "(what, file, line): why this run must not be reused.")
      .def(
          "tensors",
          [](Watched& w) {
            nb::list out;
            for (const TensorRead& t : w.observation.tensors) {
              out.append(nb::make_tuple(nb::handle(t.tensor), t.path));
            }
            return out;
          },
          "(tensor, path) of each tensor that was reached through Python.")
      .def_prop_ro("opcodes", [](Watched& w) { return w.observation.opcodes; });
  m.def("_watch", &watch_call, nb::arg("callable"), nb::arg("args"), nb::arg("kwargs"),
        "Calls `callable` under watch and returns its result and what was seen.");
  m.def("_unknown_instructions", [](nb::object code) {
    if (!PyCode_Check(code.ptr())) throw nb::type_error("expects a code object");
    return unknown_instructions(code.ptr());
  });
  m.def("_where", [] {
    std::string module_path;
    SourceLocation where = current_location(&module_path);
    return std::make_tuple(where.file, where.line, module_path);
  });
}

}  // namespace fulgurite::python
