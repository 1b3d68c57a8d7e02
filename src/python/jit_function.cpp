#include "jit_function.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <structmember.h>

#include <algorithm>
#include <utility>

#include "exec/claim.h"
#include "python_function.h"
#include "record/recorder.h"
#include "recorded_call.h"
#include "rules.h"
#include "serve.h"

namespace fulgurite::python {

PyObject* compile_error = nullptr;
PyObject* event_hook = nullptr;

bool JitState::fall_back(const std::string& code, const std::string& reason) {
  for (Fallback& f : fallbacks) {
    if (f.code == code && f.reason == reason) {
      ++f.count;
      return false;
    }
  }
  if (fallbacks.size() < 1000) fallbacks.push_back({code, reason, 1});
  return true;
}

void JitState::follow_executors() {
  seen_generation = exec::generation();
  const uint64_t now = exec::generation_of(options.executors);
  if (now == executors_generation) return;
  executors_generation = now;
  entries.clear();
  back_off.clear();
}

namespace {

struct JitFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  JitState* state;
  PyObject* dict;
  PyObject* weakrefs;
};

// Programs that are never used again: something that they are specialised on differs in every call.
// Other shapes are no storm as long as there is room for their programs: they may come again.
bool is_storm(JitState& state, uint64_t key) {
  constexpr size_t kUnusedPrograms = 16;
  const size_t unused = state.entries.count_unused(key);
  const bool crowded = state.evicted_unused >= std::max<size_t>(state.options.max_entries, 16);
  if (unused < kUnusedPrograms && !crowded) return false;
  state.last_failure = "FG-212: " + std::to_string(crowded ? state.evicted_unused : unused) +
                       " programs were compiled and never used again; the last time because " +
                       (state.recompiles.empty() ? "of its guards" : state.recompiles.back());
  state.entries.remove_unused(key);
  state.evicted_unused = 0;
  state.back_off.wait_long();
  return true;
}

// Programs that were differentiated by a rule that was changed since go. True if there were any.
bool drop_stale_entries(PyObject* self, JitState& state) {
  if (!state.entries.remove_if([](const Entry& e) { return e.program->stale(); })) return false;
  if (state.recompiles.size() < 1000)
    state.recompiles.push_back("a gradient rule of the program has been changed");
  tell(self, "recompile", "a gradient rule of the program has been changed");
  return true;
}

// Eager raises what the program raised, in its own words; if it does not, the program is at fault
// and goes.
PyObject* after_exception(JitState& state, const Serving& serving, PyObject* const* args,
                          size_t nargsf, PyObject* kwnames) {
  ++state.misses;
  const auto entry = std::static_pointer_cast<Entry>(serving.branch());
  // Eager would refuse to write leaves, which may have happened.
  if (serving.wrote() || entry->writes_leaves) {
    PyErr_SetString(PyExc_RuntimeError, serving.error().c_str());
    return nullptr;
  }
  PyObject* result = call_eagerly(state, args, nargsf, kwnames);
  if (result != nullptr) {
    state.fall_back("FG-208",
                    "the compiled program raised where eager did not: " + serving.error());
    state.entries.remove(entry.get());
  }
  return result;
}

PyObject* call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  JitState& state = *reinterpret_cast<JitFunction*>(self)->state;
  PyRef keep_alive = PyRef::borrow(self);
  // Inside a recording of another function this call is part of it.
  if (record::recording()) return PyObject_Vectorcall(state.callable.get(), args, nargsf, kwnames);
  const auto nargs = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
  const char* mode = unsupported_mode();
  if (*mode != '\0') {
    ++state.misses;
    if (state.fall_back("FG-207", mode)) tell(self, "fallback", std::string("FG-207: ") + mode);
    if (state.options.fullgraph) return raise_compile_error("FG-207", mode);
    return call_eagerly(state, args, nargsf, kwnames);
  }
  if (exec::generation() != state.seen_generation) state.follow_executors();
  const uint64_t key = EntryCache::key_of(args, nargs, kwnames);
  std::shared_ptr<Entry> left;  // where the data took another path
  {
    Serving serving(state, key, {args, nargs, kwnames});
    switch (serving.run()) {
      case Serving::Ended::Served:
        return serving.finish();
      case Serving::Ended::Raised:
        return after_exception(state, serving, args, nargsf, kwnames);
      case Serving::Ended::Failed:
        ++state.misses;
        raise_failure(serving.failure());
        return nullptr;
      case Serving::Ended::Unserved:
        left = std::static_pointer_cast<Entry>(serving.left());
    }
  }
  ++state.misses;
  const bool dropped = drop_stale_entries(self, state);
  if (state.back_off.passes()) {
    state.fall_back("FG-209", "run eagerly: the last " + std::to_string(state.back_off.failures()) +
                                  " recordings gave no program (" + state.last_failure + ")");
    return call_eagerly(state, args, nargsf, kwnames);
  }
  if (is_storm(state, key)) {
    if (state.fall_back("FG-212", state.last_failure.substr(8)))
      tell(self, "fallback", state.last_failure);
    if (state.options.fullgraph) return raise_compile_error("FG-212", state.last_failure);
    return call_eagerly(state, args, nargsf, kwnames);
  }
  if (left) {
    const auto room = run::BranchTree::room_beside(*left, state.options.max_branches);
    if (!room.refusal.empty()) {
      if (state.fall_back("FG-213", room.refusal))
        tell(self, "fallback", "FG-213: " + room.refusal);
      if (state.options.fullgraph) return raise_compile_error("FG-213", room.refusal);
      return call_eagerly(state, args, nargsf, kwnames);
    }
    if (room.goes) state.entries.remove(static_cast<const Entry*>(room.goes.get()));
  }
  if (const auto nearest = state.entries.nearest(key)) {
    const Modes now = Modes::now();
    for (std::string& place : nearest->varied(args, nargs, kwnames))
      state.varying.insert(std::move(place));
    if (!dropped && state.recompiles.size() < 1000) {
      std::string why = nearest->explain_failure(args, nargs, kwnames, now);
      state.recompiles.push_back(why.empty() ? "data took another path" : why);
      tell(self, "recompile", state.recompiles.back());
    }
    const std::string place = nearest->place_to_follow(args, nargs, kwnames);
    constexpr size_t kMostPlaces = 256;
    if (!place.empty() && state.places.size() < kMostPlaces) state.places.insert(place);
  }
  return record_call(self, state, args, nargsf, kwnames, left);
}

