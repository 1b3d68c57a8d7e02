// The watch itself: a trace function with opcode events around one call. Start reading here.
//
//   watch() ── sets up Recording and AllocationWatch, installs `trace`, calls, takes all down
//   trace() ── CALL: on_frame pushes a Frame and asks for opcode events
//              OPCODE: on_instruction (instructions.cpp), which calls on_call (calls.cpp)
//              RETURN: pops
//
// A trace function that is set already (coverage, a debugger) still gets its events, and is back in
// place afterwards.
#include "internals.h"

#include <memory>
#include <string_view>

#include "call.h"

namespace fulgurite::python {
namespace watching {
namespace {

struct ActiveWatch {
  Recording* recording = nullptr;
  Py_tracefunc outer = nullptr;  // the trace function from before
  PyObject* outer_object = nullptr;
};

thread_local ActiveWatch* active = nullptr;
thread_local std::unique_ptr<AddressSet> spare_born;

int trace(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
  ActiveWatch* watch = active;
  if (!watch) return 0;
  Recording& r = *watch->recording;
  Frame* current = r.frames.empty() ? nullptr : &r.frames.back();
  if (watch->outer) {
    bool wanted = what != PyTrace_OPCODE || (current && current->saved_trace_opcodes);
    if (wanted && watch->outer(watch->outer_object, frame, what, argument) != 0) return -1;
  }
  switch (what) {
    case PyTrace_CALL: {
      ErrorAside aside;
      on_frame(r, frame);
      r.begin_part(r.frames.back());
      const Frame& entered = r.frames.back();
      frame->f_trace_opcodes = !entered.muted || entered.saved_trace_opcodes;
      if (!watch->outer) frame->f_trace_lines = 0;
      break;
    }
    case PyTrace_OPCODE:
      ++r.opcodes;
      if (current && current->frame == frame->f_frame && !current->muted && !r.over) {
        ErrorAside aside;
        drain_free_lists();
        if ((r.opcodes & 1023) == 0) r.stop_if_too_long();
        size_t effects = r.effect_count();
        on_instruction(r, *current);
        current->wrote = r.effect_count() != effects;
      }
      break;
    case PyTrace_EXCEPTION:
      if (current && current->frame == frame->f_frame) {
        if (current->wrote) r.refuse("a write raises an exception");
        number_raise(r, *current);
        if (std::exchange(current->function_call, false)) r.functions.end(nullptr);
        current->wrote = false;
        current->pending = 0;
        current->keyword_names = nullptr;
        current->callee = PyRef();
        current->arguments = PyRef();
      }
      break;
    case PyTrace_RETURN:
      if (current && current->frame == frame->f_frame) {
        r.end_part(*current, argument != nullptr);
        if (argument && current->frame->is_entry && !current->muted && r.frames.size() > 1) {
          ErrorAside aside;
          on_result_for_c(r, r.frames[r.frames.size() - 2], *current, argument);
        }
        if (r.numbers.any()) number_return(r, argument);
        number_raise(r, *current);
        frame->f_trace_opcodes = current->saved_trace_opcodes;
        if (!watch->outer) frame->f_trace_lines = current->saved_trace_lines;
        r.frames.pop_back();
      }
      break;
    default:
      break;
  }
  return 0;
}

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

// Whether `frame` belongs to a C call that is taken as a whole: a Python kernel of an operator (the
// plan calls the operator again, kernel included), or the Python side of a stream that is written
// to.
// `__torch_function__` is no kernel: it runs instead of the operator.
bool is_inside_call(const Frame& caller, const _PyInterpreterFrame* frame) {
  if (!frame->is_entry || !caller.callee) return false;
  const bool is_function = PyCFunction_Check(caller.callee.get());
  if (!is_function && Py_TYPE(caller.callee.get()) != &PyMethodDescr_Type) return false;
  if (find_callee(caller.callee.get()).callee == Callee::Io) return true;
  if (!is_function) return false;
  if (text_of(frame->f_code->co_name) == "__torch_function__") return false;
  return qualified_name(caller.callee.get()).starts_with("torch._ops.");
}

}  // namespace

const Recording* active_recording() { return active ? active->recording : nullptr; }

// What nobody watches may look at the numbers that it is given.
void fix_parameters(Recording& r, const _PyInterpreterFrame* f) {
  if (!r.numbers.any()) return;
  for (int i = 0; i < f->f_code->co_nlocalsplus; ++i) r.numbers.fix_in(f->localsplus[i]);
}

// A frame begins: its function is guarded and, where C code called it, so is what made C choose it.
void on_frame(Recording& r, PyFrameObject* object) {
  _PyInterpreterFrame* f = object->f_frame;
  Frame frame;
  frame.frame = f;
  frame.saved_trace_lines = object->f_trace_lines;
  frame.saved_trace_opcodes = object->f_trace_opcodes;
  frame.muted = r.over || (!r.frames.empty() &&
                           (r.frames.back().muted || is_inside_call(r.frames.back(), f)));
  PyCodeObject* code = f->f_code;
  Py_ssize_t length = 0;
  const char* file = PyUnicode_AsUTF8AndSize(code->co_filename, &length);
  if (!file) PyErr_Clear();
  frame.user = file && !is_library_file({file, static_cast<size_t>(length)});
  const std::string_view path(file ? file : "");
  frame.copies = !frame.user && (path.ends_with("/copy.py") || path.ends_with("/reprlib.py") ||
                                 path.ends_with("/dataclasses.py"));
  if (!r.frames.empty() && r.frames.back().number_step)
    r.frames.back().number_step->delegated = true;
  r.frames.push_back(std::move(frame));
  Frame& entered = r.frames.back();
  entered.moves = r.frames.size() > 1 && r.frames[r.frames.size() - 2].moves;
  if (entered.muted) {
    if (!entered.moves) fix_parameters(r, f);
    return;
  }
  if (r.given.function != reinterpret_cast<PyObject*>(f->f_func)) r.given = {};

  PyObject* function = reinterpret_cast<PyObject*>(f->f_func);
  if (f->owner == FRAME_OWNED_BY_GENERATOR) {
    PyObject* generator = reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(f));
    if (!r.is_born(generator)) r.refuse("resumes a generator that was made before the call");
    return;
  }
  if (!function || !PyFunction_Check(function)) return;
  if (!entered.user) {
    FunctionModel model = find_function(function);
    if (model.callee != Callee::Unknown) {
      std::string name = text_of(reinterpret_cast<PyFunctionObject*>(function)->func_module) + "." +
                         text_of(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
      if (model.callee == Callee::Refuse) r.refuse("calls " + name + ": " + model.reason);
      if (model.callee == Callee::Io) {
        PyRef arguments = PyRef::steal(PyTuple_New(code->co_argcount));
        for (int i = 0; i < code->co_argcount; ++i) {
          PyObject* value = f->localsplus[i];
          PyTuple_SET_ITEM(arguments.get(), i, Py_NewRef(value ? value : Py_None));
        }
        r.effect(EffectKind::Io, function, nullptr, arguments.get(), "calls " + name);
        PyRef registry = PyRef::steal(PyUnicode_InternFromString("__warningregistry__"));
        for (const Frame& below : r.frames) r.mark_written(below.frame->f_globals, registry.get());
      }
      entered.muted = true;
      entered.moves = model.callee == Callee::Moves;
      if (!entered.moves) fix_parameters(r, f);
      return;
    }
  }
  r.read_function(function);
  r.read_defaults(function, f);
  // Entered from C: the type of one of the first arguments made C choose this method.
  int named = code->co_argcount + code->co_kwonlyargcount;
  for (int i = 0; i < named && i < code->co_nlocalsplus; ++i) {
    PyObject* value = f->localsplus[i];
    if (value && PyCell_Check(value)) value = PyCell_GET(value);
    if (!value) continue;
    if (f->is_entry && i < 2 && is_heap_type(Py_TYPE(value)) &&
        _PyType_Lookup(Py_TYPE(value), code->co_name) == function) {
      r.read_type(Py_TYPE(value), code->co_name);
      r.read_type_of(value);
    }
    if (!r.has_origin(value))
      r.require_origin(value, "the arguments of " + text_of(code->co_qualname));
  }
}

}  // namespace watching

PyObject* watch(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames,
                const WatchOptions& options, Observation& out) {
  using namespace watching;
  if (active) return PyObject_Vectorcall(callable, args, nargsf, kwnames);
  // CPython 3.11 installs trace functions of two threads at once badly, and the allocator's hook is
  // one for the process: one thread watches at a time. Waiting could deadlock, so others only run.
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

  PyThreadState* thread = PyThreadState_Get();
  PyRef outer_object = PyRef::borrow(thread->c_traceobj);
  ActiveWatch watch{&recording, thread->c_tracefunc, outer_object.get()};
  bool lost = false;
  PyObject* result = nullptr;
  {
    AllocationWatch allocations(born.get());
    // Finalizers of unrelated objects are not part of the program.
    bool collected = PyGC_Disable() != 0;
    read_outermost_call(recording, callable, args, count, kwnames);
    active = &watch;
    PyEval_SetTrace(trace, nullptr);
    result = PyObject_Vectorcall(callable, args, nargsf, kwnames);
    active = nullptr;
    lost = thread->c_tracefunc != trace;
    ErrorAside aside;
    if (!lost) PyEval_SetTrace(watch.outer, watch.outer_object);
    recording.frames.clear();
    if (collected) PyGC_Enable();
  }
  if (lost) recording.refuse("sets a trace function");
  if (thread->tracing) recording.refuse("is called from a trace function, which hides it");
  if (!result) {
    PyObject* type = PyErr_Occurred();
    recording.refuse(std::string("raises ") + (type && PyType_Check(type)
                                                   ? reinterpret_cast<PyTypeObject*>(type)->tp_name
                                                   : "an exception"));
  }
  recording.finish(out);
  born->clear();
  spare_born = std::move(born);
  return result;
}

bool watching_now() { return watching::active != nullptr; }

bool watcher_supported(std::string* why_not) {
  unsigned long running = Py_Version >> 16;
  if (running == 0x030B) return true;
  if (why_not) *why_not = "the watcher needs CPython 3.11";
  return false;
}

const char* effect_kind_name(EffectKind kind) {
  static constexpr const char* kinds[] = {
      "set_attr",    "del_attr", "set_item", "del_item", "set_global", "del_global", "set_cell",
      "tensor_attr", "mutate",   "backward", "warn",     "print",      "io",         "other"};
  return kinds[static_cast<size_t>(kind)];
}

}  // namespace fulgurite::python
