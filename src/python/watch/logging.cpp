// `logger.info(...)` that emits: where it goes to plain streams only, each call that the program
// serves logs again, from the same line (../output_effect.h).
#include "call.h"

#include "python/output_effect.h"

namespace fulgurite::python::watching {

// A frame of Logger._log begins. True if it is an effect that is replayed.
bool logs(Recording& r, const _PyInterpreterFrame* f) {
  constexpr int kParameters = 8;  // self, level, msg, args, exc_info, extra, stack_info, stacklevel
  PyObject* given[kParameters];
  const PyCodeObject* code = code_of(f);
  if (code->co_argcount != kParameters || r.numbers.is_tied_to_values()) return false;
  for (int i = 0; i < kParameters; ++i) {
    given[i] = f->localsplus[i];
    if (given[i] != nullptr && PyCell_Check(given[i])) given[i] = PyCell_GET(given[i]);
    if (given[i] == nullptr) return false;
  }
  PyObject *logger = given[0], *message = given[2], *arguments = given[3];
  const bool plain = PyLong_CheckExact(given[1]) && PyUnicode_CheckExact(message) &&
                     PyTuple_CheckExact(arguments) && given[4] == Py_None && given[5] == Py_None &&
                     given[6] == Py_False && PyLong_CheckExact(given[7]) &&
                     PyLong_AsLong(given[7]) == 1;
  if (!plain || r.is_born(logger) || !logs_plainly(logger)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(arguments, i);
    if (r.numbers.find(argument) < 0 && (r.numbers.is_text(argument) || !has_fixed_text(argument)))
      return false;
  }
  // The line that it names is the first outside of logging.
  for (auto it = r.frames.rbegin(); it != r.frames.rend(); ++it) {
    const PyCodeObject* at = code_of(it->frame);
    if (PyUnicode_Compare(at->co_filename, code->co_filename) == 0) continue;
    const std::vector<PyRef> parts = r.numbers.pieces_of(message);
    PyRef pieces = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
    for (size_t i = 0; i < parts.size(); ++i)
      PyTuple_SET_ITEM(pieces.get(), static_cast<Py_ssize_t>(i), Py_NewRef(parts[i].get()));
    const PyRef where = PyRef::steal(Py_BuildValue(
        "(OOiO)", given[1], at->co_filename,
        PyCode_Addr2Line(const_cast<PyCodeObject*>(at), offset_of(it->frame)), at->co_name));
    const PyRef what = PyRef::steal(PyTuple_Pack(2, pieces.get(), arguments));
    r.know(logger, kNoParent);
    r.effect(EffectKind::Log, logger, where.get(), what.get(), "logs to " + r.path(logger));
    return true;
  }
  return false;
}

}  // namespace fulgurite::python::watching
