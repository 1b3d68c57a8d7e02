// globals(), locals() and vars(): variables and attributes as dicts.
#include "call.h"

namespace fulgurite::python::watching {

void Call::read_scope() {
  if (is_called("vars") && argument(0) != nullptr) {
    if (PyModule_Check(argument(0))) return r_.know(PyModule_GetDict(argument(0)), kNoParent);
    return r_.read_attribute(argument(0), names().dict);
  }
  if (frame_.frame == nullptr) return r_.refuse("calls " + name() + " directly");
  const PyCodeObject* code = code_of(frame_.frame);
  if (is_called("globals")) return r_.know(frame_.frame->f_globals, kNoParent);
  // A dict of this call, filled from its variables; those of outer functions are read unseen.
  constexpr int kFunction = CO_OPTIMIZED | CO_NEWLOCALS;
  if ((code->co_flags & kFunction) != kFunction || code->co_nfreevars > 0)
    r_.refuse("calls " + name() + " where it shows variables from outside the function");
}

}  // namespace fulgurite::python::watching
