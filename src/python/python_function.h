// Python callables behind the interfaces of the core: operators' implementations, kernels of
// groups, checkers.
#pragma once

#include <Python.h>

#include "exec/executor.h"

namespace fulgurite::python {

// A function of an operator's arguments: positional ones, then those that the schema has after `*`
// by name. It returns what the schema says: one object, or a tuple. What it raises is thrown as
// torch's python_error, and is that Python exception again when it gets back to Python.
exec::ImplementationPtr python_function(PyObject* callable, const c10::FunctionSchema& schema);

// A kernel of a group: takes the group's inputs, returns a tensor or a tuple of tensors.
exec::ImplementationPtr python_kernel(PyObject* callable);

// `callable(args: list, kwargs: dict) -> (takes, reason)`; tensors are fulgurite.extend.Value's.
exec::Checker python_checker(PyObject* callable);

// `callable(trace) -> callable, None or a reason`.
exec::Fuse python_fuse(PyObject* callable);

// Sets the Python exception fulgurite.extend.ExecutorError, with its cause.
void raise_executor_error(const exec::ExecutorError& error);
extern PyObject* executor_error;

// Sets it, or fulgurite.Error, for what a program that served failed with (run/serving.h).
void raise_failure(const std::exception_ptr& failure);
extern PyObject* base_error;

}  // namespace fulgurite::python
