// The one place that sees CPython's internal headers, and with opcodes_3*.h, listen_*.cpp and
// born.cpp the only one that depends on the version (3.11 to 3.13): frames, the dicts of classes,
// version tags, the layout of objects.
//
// Include it first: Py_BUILD_CORE has to be set before Python.h. The internal headers want C11
// atomics, which C++20 lacks; without HAVE_STD_ATOMIC they fall back to compiler builtins of the
// same layout.
#pragma once

#define Py_BUILD_CORE 1
#include <Python.h>
#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030E0000
#error "the watcher is written for CPython 3.11, 3.12 and 3.13"
#endif
#ifdef Py_GIL_DISABLED
#error "the watcher needs the GIL"
#endif
#undef HAVE_STD_ATOMIC
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_long.h>
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_ceval.h>
#include <internal/pycore_setobject.h>
#endif
#pragma GCC diagnostic pop

// Whether sys.monitoring tells of instructions; a trace function does before.
#define FULGURITE_MONITORING (PY_VERSION_HEX >= 0x030C0000)

namespace fulgurite::python::watching {

// --- frames
// (Of a frame that has code: not of the ones with which the interpreter marks where C called it.)
inline PyCodeObject* code_of(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return reinterpret_cast<PyCodeObject*>(frame->f_executable);
#else
  return frame->f_code;
#endif
}

inline PyObject* function_of(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030C0000
  return frame->f_funcobj;
#else
  return reinterpret_cast<PyObject*>(frame->f_func);
#endif
}

// Whether C code called it, and gets what it returns.
inline bool is_called_by_c(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030C0000
  return frame->previous == nullptr || frame->previous->owner == FRAME_OWNED_BY_CSTACK;
#else
  return frame->is_entry;
#endif
}

inline const _Py_CODEUNIT* instruction_of(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return frame->instr_ptr;
#else
  return frame->prev_instr;
#endif
}

// In bytes: the instruction that runs, or a part of it. From 3.13 on that of a generator which
// waits is the one with which it goes on.
inline int offset_of(const _PyInterpreterFrame* frame) {
  return static_cast<int>(instruction_of(frame) - _PyCode_CODE(code_of(frame))) *
         static_cast<int>(sizeof(_Py_CODEUNIT));
}

inline bool has_begun(const _PyInterpreterFrame* frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return instruction_of(frame) > _PyCode_CODE(code_of(frame));
#else
  return instruction_of(frame) >= _PyCode_CODE(code_of(frame));
#endif
}

inline PyObject** stack_of(_PyInterpreterFrame* frame) {
  return frame->localsplus + code_of(frame)->co_nlocalsplus;
}

// Needs no GIL, for a thread's own frames.
inline _PyInterpreterFrame* innermost_frame(const PyThreadState* thread) {
#if PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#else
  return thread->cframe != nullptr ? thread->cframe->current_frame : nullptr;
#endif
}

// --- classes
// Borrowed. That of a builtin class is not in the class itself from 3.12 on.
inline PyObject* dict_of(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
  PyObject* dict = PyType_GetDict(type);
  Py_XDECREF(dict);
  return dict;
#else
  return type->tp_dict;
#endif
}

// What every change of a class changes; 0: it has none now.
inline unsigned version_of(const PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030D0000
  if ((type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) == 0) return 0;
#endif
  return type->tp_version_tag;
}

// Whether the text of the error says where a module comes from that lacks an attribute.
constexpr bool kErrorsNameFiles = PY_VERSION_HEX >= 0x030D0000;

// --- dicts
// From 3.13 on an object may keep its attributes although it has a dict, and then a store in the
// object moves no version tag of the dict. From here on the dict has them alone, as it does up to
// 3.12 when it is made. False without memory.
#if PY_VERSION_HEX >= 0x030D0000
bool owns_values(PyObject* dict);
#else
inline bool owns_values(PyObject*) { return true; }
#endif

// What every change of a dict makes larger, if it owns its values.
inline uint64_t version_of(PyObject* dict) {
  const uint64_t tag = reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
#if PY_VERSION_HEX >= 0x030D0000
  return tag & ~static_cast<uint64_t>(DICT_WATCHER_AND_MODIFICATION_MASK);  // the rest: who watches
#elif PY_VERSION_HEX >= 0x030C0000
  return tag & ~DICT_VERSION_MASK;  // the rest says who watches the dict
#else
  return tag;
#endif
}

inline bool has_only_str_keys(PyObject* dict) {
  return reinterpret_cast<PyDictObject*>(dict)->ma_keys->dk_kind != DICT_KEYS_GENERAL;
}

// --- ints
// A copy that nobody else has, also of a small int.
inline PyObject* copy_of_int(PyObject* number) {
  auto* from = reinterpret_cast<PyLongObject*>(number);
#if PY_VERSION_HEX >= 0x030C0000
  const auto& digits = from->long_value;
  const auto count = static_cast<Py_ssize_t>(digits.lv_tag >> _PyLong_NON_SIZE_BITS);
#else
  const Py_ssize_t count = Py_ABS(Py_SIZE(number));
#endif
  PyLongObject* made = _PyLong_New(count);
  if (made == nullptr) return nullptr;
#if PY_VERSION_HEX >= 0x030C0000
  made->long_value.lv_tag = digits.lv_tag;
  for (Py_ssize_t i = 0; i < count; ++i) made->long_value.ob_digit[i] = digits.ob_digit[i];
#else
  for (Py_ssize_t i = 0; i < count; ++i) made->ob_digit[i] = from->ob_digit[i];
  Py_SET_SIZE(made, Py_SIZE(number));
#endif
  return reinterpret_cast<PyObject*>(made);
}

}  // namespace fulgurite::python::watching
