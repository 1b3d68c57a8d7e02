// Python's view of the watcher, for tests and for looking at what a call depends on.
#pragma once

#include <nanobind/nanobind.h>

namespace fulgurite::python {

// Adds `_watch(callable, args, kwargs) -> (result, Watched)` and the class `Watched` to `m`.
void bind_watch(nanobind::module_& m);

}  // namespace fulgurite::python