// ---- the type
// -------------------------------------------------------------------------------------------
PyTypeObject* type_object = nullptr;

void dealloc(PyObject* self) {
  auto* f = reinterpret_cast<JitFunction*>(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (f->weakrefs != nullptr) PyObject_ClearWeakRefs(self);
  delete f->state;
  Py_XDECREF(f->dict);
  type->tp_free(self);
  Py_DECREF(type);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  auto* f = reinterpret_cast<JitFunction*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(f->dict);
  if (f->state != nullptr) {
    Py_VISIT(f->state->callable.get());
    for (const Part& p : f->state->parts) {
      Py_VISIT(p.callable.get());
      Py_VISIT(p.substitute.get());
    }
    for (const auto& e : f->state->entries) {
      if (e.use_count() != 1) continue;
      if (const int r = e->arguments.traverse(visit, arg)) return r;
      if (const int r = e->python.traverse(visit, arg)) return r;
      if (const int r = e->effects.traverse(visit, arg)) return r;
      if (!e->functions) continue;
      if (const int r = e->functions->traverse(visit, arg)) return r;
    }
  }
  return 0;
}

int clear(PyObject* self) {
  auto* f = reinterpret_cast<JitFunction*>(self);
  Py_CLEAR(f->dict);
  if (f->state != nullptr) {
    f->state->entries.clear();
    f->state->parts.clear();
    f->state->callable = PyRef::borrow(Py_None);
  }
  return 0;
}

PyObject* descr_get(PyObject* self, PyObject* object, PyObject* /*type*/) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyObject* repr(PyObject* self) {
  const JitState& s = *reinterpret_cast<JitFunction*>(self)->state;
  return PyUnicode_FromFormat("<fulgurite.jit of %s: %d programs, %llu hits, %llu misses>",
                              s.name.c_str(), static_cast<int>(s.entries.size()),
                              static_cast<unsigned long long>(s.hits),
                              static_cast<unsigned long long>(s.misses));
}

PyObject* get_wrapped(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<JitFunction*>(self)->state->callable.get());
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(JitFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(JitFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(JitFunction, weakrefs), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyGetSetDef getset[] = {
    {"__wrapped__", get_wrapped, nullptr, "the function that was given to jit", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(descr_get)},
    {Py_tp_repr, reinterpret_cast<void*>(repr)},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {Py_tp_doc, const_cast<char*>("A function compiled by fulgurite.jit.")},
    {0, nullptr},
};
PyType_Spec spec = {"fulgurite._C.JitFunction", sizeof(JitFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

}  // namespace

PyObject* jit_function_type() {
  if (type_object == nullptr) type_object = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return reinterpret_cast<PyObject*>(type_object);
}

PyObject* new_jit_function(PyObject* callable, std::string name, JitOptions options) {
  auto* f = PyObject_GC_New(JitFunction, type_object);
  if (f == nullptr) return nullptr;
  f->vectorcall = call;
  f->dict = nullptr;
  f->weakrefs = nullptr;
  f->state = new JitState();
  f->state->callable = PyRef::borrow(callable);
  f->state->name = std::move(name);
  f->state->options = std::move(options);
  f->state->follow_executors();
  PyObject_GC_Track(reinterpret_cast<PyObject*>(f));
  return reinterpret_cast<PyObject*>(f);
}

namespace {

// A part that has no operators, or that gives no program itself, is left alone.
bool is_worth_calling(const JitState& part) {
  constexpr uint64_t kMostFailures = 6;
  constexpr size_t kFewestOperators = 2;
  if (!part.parts.empty()) return true;
  if (part.entries.empty()) return part.back_off.failures() < kMostFailures;
  return part.entries[0]->program->parts().functional->binds.size() >= kFewestOperators;
}

}  // namespace

PyObject* call_eagerly(const JitState& state, PyObject* const* args, size_t nargsf,
                       PyObject* kwnames) {
  std::vector<Part> parts;  // a copy: a call inside may add some
  for (const Part& part : state.parts)
    if (is_worth_calling(*jit_state(part.substitute.get()))) parts.push_back(part);
  const InterceptScope scope(&parts);
  const record::UnderRules rules(&program_position);  // users' gradient rules hold all the same
  return PyObject_Vectorcall(state.callable.get(), args, nargsf, kwnames);
}

JitState* jit_state(PyObject* object) {
  if (type_object == nullptr || !PyObject_TypeCheck(object, type_object)) return nullptr;
  return reinterpret_cast<JitFunction*>(object)->state;
}

}  // namespace fulgurite::python
