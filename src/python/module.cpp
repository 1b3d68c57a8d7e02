// The Python module fulgurite._C: traces, jitted functions and what can be asked of them. Logic
// lives in the core; here are only conversions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "exec/registry.h"
#include "extend.h"
#include "ir/errors.h"
#include "ir/text.h"
#include "jit_function.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/derive.h"
#include "py_trace.h"
#include "python_function.h"
#include "record/recorder.h"
#include "rules.h"
#include "trace_call.h"
#include "watch/bindings.h"

namespace nb = nanobind;

namespace fulgurite::python {
namespace {

JitState& state_of(nb::handle h) {
  JitState* s = jit_state(h.ptr());
  if (s == nullptr) throw nb::type_error("expected a function made by fulgurite.jit");
  return *s;
}

nb::list stages(const std::vector<passes::Stage>& from) {
  nb::list out;
  for (const passes::Stage& s : from) out.append(PyTrace{s.trace, s.name, s.milliseconds});
  return out;
}

nb::list claims(const std::vector<passes::Claim>& from) {
  nb::list out;
  for (const passes::Claim& c : from) {
    nb::list declined;
    for (const auto& [executor, reason] : c.declined)
      declined.append(nb::make_tuple(executor, reason));
    out.append(nb::make_tuple(c.op, c.executor, c.place, c.operators, declined));
  }
  return out;
}

nb::dict entry_dict(const Entry& e) {
  nb::dict d;
  d["hits"] = e.hits;
  d["record_ms"] = e.record_milliseconds;
  d["compile_ms"] = e.compile_milliseconds;
  d["forward"] = stages(e.program->parts().stages);
  d["backward"] = stages(e.program->parts().backward_stages);
  d["claims"] = claims(e.program->parts().claims);
  d["backward_claims"] = claims(e.program->parts().backward_claims);
  nb::list guards;
  for (const GuardLine& g : e.guard_lines())
    guards.append(nb::make_tuple(g.kind, g.expression, g.reason));
  d["guards"] = guards;
  d["tree"] = e.tree() ? nb::cast(reinterpret_cast<uintptr_t>(e.tree().get())) : nb::none();
  d["checks"] = e.checks();
  d["went_on"] = e.tree() ? e.tree()->went_on() : 0;
  nb::list decisions;
  if (e.tree())
    for (const run::DecisionText& line : run::BranchTree::describe(e))
      decisions.append(nb::make_tuple(line.asks, line.place, line.what, line.answer));
  d["decisions"] = decisions;
  return d;
}

PyTrace parse(const std::string& text) {
  ir::TracePtr t = ir::parse_python(text);
  return {t, t->stage, 0};
}

std::string python_text(const PyTrace& t, int depth, bool locations, bool full_paths) {
  ir::PrintOptions options;
  options.depth = depth;
  options.locations = locations;
  options.full_paths = full_paths;
  return ir::print_python(*t.trace, options);
}

}  // namespace
}  // namespace fulgurite::python

