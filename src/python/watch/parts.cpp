// Which functions and modules of a run could be compiled on their own, if the whole is refused.
#include "internals.h"

#include <string_view>

#include "recording.h"

namespace fulgurite::python::watching {
namespace {

// The module whose nn.Module.__call__ this is, or null.
PyObject* called_module(const _PyInterpreterFrame* f) {
  if (code_of(f)->co_nlocalsplus == 0) return nullptr;
  PyObject* self = f->localsplus[0];
  PyTypeObject* module = known_types().module;
  if (!self || !module || !PyType_IsSubtype(Py_TYPE(self), module)) return nullptr;
  return text_of(code_of(f)->co_qualname) == "Module._wrapped_call_impl" ? self : nullptr;
}

}  // namespace

void Recording::begin_part(Frame& frame) {
  frame.impure = impure_;
  frame.parts = pure_parts_.size();
  const _PyInterpreterFrame* f = frame.frame;
  if (frame.muted || frames.size() < 2 || f->owner != FRAME_OWNED_BY_THREAD) return;
  PyObject* part = called_module(f);
  constexpr int kSuspends = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (!part && frame.user && (code_of(f)->co_flags & kSuspends) == 0) part = function_of(f);
  if (part && !is_born(part)) frame.candidate = PyRef::borrow(part);
}

void Recording::end_part(Frame& frame, bool returned) {
  if (!frame.candidate || !returned || frame.impure != impure_ || over) return;
  pure_parts_.resize(frame.parts);  // it contains those
  for (const PyRef& part : pure_parts_)
    if (part.get() == frame.candidate.get()) return;
  pure_parts_.push_back(std::move(frame.candidate));
}

}  // namespace fulgurite::python::watching
