#include "extend.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

#include "exec/operators.h"
#include "exec/registry.h"
#include "python_function.h"

namespace nb = nanobind;

namespace fulgurite::python {
namespace {

using exec::Executor;

ir::Op operator_of(const std::string& name, const std::string& overload) {
  if (auto op = ir::Op::find(name, overload)) return *op;
  throw UserError("FG-404",
                  "there is no operator '" + name + (overload.empty() ? "" : "." + overload) + "'");
}

void define(Executor& executor, const std::string& name, const std::string& schema, nb::callable fn,
            nb::callable meta, bool has_effect, bool is_random) {
  c10::FunctionSchema parsed("", "", {}, {});
  try {
    parsed = torch::jit::parseSchema("fulgurite_extend::" + name + schema);
  } catch (const std::exception& e) {
    throw UserError("FG-403", "'" + name + schema + "' is no schema of an operator: " +
                                  std::string(e.what()).substr(0, 400));
  }
  exec::OperatorTraits traits;
  traits.has_effect = has_effect;
  traits.is_random = is_random;
  exec::define_operator(executor, name, schema, python_function(fn.ptr(), parsed),
                        python_function(meta.ptr(), parsed), traits);
}

void implement(Executor& executor, const std::string& name, const std::string& overload,
               const std::optional<std::string>& as, nb::object checker, nb::object transform) {
  const ir::Op op = operator_of(name, overload);
  exec::Offer offer;
  if (as) {
    offer.as = operator_of(*as, "");
    if (exec::find_operator(*offer.as) == nullptr)
      throw UserError("FG-405", offer.as->id() + " was not made by register_operator");
  }
  if (!checker.is_none()) offer.checker = python_checker(checker.ptr());
  if (!transform.is_none()) offer.transform = python_function(transform.ptr(), op.schema());
  executor.implement(op, std::move(offer));
}

}  // namespace

void bind_extend(nb::module_& m) {
  nb::class_<Executor>(m, "Executor", "The core's side of an executor (fulgurite.extend).")
      .def(nb::new_([](std::string name, std::string version) {
             return std::make_shared<Executor>(std::move(name), std::move(version));
           }),
           nb::arg("name"), nb::arg("version"))
      .def_prop_ro("name", &Executor::name)
      .def_prop_ro("version", &Executor::version)
      .def_prop_ro("namespace", &Executor::operator_namespace)
      .def_prop_ro("implemented", &Executor::implemented,
                   "Ids of the operators that it has an offer for.")
      .def("define", &define, nb::arg("name"), nb::arg("schema"), nb::arg("fn"), nb::arg("meta"),
           nb::arg("has_effect"), nb::arg("is_random"),
           "Defines an operator of the executor's. Raises ValueError (FG-403).")
      .def("implement", &implement, nb::arg("name"), nb::arg("overload"), nb::arg("as_").none(),
           nb::arg("checker").none(), nb::arg("transform").none(),
           "Offers to run an operator. Raises ValueError (FG-404, FG-405).")
      .def(
          "support",
          [](Executor& e, const std::string& name, const std::string& overload,
             nb::object checker) {
            e.support(operator_of(name, overload),
                      checker.is_none() ? exec::Checker() : python_checker(checker.ptr()));
          },
          nb::arg("name"), nb::arg("overload"), nb::arg("checker").none())
      .def("fuse_with",
           [](Executor& e, nb::callable fuse) { e.fuse_with(python_fuse(fuse.ptr())); });
  m.def("_register_executor", &exec::register_executor);
  m.def("_deregister_executor", &exec::deregister_executor);
  m.def("_all_executors", &exec::all_executors);
  m.def("_default_executors", &exec::default_executors);
  m.def("_always_executors", &exec::always_executors);
  m.def("_add_default_executor", &exec::add_default);
  m.def("_add_always_executor", &exec::add_always);
  m.def("_remove_default_executor", &exec::remove_default);
  m.def("_remove_always_executor", &exec::remove_always);
  m.def("_can_stand_for",
        [](const std::string& as, const std::string& name, const std::string& overload) {
          std::string why;
          exec::can_stand_for(operator_of(as, ""), operator_of(name, overload), &why);
          return why;
        });
}

}  // namespace fulgurite::python
