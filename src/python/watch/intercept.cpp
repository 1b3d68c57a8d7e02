#include "internals.h"

#include "intercept.h"

#include <string_view>

#include "values.h"

namespace fulgurite::python {
namespace {

thread_local const std::vector<Part>* current = nullptr;
int scopes = 0;  // guarded by the GIL
_PyFrameEvalFunction previous = nullptr;

// nn.Module.__call__: `self` decides which part it is.
bool calls_module(PyCodeObject* code) {
  static PyCodeObject* found = nullptr;
  if (found == nullptr && watching::known_types().module != nullptr) {
    PyRef name = PyRef::steal(PyUnicode_InternFromString("_wrapped_call_impl"));
    PyObject* method = _PyType_Lookup(watching::known_types().module, name.get());
    if (method != nullptr && PyFunction_Check(method))
      found = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method));
  }
  return code == found;
}

const Part* part_of(const _PyInterpreterFrame* frame) {
  PyCodeObject* code = watching::code_of(frame);
  if (frame->owner != FRAME_OWNED_BY_THREAD || watching::has_begun(frame)) return nullptr;
  const bool module = calls_module(code);
  for (const Part& part : *current) {
    PyObject* callable = part.callable.get();
    if (PyFunction_Check(callable)) {
      if (callable == watching::function_of(frame)) return &part;
    } else if (module && frame->localsplus[0] == callable) {
      return &part;
    }
  }
  return nullptr;
}

// Calls the substitute with the arguments that the frame has been given.
PyObject* call_substitute(const Part& part, const _PyInterpreterFrame* frame) {
  PyCodeObject* code = watching::code_of(frame);
  const bool bound = !PyFunction_Check(part.callable.get());  // `self` is part of the callable
  PyRef positional = PyRef::steal(PyList_New(0));
  PyRef keywords = PyRef::steal(PyDict_New());
  if (!positional || !keywords) return nullptr;
  int at = 0;
  for (; at < code->co_argcount; ++at) {
    if (at == 0 && bound) continue;
    if (PyList_Append(positional.get(), frame->localsplus[at]) < 0) return nullptr;
  }
  for (int i = 0; i < code->co_kwonlyargcount; ++i, ++at) {
    PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, at);
    if (PyDict_SetItem(keywords.get(), name, frame->localsplus[at]) < 0) return nullptr;
  }
  if ((code->co_flags & CO_VARARGS) != 0) {
    const Py_ssize_t n = PyList_GET_SIZE(positional.get());
    if (PyList_SetSlice(positional.get(), n, n, frame->localsplus[at++]) < 0) return nullptr;
  }
  if ((code->co_flags & CO_VARKEYWORDS) != 0 &&
      PyDict_Update(keywords.get(), frame->localsplus[at]) < 0)
    return nullptr;
  PyRef arguments = PyRef::steal(PyList_AsTuple(positional.get()));
  if (!arguments) return nullptr;
  return PyObject_Call(part.substitute.get(), arguments.get(),
                       PyDict_GET_SIZE(keywords.get()) > 0 ? keywords.get() : nullptr);
}

#if PY_VERSION_HEX >= 0x030C0000
// What runs a frame also ends it, from 3.12 on. This one never ran.
void clear_frame(PyThreadState* thread, _PyInterpreterFrame* frame) {
  for (int i = 0; i < frame->stacktop; ++i) Py_XDECREF(frame->localsplus[i]);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
  Py_DECREF(watching::code_of(frame));
#if PY_VERSION_HEX >= 0x030D0000
  _PyThreadState_PopFrame(thread, frame);
#else
  auto** base = reinterpret_cast<PyObject**>(frame);
  _PyStackChunk* chunk = thread->datastack_chunk;
  if (base != &chunk->data[0]) {
    thread->datastack_top = base;
    return;
  }
  _PyStackChunk* previous_chunk = chunk->previous;
  thread->datastack_top = &previous_chunk->data[previous_chunk->top];
  thread->datastack_chunk = previous_chunk;
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
  thread->datastack_limit =
      reinterpret_cast<PyObject**>(reinterpret_cast<char*>(previous_chunk) + previous_chunk->size);
#endif
}
#else
void clear_frame(PyThreadState*, _PyInterpreterFrame*) {}  // the caller does
#endif

PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing) {
  if (current == nullptr || throwing != 0) return previous(thread, frame, throwing);
  const Part* part = part_of(frame);
  if (part == nullptr) return previous(thread, frame, throwing);
  const Part kept = *part;
  InterceptScope none(nullptr);  // inside, the part is on its own
  PyObject* result = call_substitute(kept, frame);
  clear_frame(thread, frame);
  return result;
}

}  // namespace

InterceptScope::InterceptScope(const std::vector<Part>* parts)
    : outer_(current), installed_(parts != nullptr && !parts->empty()) {
  current = installed_ ? parts : nullptr;
  if (!installed_ || scopes++ > 0) return;
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  previous = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  _PyInterpreterState_SetEvalFrameFunc(interpreter, evaluate);
}

InterceptScope::~InterceptScope() {
  current = outer_;
  if (!installed_ || --scopes > 0) return;
  // Frames of ours that are still running elsewhere return through `previous`, which stays set.
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) == evaluate)
    _PyInterpreterState_SetEvalFrameFunc(interpreter, previous);
}

}  // namespace fulgurite::python
