// CPython 3.12 and later: a tool of sys.monitoring. Other tools, coverage and debuggers among them,
// get their events as before, and an id that nobody uses is taken for the length of the call only.
//
// Events say in which code object they happen; in which frame, the thread knows: callbacks in C
// have none of their own. The depth of the stack follows from the instruction (code_map.h).
#include "events.h"

#if FULGURITE_MONITORING

#include <iterator>

#include <internal/pycore_instruments.h>

#include "code_map.h"

namespace fulgurite::python::watching {

void leave_monitoring();

namespace {

// Guarded by the GIL.
bool events_went_missing = false;
Listener* listening = nullptr;

// sys.monitoring and its functions, as they were when they were first needed.
struct Monitoring {
  PyObject* module = nullptr;
  PyRef get_tool, use_tool, free_tool, set_callback, set_events, restart;
};
const Monitoring* monitoring();

Recording* recording_here(_PyInterpreterFrame*& frame) {
  frame = innermost_frame(PyThreadState_Get());
  return active_recording();
}

int unit_of(const _PyInterpreterFrame* frame) {
  return offset_of(frame) / static_cast<int>(sizeof(_Py_CODEUNIT));
}

// In some releases events go missing where others change what they listen to. Every instruction has
// to be one that may come after the last.
void miss(Recording& r) {
  events_went_missing = true;
  r.refuse("runs instructions of which the interpreter does not tell");
}

Frame* innermost(Recording& r, const _PyInterpreterFrame* frame) {
  return !r.frames.empty() && r.frames.back().frame == frame ? &r.frames.back() : nullptr;
}

// ... which has to be where the last instruction was, unless that has set it back to where what it
// raises again was raised first. A generator that waits may be at the next one.
Frame* innermost_there(Recording& r, const _PyInterpreterFrame* f, bool waits = false) {
  Frame* frame = innermost(r, f);
  if (frame == nullptr || !frame->map || frame->map->at(frame->unit).reraises) return frame;
  const int unit = unit_of(f);
  const int end = frame->map->after(frame->unit) + (waits ? 1 : 0);
  if (unit < frame->unit || (unit > frame->unit && unit >= end)) miss(r);
  return frame;
}

// Whether it does next; then the call is refused.
bool calls_monitoring(const Frame& frame) {
  PyObject* callee = frame.pending == Pending::Call ? frame.callee.get() : nullptr;
  return callee != nullptr && PyCFunction_Check(callee) && PyCFunction_GET_SELF(callee) &&
         PyCFunction_GET_SELF(callee) == monitoring()->module;
}

PyObject* begin(bool raised) {
  _PyInterpreterFrame* f = nullptr;
  Recording* r = recording_here(f);
  if (r == nullptr) Py_RETURN_NONE;
  begin_frame(*r, f);
  Frame& frame = r->frames.back();
  frame.map = code_map(code_of(f));
  frame.start = frame.unit = unit_of(f);
  frame.raised = raised;
  if (!frame.map) r->refuse("runs code without memory to watch it");
  Py_RETURN_NONE;
}

PyObject* frame_begins(PyObject*, PyObject* const*, Py_ssize_t) { return begin(false); }
PyObject* frame_begins_by_raising(PyObject*, PyObject* const*, Py_ssize_t) { return begin(true); }

PyObject* instruction_begins(PyObject*, PyObject* const*, Py_ssize_t) {
  _PyInterpreterFrame* f = nullptr;
  Recording* r = recording_here(f);
  if (r == nullptr) Py_RETURN_NONE;
  ++r->opcodes;
  Frame* frame = innermost(*r, f);
  if (frame == nullptr) miss(*r);
  if (frame == nullptr || !frame->map) Py_RETURN_NONE;
  const int unit = unit_of(f);
  if (unit > frame->start && unit <= frame->unit) Py_RETURN_NONE;  // the prefix was there already
  if (!frame->map->may_follow(frame->unit, unit, frame->raised)) miss(*r);
  frame->start = unit;
  frame->unit = frame->map->behind_prefixes(unit);
  frame->raised = false;
  if (r->over) Py_RETURN_NONE;
  const CodeMap::Place& place = frame->map->at(frame->unit);
  if (place.instruction.operation == Operation::Resume) Py_RETURN_NONE;
  if (place.depth == CodeMap::kUnknownDepth) {
    if (!frame->muted)
      r->refuse("runs an instruction for which the depth of the stack is not known");
    Py_RETURN_NONE;
  }
  frame->running = place.instruction;
  frame->top = stack_of(f) + place.depth;
  if (frame->muted) {
    run_muted_instruction(*r, *frame);
    Py_RETURN_NONE;
  }
  run_instruction(*r, *frame);
  if (calls_monitoring(*frame)) leave_monitoring();
  Py_RETURN_NONE;
}

PyObject* exception_passes(PyObject*, PyObject* const*, Py_ssize_t) {
  _PyInterpreterFrame* f = nullptr;
  Recording* r = recording_here(f);
  Frame* frame = r != nullptr ? innermost_there(*r, f) : nullptr;
  if (frame != nullptr) {
    frame->raised = true;
    raise_in_frame(*r, *frame);
  }
  Py_RETURN_NONE;
}

// Arguments: code, offset, result.
PyObject* end(PyObject* const* arguments, Py_ssize_t count, bool waits) {
  _PyInterpreterFrame* f = nullptr;
  Recording* r = recording_here(f);
  if (r != nullptr && innermost_there(*r, f, waits) != nullptr)
    end_frame(*r, count > 2 ? arguments[2] : nullptr);
  Py_RETURN_NONE;
}

PyObject* frame_returns(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return end(arguments, count, false);
}
PyObject* frame_yields(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  return end(arguments, count, true);
}

PyObject* frame_unwinds(PyObject*, PyObject* const*, Py_ssize_t) {
  _PyInterpreterFrame* f = nullptr;
  Recording* r = recording_here(f);
  if (r != nullptr && innermost_there(*r, f) != nullptr) end_frame(*r, nullptr);
  Py_RETURN_NONE;
}

using Callback = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

struct Event {
  int number;
  PyMethodDef method;
  PyObject* function;
};

Event event(int number, const char* name, Callback callback) {
  // (Two steps, since the types of the two kinds of functions differ.)
  auto* function = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(callback));
  return {number, {name, function, METH_FASTCALL, nullptr}, nullptr};
}

Event events[] = {
    event(PY_MONITORING_EVENT_PY_START, "start", frame_begins),
    event(PY_MONITORING_EVENT_PY_RESUME, "resume", frame_begins),
    event(PY_MONITORING_EVENT_PY_THROW, "throw", frame_begins_by_raising),
    event(PY_MONITORING_EVENT_INSTRUCTION, "instruction", instruction_begins),
    event(PY_MONITORING_EVENT_RAISE, "raise", exception_passes),
    event(PY_MONITORING_EVENT_PY_RETURN, "return", frame_returns),
    event(PY_MONITORING_EVENT_PY_YIELD, "yield", frame_yields),
    event(PY_MONITORING_EVENT_PY_UNWIND, "unwind", frame_unwinds),
};

const Monitoring* monitoring() {
  static Monitoring functions;
  static bool loaded = false;
  if (loaded) return &functions;
  PyObject* module = PySys_GetObject("monitoring");
  auto get = [module](const char* name) {
    return module ? PyRef::steal(PyObject_GetAttrString(module, name)) : PyRef();
  };
  functions = {module,
               get("get_tool"),
               get("use_tool_id"),
               get("free_tool_id"),
               get("register_callback"),
               get("set_events"),
               get("restart_events")};
  for (Event& one : events) one.function = PyCFunction_New(&one.method, nullptr);
  loaded = functions.restart.get() != nullptr && PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return loaded ? &functions : nullptr;
}

template <typename... Values>
PyRef call(const PyRef& function, const char* format, Values... values) {
  PyRef result = PyRef::steal(PyObject_CallFunction(function.get(), format, values...));
  if (!result) PyErr_Clear();
  return result;
}

// The last one first: debuggers, coverage tools and profilers have agreed on the others.
int free_tool(const Monitoring& m) {
  for (int id : {4, 3, 5, 2, 1, 0}) {
    const PyRef name = call(m.get_tool, "i", id);
    if (name && name.get() == Py_None) return id;
  }
  return -1;
}

// Which moves when anybody begins or ends to listen.
uint64_t version_of_events() {
  const PyInterpreterState* interpreter = PyInterpreterState_Get();
#if PY_VERSION_HEX >= 0x030D0000
  return interpreter->ceval.instrumentation_version & ~static_cast<uintptr_t>(_PY_EVAL_EVENTS_MASK);
#else
  return interpreter->monitoring_version;
#endif
}

long wanted_events() {
  long set = 0;
  for (const Event& one : events) set |= 1L << one.number;
  return set;
}

constexpr const char* kNoneFree =
    "cannot be watched: debuggers, profilers or other tools use all ids of sys.monitoring";

}  // namespace

