// Frames of Python code that begin and end under watch.
#include "internals.h"

#include <string_view>

#include "call.h"

namespace fulgurite::python::watching {
namespace {

// Whether `frame` belongs to a C call that is taken as a whole: a Python kernel of an operator (the
// plan calls the operator again, kernel included), or the Python side of a stream that is written
// to.
// `__torch_function__` is no kernel: it runs instead of the operator.
bool is_inside_call(const Frame& caller, const _PyInterpreterFrame* frame) {
  if (!is_called_by_c(frame) || !caller.callee) return false;
  const bool is_function = PyCFunction_Check(caller.callee.get());
  if (!is_function && Py_TYPE(caller.callee.get()) != &PyMethodDescr_Type) return false;
  if (find_callee(caller.callee.get()).callee == Callee::Io) return true;
  if (!is_function) return false;
  if (text_of(code_of(frame)->co_name) == "__torch_function__") return false;
  return qualified_name(caller.callee.get()).starts_with("torch._ops.");
}

// An activation checkpoint has done what it does before the function.
void begin_checkpoint(Recording& r, const Frame& frame) {
  r.functions.checkpoints.emplace_back(frame.checkpoint, r.effect_count());
  r.functions.sink()->checkpoint_began(frame.preserves_random_state);
}

// What nobody watches may look at the numbers that it is given.
void fix_parameters(Recording& r, const _PyInterpreterFrame* f) {
  if (!r.numbers.any()) return;
  for (int i = 0; i < code_of(f)->co_nlocalsplus; ++i) r.numbers.fix_in(f->localsplus[i]);
}

// t.register_hook(hook), taken as a whole.
void register_tensor_hook(Recording& r, Frame& frame) {
  const _PyInterpreterFrame* f = frame.frame;
  PyObject* tensor = code_of(f)->co_argcount == 2 ? f->localsplus[0] : nullptr;
  PyObject* hook = tensor != nullptr ? f->localsplus[1] : nullptr;
  if (hook == nullptr || !is_tensor(tensor) || !r.functions.can_record())
    return r.refuse("registers a hook on a tensor");
  const std::string why = why_no_hook(r, hook);
  if (!why.empty()) return r.refuse(why);
  const std::string refusal =
      r.functions.sink()->tensor_hooked(tensor, hook, text_of(code_of(f)->co_name));
  if (!refusal.empty()) return r.refuse(refusal);
  frame.hooks = true;
}

// One of the two ends of torch.utils.checkpoint without reentrant autograd: a generator that yields
// once, in between.
void pass_checkpoint(Recording& r, Frame& frame, PyObject* generator) {
  frame.muted = true;
  auto& open = r.functions.checkpoints;
  if (!open.empty() && open.back().first == generator) {
    // What it does beside computing it would do again in backward.
    if (r.effect_count() != open.back().second)
      r.refuse("changes Python state in a checkpoint, which does so again in backward");
    open.pop_back();
    r.functions.sink()->checkpoint_ended();
    return;
  }
  const _PyInterpreterFrame* f = frame.frame;
  auto parameter = [&](int i) {
    PyObject* value = f->localsplus[i];
    return value != nullptr && PyCell_Check(value) ? PyCell_GET(value) : value;
  };
  PyObject* context = parameter(2);
  PyRef debug = PyRef::steal(PyUnicode_InternFromString("_checkpoint_debug_enabled"));
  PyObject* ambient = r.read_dict(f->f_globals, debug.get());
  const bool plain =
      context != nullptr && PyFunction_Check(context) &&
      text_of(reinterpret_cast<PyFunctionObject*>(context)->func_qualname) == "noop_context_fn" &&
      PyBool_Check(parameter(1)) && parameter(4) == Py_False &&
      (ambient == nullptr || ambient == Py_None || ambient == Py_False);
  if (!plain || !r.functions.can_record())
    return r.refuse("uses activation checkpointing with a context or for debugging");
  r.functions.will_be_called_again(parameter(0));
  frame.checkpoint = generator;
  frame.preserves_random_state = parameter(1) == Py_True;
}

// A frame begins: its function is guarded and, where C code called it, so is what made C choose it.
void on_frame(Recording& r, _PyInterpreterFrame* f) {
  Frame frame;
  frame.frame = f;
  frame.top = stack_of(f);
  frame.muted =
      r.over || (!r.frames.empty() && ((r.frames.back().muted && !r.frames.back().around) ||
                                       is_inside_call(r.frames.back(), f)));
  PyCodeObject* code = code_of(f);
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
  if (r.given.function != function_of(f)) r.given = {};

  PyObject* function = function_of(f);
  if (f->owner == FRAME_OWNED_BY_GENERATOR) {
    PyObject* generator = reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(f));
    if (!r.is_born(generator)) r.refuse("resumes a generator that was made before the call");
    if (function && PyFunction_Check(function) && !entered.user &&
        find_function(function).callee == Callee::Checkpoint)
      pass_checkpoint(r, entered, generator);
    return;
  }
  if (!function || !PyFunction_Check(function)) return;
  if (!entered.user) {
    FunctionModel model = find_function(function);
    if (model.callee != Callee::Unknown) {
      std::string name = text_of(reinterpret_cast<PyFunctionObject*>(function)->func_module) + "." +
                         text_of(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
      if (model.callee == Callee::Refuse) r.refuse("calls " + name + ": " + model.reason);
      if (model.callee == Callee::TensorHook) register_tensor_hook(r, entered);
      if (model.callee == Callee::RandomState) {
        entered.reads_random_state = r.functions.can_record();
        if (!entered.reads_random_state) r.refuse("calls " + name + ": " + model.reason);
      }
      if (name == "logging.Logger._log" && logs(r, f)) {
        entered.muted = entered.moves = true;  // the numbers in it are written again
        return;
      }
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
      entered.around = model.callee == Callee::Around;
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
    if (is_called_by_c(f) && i < 2 && is_heap_type(Py_TYPE(value)) &&
        _PyType_Lookup(Py_TYPE(value), code->co_name) == function) {
      r.read_type(Py_TYPE(value), code->co_name);
      r.read_type_of(value);
    }
    if (!r.has_origin(value))
      r.require_origin(value, "the arguments of " + text_of(code->co_qualname));
  }
}

}  // namespace

void begin_frame(Recording& r, _PyInterpreterFrame* frame) {
  ErrorAside aside;
  on_frame(r, frame);
  r.begin_part(r.frames.back());
}

void run_instruction(Recording& r, Frame& frame) {
  ErrorAside aside;
  drain_free_lists();
  if ((r.opcodes & 1023) == 0) r.stop_if_too_long();
  const size_t effects = r.effect_count();
  on_instruction(r, frame);
  frame.wrote = r.effect_count() != effects;
}

void raise_in_frame(Recording& r, Frame& frame) {
  if (frame.wrote) r.refuse("a write raises an exception");
  number_raise(r, frame);
  if (std::exchange(frame.function_call, false)) r.functions.end(nullptr);
  frame.wrote = false;
  frame.pending = Pending::Nothing;
  frame.keyword_names = nullptr;
  frame.callee = PyRef();
  frame.arguments = PyRef();
}

void end_frame(Recording& r, PyObject* result) {
  Frame& frame = r.frames.back();
  r.end_part(frame, result != nullptr);
  if (result && is_called_by_c(frame.frame) && !frame.muted && r.frames.size() > 1) {
    ErrorAside aside;
    on_result_for_c(r, r.frames[r.frames.size() - 2], frame, result);
  }
  if (frame.checkpoint != nullptr && result != nullptr) begin_checkpoint(r, frame);
  if (frame.reads_random_state && result != nullptr) r.functions.sink()->random_state_read(result);
  if (frame.hooks) r.functions.sink()->hook_registered(result);
  if (r.numbers.any()) number_return(r, result);
  number_raise(r, frame);
  r.frames.pop_back();
}

}  // namespace fulgurite::python::watching
