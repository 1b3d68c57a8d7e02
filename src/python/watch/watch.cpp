// The watch itself. Start reading here.
//
//   watch() ── sets up Recording and AllocationWatch, listens to the interpreter (listen_*.cpp),
//              calls, takes all down
//   events ─── a frame begins: begin_frame (frames.cpp)
//              an instruction is about to run: run_instruction, on_instruction (instructions.cpp),
//              which calls on_call (calls.cpp)
//              an exception passes, a frame ends: raise_in_frame, end_frame
#include "internals.h"

#include <memory>
#include <string_view>

#include "call.h"

namespace fulgurite::python {
namespace watching {
namespace {

constinit thread_local Recording* active = nullptr;
thread_local std::unique_ptr<AddressSet> spare_born;

// The function whose parameters name the arguments of `callable`, and how many come before them.
PyObject* function_behind(PyObject* callable, Py_ssize_t* skipped) {
  *skipped = 0;
  if (PyMethod_Check(callable)) {
    *skipped = 1;
    callable = PyMethod_GET_FUNCTION(callable);
  } else if (!PyFunction_Check(callable) && is_heap_type(Py_TYPE(callable))) {
    PyRef forward = PyRef::steal(PyUnicode_InternFromString("forward"));
    PyObject* method = _PyType_Lookup(Py_TYPE(callable), forward.get());
    if (!method) method = _PyType_Lookup(Py_TYPE(callable), names().call);
    *skipped = 1;
    if (method) callable = method;
  }
  return PyFunction_Check(callable) ? callable : nullptr;
}

std::string parameter_name(PyObject* function, Py_ssize_t i) {
  if (function) {
    auto* code =
        reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function)->func_code);
    if (i < code->co_argcount) return text_of(PyTuple_GET_ITEM(code->co_localsplusnames, i));
  }
  return "args[" + std::to_string(i) + "]";
}

void add_roots(Recording& r, PyObject* callable, PyObject* const* args, Py_ssize_t count,
               PyObject* kwnames) {
  Py_ssize_t skipped = 0;
  PyObject* function = function_behind(callable, &skipped);
  if (function) {
    r.add_root(reinterpret_cast<PyFunctionObject*>(function)->func_globals, "globals()");
  }
  if (PyMethod_Check(callable)) {
    r.add_root(PyMethod_GET_SELF(callable), parameter_name(function, 0));
    r.pin(PyMethod_GET_SELF(callable));
  } else if (!PyFunction_Check(callable) && !PyType_Check(callable)) {
    r.add_root(callable, "self");
  }
  r.add_root(callable, describe_object(callable));
  r.pin(callable);
  Py_ssize_t names = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < count + names; ++i) {
    std::string label = i < count ? parameter_name(function, i + skipped)
                                  : text_of(PyTuple_GET_ITEM(kwnames, i - count));
    if (!is_value(args[i])) r.add_argument(args[i], label);
  }
}

// The reads of the outermost call, which no instruction of a watched frame makes.
void read_outermost_call(Recording& r, PyObject* callable, PyObject* const* args, Py_ssize_t count,
                         PyObject* kwnames) {
  Frame root;
  Py_ssize_t names = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  on_call(r, root, callable, {{args, args + count + names}, kwnames, nullptr});
}

}  // namespace

Recording* active_recording() { return active; }

}  // namespace watching

PyObject* watch(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                const WatchOptions& options, Observation& out) {
  using namespace watching;
  if (active) return PyObject_Vectorcall(callable, args, nargsf, kwnames);
  // CPython 3.11 installs trace functions of two threads at once badly, the events of later
  // versions and the allocator's hook are one for the process: one thread watches at a time.
  // Waiting could deadlock, so others only run.
  static bool taken = false;  // guarded by the GIL
  if (taken) {
    out.refusals.push_back({"is called while another thread is being recorded", {}});
    return PyObject_Vectorcall(callable, args, nargsf, kwnames);
  }
  struct Turn {
    Turn() { taken = true; }
    ~Turn() { taken = false; }
  } turn;
  load_known_types();
  load_library_roots();
  std::unique_ptr<AddressSet> born = std::move(spare_born);
  if (!born) born = std::make_unique<AddressSet>();
  Recording recording(born.get(), options);
  Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  add_roots(recording, callable, args, count, kwnames);

  std::string unheard;
  PyObject* result = nullptr;
  {
    AllocationWatch allocations(born.get());
    // Finalizers of unrelated objects are not part of the program.
    bool collected = PyGC_Disable() != 0;
    read_outermost_call(recording, callable, args, count, kwnames);
    Listener listener;
    active = &recording;
    result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    active = nullptr;
    ErrorAside aside;
    unheard = listener.end();
    recording.frames.clear();
    if (collected) PyGC_Enable();
  }
  if (!unheard.empty()) recording.refuse(unheard);
  if (!result) {
    PyObject* type = PyErr_Occurred();
    recording.refuse(std::string("raises ") + (type && PyType_Check(type)
                                                   ? reinterpret_cast<PyTypeObject*>(type)->tp_name
                                                   : "an exception"));
  }
  if (recording.functions.any_rebound())
    recording.refuse("rebinds a variable of a function that a checkpoint calls again");
  recording.finish(out);
  born->clear();
  spare_born = std::move(born);
  return result;
}

bool watching_now() { return watching::active != nullptr; }

const char* effect_kind_name(EffectKind kind) {
  static constexpr const char* kinds[] = {"set_attr",   "del_attr",   "set_item", "del_item",
                                          "set_global", "del_global", "set_cell", "tensor_attr",
                                          "mutate",     "backward",   "warn",     "print",
                                          "log",        "io",         "other"};
  return kinds[static_cast<size_t>(kind)];
}

}  // namespace fulgurite::python