// The program is not to notice that somebody else is here.
void leave_monitoring() {
  Listener* listener = std::exchange(listening, nullptr);
  if (listener == nullptr) return;
  listener->why_not_ = listener->end();
  listener->tool_ = -1;
}

Listener::Listener() {
  const Monitoring* m = monitoring();
  tool_ = m != nullptr ? free_tool(*m) : -1;
  if (tool_ < 0) {
    why_not_ = m != nullptr ? kNoneFree : "cannot be watched: this Python has no sys.monitoring";
    return;
  }
  if (PyThreadState_Get()->tracing != 0) {
    tool_ = -1;
    why_not_ = "is called from a trace function, which hides it";
    return;
  }
  bool ok = static_cast<bool>(call(m->use_tool, "is", tool_, "fulgurite"));
  for (const Event& one : events)
    ok = ok && call(m->set_callback, "ilO", tool_, 1L << one.number, one.function);
  ok = ok && call(m->set_events, "il", tool_, wanted_events());
  // What is instrumented may not be what the interpreter believes it to be.
  if (std::exchange(events_went_missing, false)) ok = ok && call(m->restart, "");
  version_ = version_of_events();
  if (!ok) why_not_ = "cannot be watched: sys.monitoring does not let us";
  listening = this;
}

std::string Listener::end() {
  listening = nullptr;
  const Monitoring* m = monitoring();
  if (tool_ < 0 || m == nullptr) return why_not_;
  if (version_ != version_of_events()) {
    events_went_missing = true;
    if (why_not_.empty()) why_not_ = "changes the trace function or the events of sys.monitoring";
  }
  call(m->set_events, "ii", tool_, 0);
  for (const Event& one : events) call(m->set_callback, "ilO", tool_, 1L << one.number, Py_None);
  call(m->free_tool, "i", tool_);
  return why_not_;
}

}  // namespace fulgurite::python::watching

namespace fulgurite::python {

bool watcher_supported(std::string* why_not) {
  using namespace watching;
  const Monitoring* m = monitoring();
  if (m != nullptr && free_tool(*m) >= 0) return true;
  if (why_not) *why_not = "all tool ids of sys.monitoring are in use";
  return false;
}

}  // namespace fulgurite::python

#endif
