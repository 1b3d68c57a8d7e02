// What the audited C functions do to the state of a program. The table is callees.inc; whatever is
// not in it is Unknown, and calling it refuses the run.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

namespace fulgurite::python::watching {

enum class Callee : uint8_t {
  Unknown,
  Pure,        // reads its arguments and the items of containers among them
  Deep,        // ... and of the containers inside those
  Format,      // str.format: Deep, unless its fields read attributes
  Free,        // touches nothing that a program can see, or only modes that the caller guards
  Op,          // a torch operator: the recorder at the dispatcher sees it
  Query,       // reads C state: called again, with the same values, by every check
  Get,         // container[key], dict.get
  Contains,    // key in container
  SetDefault,  // dict.setdefault
  Pop,         // dict.pop
  Update,      // dict.update
  SetItem,     // container[key] = value
  DelItem,     // del container[key]
  Mutate,      // changes its first argument in some other way
  GetAttr,
  SetAttr,
  DelAttr,
  Length,
  Next,
  IsInstance,
  AbcCheck,  // reads the registries behind an abstract base class
  Id,
  Super,
  Scope,         // globals, locals, vars
  Reduce,        // object.__reduce_ex__
  CellGet,       // ContextVar.get
  CellSet,       // ContextVar.set, reset
  TensorAttr,    // sets the tensor attribute that `reason` names
  Backward,      // runs the autograd engine
  GradFunction,  // applies a custom autograd.Function
  NodeHook,      // registers a hook on a node of the autograd graph
  TensorHook,    // of Python functions: registers a hook on a tensor
  RandomState,   // ... returns the state of the default random generator
  Checkpoint,    // ... the two ends of an activation checkpoint
  Around,        // ... touches nothing itself; what it calls is watched
  NodeName,      // ... asks for its name
  Moves,         // of Python functions: Free, and numbers come out as they went in
  Io,
  Refuse,
};

struct CalleeModel {
  Callee callee = Callee::Unknown;
  const char* reason = "";  // of a Refuse: "reads the clock: ..."
};

// "builtins.len", "dict.get", "torch._C._nn.linear", ...
std::string qualified_name(PyObject* callable);
std::string qualified_type_name(PyTypeObject* type);

CalleeModel find_callee(PyObject* callable);
// By name, for callables that are no C functions of their own, such as slot wrappers.
CalleeModel find_callee_by_name(const std::string& name);

// Python functions whose calls are taken as a whole: nothing inside them is recorded.
struct FunctionModel {
  Callee callee = Callee::Unknown;  // Io, Refuse, Free or Moves; Unknown: watched like any other
  const char* reason = "";
};
FunctionModel find_function(PyObject* function);

}  // namespace fulgurite::python::watching