NB_MODULE(_C, m) {
  using namespace fulgurite;
  using namespace fulgurite::python;
  nb::set_leak_warnings(false);
  m.attr("__version__") = FULGURITE_VERSION;
  m.attr("torch_version") = FULGURITE_TORCH_VERSION;

  auto error = nb::exception<fulgurite::Error>(m, "Error", PyExc_RuntimeError);
  executor_error = nb::exception<exec::ExecutorError>(m, "ExecutorError", error.ptr()).ptr();
  compile_error = nb::exception<fulgurite::Refusal>(m, "CompileError", PyExc_RuntimeError).ptr();
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const fulgurite::UserError& e) {
      PyErr_SetString(PyExc_ValueError, e.what());
    }
  });

  record::install();
  m.attr("JitFunction") = nb::steal(jit_function_type());

  nb::class_<PyTrace>(m, "Trace", "A program: immutable, printable, runnable.")
      .def_static("parse", &parse, nb::arg("text"),
                  "Reads a trace from the Python text that `python()` prints. Raises ValueError "
                  "(FG-301) with line and column.")
      .def("python", &python_text, nb::arg("depth") = 1, nb::arg("locations") = true,
           nb::arg("full_paths") = false,
           "The trace as Python that runs. depth: how many levels of composite operators are "
           "opened; 0 opens all.")
      .def(
          "cpp", [](const PyTrace& t) { return ir::print_cpp(*t.trace); },
          "The trace as C++ against ATen.")
      .def("identical",
           [](const PyTrace& a, const PyTrace& b) {
             std::string d;
             return ir::identical(*a.trace, *b.trace, &d);
           })
      .def("difference",
           [](const PyTrace& a, const PyTrace& b) {
             std::string d;
             ir::identical(*a.trace, *b.trace, &d);
             return d;
           })
      .def("__str__", [](const PyTrace& t) { return python_text(t, 1, true, false); })
      .def("__repr__",
           [](const PyTrace& t) {
             return "<fulgurite.Trace " + t.trace->name + ", " + t.stage + ": " +
                    std::to_string(t.trace->binds.size()) + " ops>";
           })
      .def("__len__", [](const PyTrace& t) { return t.trace->binds.size(); })
      .def(
          "ops",
          [](const PyTrace& t) {
            std::vector<std::string> ids;
            for (const ir::Bind& b : t.trace->binds) ids.push_back(b.op.id());
            return ids;
          },
          "Ids of the operators, in order: 'aten.add.Tensor', ...")
      .def_prop_ro("name", [](const PyTrace& t) { return t.trace->name; })
      .def_ro("stage", &PyTrace::stage)
      .def_ro("milliseconds", &PyTrace::milliseconds)
      .def(
          "__call__",
          [](const PyTrace& t, nb::args args) {
            return nb::steal(call_trace(*t.trace, args.ptr()));
          },
          "Runs the trace on tensors, one per input; returns the outputs as a tuple.");

  m.def(
      "_jit",
      [](nb::object fn, std::string name, bool fullgraph, bool caching, bool reinplace,
         bool functional_leaves, bool write_back_at_once, size_t max_entries, size_t max_branches,
         exec::ExecutorList executors) {
        JitOptions o;
        o.fullgraph = fullgraph;
        o.caching = caching;
        o.reinplace = reinplace;
        o.functional_leaves = functional_leaves;
        o.write_back_at_once = write_back_at_once;
        o.max_entries = max_entries;
        o.max_branches = max_branches;
        o.executors = exec::completed(std::move(executors));
        return nb::steal(new_jit_function(fn.ptr(), std::move(name), o));
      },
      nb::arg("fn"), nb::arg("name"), nb::kw_only(), nb::arg("fullgraph"), nb::arg("caching"),
      nb::arg("reinplace"), nb::arg("functional_leaves"), nb::arg("write_back_at_once"),
      nb::arg("max_entries"), nb::arg("max_branches"), nb::arg("executors"));
  m.def("_is_jitted", [](nb::handle h) { return jit_state(h.ptr()) != nullptr; });
  m.def("_hits", [](nb::handle h) { return state_of(h).hits; });
  m.def("_misses", [](nb::handle h) { return state_of(h).misses; });
  m.def("_entries", [](nb::handle h) {
    nb::list out;
    for (const auto& e : state_of(h).entries.last_used_first()) out.append(entry_dict(*e));
    return out;
  });
  m.def("_fallbacks", [](nb::handle h) {
    nb::list out;
    for (const Fallback& f : state_of(h).fallbacks)
      out.append(nb::make_tuple(f.code, f.reason, f.count));
    return out;
  });
  m.def("_parts", [](nb::handle h) {
    nb::list out;
    for (const Part& p : state_of(h).parts) out.append(nb::borrow(p.substitute.get()));
    return out;
  });
  m.def("_recompiles", [](nb::handle h) { return state_of(h).recompiles; });
  m.def("_clear", [](nb::handle h) {
    JitState& s = state_of(h);
    s.entries.clear();
    s.back_off.clear();
  });
  m.def(
      "_set_event_hook",
      [](nb::object hook) {
        PyObject* old = event_hook;
        event_hook = hook.is_none() ? nullptr : hook.release().ptr();
        Py_XDECREF(old);
      },
      nb::arg("hook").none());
  m.def("_self_test", &record::self_test);
  m.def("_key_name", &record::key_name);
  m.def("_derive_statistics", [] {
    const auto s = passes::derive_statistics();
    return nb::make_tuple(s.derived, s.reused);
  });
  // What passes rely on (ops/traits.h), for the test that tries it: whatever the contents of
  // tensors without integers, of all tensors, whatever the numbers.
  m.def("_runs_on_any", [](const std::string& op, const std::string& overload) {
    const ir::Op of = ir::Op::get(op, overload);
    return nb::make_tuple(ops::runs_on_any_contents(of, /*integers=*/false),
                          ops::runs_on_any_contents(of, /*integers=*/true),
                          ops::runs_with_any_number(of));
  });
  m.def("_watcher_supported", [] {
    std::string why;
    const bool ok = watcher_supported(&why);
    return nb::make_tuple(ok, why);
  });
  bind_watch(m);
  bind_extend(m);
  bind_rules(m);
}
