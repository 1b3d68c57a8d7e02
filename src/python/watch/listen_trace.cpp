// CPython 3.11: a trace function with opcode events. One that is set already (coverage, a debugger)
// still gets its events, and is back in place afterwards.
#include "events.h"

#if !FULGURITE_MONITORING

#include "opcodes_311.h"

namespace fulgurite::python::watching {
namespace {

// The trace function from before; the listener owns its object.
constinit thread_local Py_tracefunc outer = nullptr;
constinit thread_local PyObject* outer_object = nullptr;

int trace(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
  Recording* recording = active_recording();
  if (!recording) return 0;
  Recording& r = *recording;
  Frame* current = r.frames.empty() ? nullptr : &r.frames.back();
  const Py_tracefunc outside = outer;
  if (outside) {
    bool wanted = what != PyTrace_OPCODE || (current && current->saved_trace_opcodes);
    if (wanted && outside(outer_object, frame, what, argument) != 0) return -1;
  }
  const bool is_current = current && current->frame == frame->f_frame;
  switch (what) {
    case PyTrace_CALL: {
      const char lines = frame->f_trace_lines, opcodes = frame->f_trace_opcodes;
      begin_frame(r, frame->f_frame);
      Frame& entered = r.frames.back();
      entered.saved_trace_lines = lines;
      entered.saved_trace_opcodes = opcodes;
      frame->f_trace_opcodes = 1;
      if (!outside) frame->f_trace_lines = 0;
      break;
    }
    case PyTrace_OPCODE:
      ++r.opcodes;
      if (is_current && !r.over) {
        current->running = decode(frame->f_frame);
        current->top = frame->f_frame->localsplus + frame->f_frame->stacktop;
        (current->muted ? run_muted_instruction : run_instruction)(r, *current);
      }
      break;
    case PyTrace_EXCEPTION:
      if (is_current) raise_in_frame(r, *current);
      break;
    case PyTrace_RETURN:
      if (is_current) {
        frame->f_trace_opcodes = current->saved_trace_opcodes;
        if (!outside) frame->f_trace_lines = current->saved_trace_lines;
        end_frame(r, argument);
      }
      break;
    default:
      break;
  }
  return 0;
}

}  // namespace

Listener::Listener() {
  const PyThreadState* thread = PyThreadState_Get();
  outer_ = PyRef::borrow(thread->c_traceobj);
  outer_object = outer_.get();
  outer = thread->c_tracefunc;
  PyEval_SetTrace(trace, nullptr);
}

std::string Listener::end() {
  const PyThreadState* thread = PyThreadState_Get();
  const bool lost = thread->c_tracefunc != trace;
  if (!lost) PyEval_SetTrace(outer, outer_object);
  outer = nullptr;
  outer_object = nullptr;
  if (lost) return "sets a trace function";
  return thread->tracing ? "is called from a trace function, which hides it" : "";
}

}  // namespace fulgurite::python::watching

namespace fulgurite::python {

bool watcher_supported(std::string*) { return true; }

std::vector<int> unknown_instructions(PyObject* code) {
  std::vector<int> found;
  const PyRef bytes = PyRef::steal(PyCode_GetCode(reinterpret_cast<PyCodeObject*>(code)));
  if (!bytes) PyErr_Clear();
  for (Py_ssize_t i = 0; bytes && i < PyBytes_GET_SIZE(bytes.get()); i += 2) {
    const auto opcode = static_cast<unsigned char>(PyBytes_AS_STRING(bytes.get())[i]);
    if (opcode != EXTENDED_ARG && watching::kOperations[opcode] == watching::Operation::Unknown)
      found.push_back(static_cast<int>(i));
  }
  return found;
}

}  // namespace fulgurite::python

#endif
