#include "jit_function.h"

#include <ATen/core/Tensor.h>
#include <structmember.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "ir/errors.h"
#include "ops/prims.h"
#include "passes/pipeline.h"
#include "record/recorder.h"
#include "rules.h"

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

namespace {

struct JitFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  JitState* state;
  PyObject* dict;
  PyObject* weakrefs;
};

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

record::Position position() {
  record::Position p;
  const SourceLocation where = current_location(&p.module);
  p.file = where.file;
  p.line = where.line;
  return p;
}

std::string place(const SourceLocation& where) {
  return where.file.empty() ? "" : where.file + ":" + std::to_string(where.line) + " ";
}

// Tells the listener (logging); its errors are not the caller's.
void tell(PyObject* self, const char* event, const std::string& detail) {
  if (event_hook == nullptr || event_hook == Py_None) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyRef r = PyRef::steal(PyObject_CallFunction(event_hook, "Oss", self, event, detail.c_str()));
  if (!r) PyErr_WriteUnraisable(event_hook);
  PyErr_Restore(type, value, trace);
}

PyObject* raise_compile_error(const std::string& code, const std::string& reason) {
  PyErr_SetString(compile_error, (code + ": " + reason).c_str());
  return nullptr;
}

class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// The function itself, uncompiled; users' gradient rules hold all the same.
PyObject* call_eagerly(const JitState& state, PyObject* const* args, size_t nargsf,
                       PyObject* kwnames) {
  const record::UnderRules rules(&position);
  return PyObject_Vectorcall(state.callable.get(), args, nargsf, kwnames);
}

// One call that is recorded while it runs.
class RecordedCall {
 public:
  RecordedCall(PyObject* self, JitState& state, PyObject* const* args, size_t nargsf,
               PyObject* kwnames)
      : self_(self),
        state_(state),
        args_(args),
        nargsf_(nargsf),
        nargs_(static_cast<size_t>(PyVectorcall_NARGS(nargsf))),
        kwnames_(kwnames) {}

  PyObject* run() {
    const auto start = Clock::now();
    auto entry = std::make_shared<Entry>();
    entry->modes = Modes::now();
    std::string refusal;
    WatchOptions watch_options;
    entry->arguments = ArgumentStructure::of(args_, nargs_, kwnames_, arguments_,
                                             watch_options.argument_structure, refusal);
    if (!refusal.empty()) return eager("FG-204", refusal);

    record::Recorder recorder(state_.name, &position);
    const auto names = entry->arguments.tensor_names(state_.callable.get());
    std::vector<const at::Tensor*> inputs;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const at::Tensor& t = tensor_of(arguments_[i]);
      if (t.layout() != at::kStrided || t.is_nested())
        return eager("FG-110", "argument " + names[i] + " is a " + t.toString() +
                                   "; compiled are strided, dense tensors");
      const bool again = is_known_input(t, inputs);
      inputs.push_back(&t);
      entry->tensors.emplace_back(t);
      entry->tensor_paths.push_back(names[i]);
      if (!again) recorder.add_input(t, names[i]);
    }
    Observation seen;
    PyRef result;
    watch_options.context = &recorder;
    watch_options.on_grad_access = [](PyObject* tensor, void* context) {
      if (is_any_tensor(tensor))
        static_cast<record::Recorder*>(context)->note_grad_access(tensor_of(tensor));
    };
    {
      record::Recorder::Scope scope(recorder);
      result =
          PyRef::steal(watch(state_.callable.get(), args_, nargsf_, kwnames_, watch_options, seen));
    }
    if (!result) {
      // The program's own exception; nothing of it is compiled.
      PyObject *type, *value, *trace;
      PyErr_Fetch(&type, &value, &trace);
      failed("FG-206",
             "the call raised " + std::string(type != nullptr
                                                  ? reinterpret_cast<PyTypeObject*>(type)->tp_name
                                                  : "an exception"));
      PyErr_Restore(type, value, trace);
      return nullptr;
    }
    entry->record_milliseconds = milliseconds_since(start);
    state_.last_record_milliseconds = entry->record_milliseconds;
    try {
      compile(recorder, *entry, seen, result.get());
      entry->python = std::move(seen.guards);
      check_after_run(*entry);
    } catch (const fulgurite::Refusal& r) {
      if (!failed(r.code(), r.message())) return nullptr;
      return result.release();
    } catch (...) {
      // A gradient rule is wrong: the user's mistake, not a reason to go on with another gradient.
      if (set_rule_error()) return nullptr;
      if (!failed_with_current_exception()) return nullptr;
      return result.release();
    }
    state_.failures = 0;
    if (state_.options.caching) {
      if (state_.entries.size() >= state_.options.max_entries) state_.entries.pop_back();
      state_.entries.insert(state_.entries.begin(), std::move(entry));
      tell(self_, "compiled", state_.name);
    }
    return result.release();
  }

 private:
  static bool is_known_input(const at::Tensor& t, const std::vector<const at::Tensor*>& inputs) {
    for (const at::Tensor* i : inputs)
      if (i->is_same(t)) return true;
    return false;
  }

  // `failed` may be followed by an eager call: nothing has run yet.
  PyObject* eager(const std::string& code, const std::string& reason) {
    if (!failed(code, reason)) return nullptr;
    return call_eagerly(state_, args_, nargsf_, kwnames_);
  }

  // Counts a recording that gave no program. False with an exception set under fullgraph.
  bool failed(const std::string& code, const std::string& reason) {
    if (state_.fall_back(code, reason)) tell(self_, "fallback", code + ": " + reason);
    // Recording again costs; it is worth it when the cause may go away (caches filled, state
    // created).
    ++state_.failures;
    state_.last_failure = code + ": " + reason;
    state_.skip =
        state_.failures < 3 ? 0 : (uint64_t{1} << std::min<uint64_t>(state_.failures - 2, 10)) - 1;
    if (state_.options.fullgraph) {
      raise_compile_error(code, reason);
      return false;
    }
    return true;
  }

  // In a catch block: what is being handled is the reason.
  bool failed_with_current_exception() {
    try {
      throw;
    } catch (const fulgurite::Error& e) {
      return failed(e.code(), e.message());
    } catch (const c10::Error& e) {
      return failed("FG-900", e.what_without_backtrace());
    } catch (const std::exception& e) {
      return failed("FG-900", e.what());
    }
  }

  void compile(record::Recorder& recorder, Entry& entry, Observation& seen, PyObject* result) {
    const auto start = Clock::now();
    for (const auto& r : seen.refusals) throw fulgurite::Refusal("FG-200", place(r.where) + r.what);
    std::unordered_map<const c10::TensorImpl*, const TensorRead*> reads;
    bool touches_grad = false;
    for (const TensorRead& r : seen.tensors) {
      if (!is_any_tensor(r.tensor)) continue;
      touches_grad = touches_grad || r.attribute_grad;
      if (r.attribute_grad) continue;
      auto& slot = reads[tensor_of(r.tensor).unsafeGetTensorImpl()];
      if (slot == nullptr || slot->path.empty()) slot = &r;
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const c10::TensorImpl* impl = tensor_of(arguments_[i]).unsafeGetTensorImpl();
      if (reads.count(impl) > 0) entry.fixed_arguments.emplace_back(i, impl);
    }
    if (!(Modes::now() == entry.modes))
      throw fulgurite::Refusal("FG-210", "the call changes a mode for its caller: " +
                                             Modes::now().difference(entry.modes));
    for (const Effect& e : seen.effects) {
      if (e.kind == EffectKind::Backward) {
        touches_grad = true;
        continue;
      }
      const char* key = e.key && PyUnicode_Check(e.key.get()) ? PyUnicode_AsUTF8(e.key.get()) : "";
      if (e.kind == EffectKind::TensorAttr && std::string(key) == "grad" &&
          is_any_tensor(e.holder.get())) {
        touches_grad = true;
        recorder.note_grad_write(tensor_of(e.holder.get()));
        continue;
      }
      throw fulgurite::Refusal(
          "FG-201", place(e.where) + e.text + ": an effect on Python state that outlives the call");
    }

    std::vector<PyObject*> output_objects;
    std::string refusal;
    entry.result = ResultStructure::of(
        result, args_, nargs_ + (kwnames_ ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_)) : 0),
        output_objects, refusal);
    if (!refusal.empty()) throw fulgurite::Refusal("FG-202", refusal);
    std::vector<at::Tensor> outputs;
    for (PyObject* o : output_objects) outputs.push_back(tensor_of(o));

    for (size_t i = 0; i < recorder.externals().size(); ++i) {
      const auto* impl = recorder.externals()[i].tensor.unsafeGetTensorImpl();
      if (auto it = reads.find(impl); it != reads.end())
        recorder.name_external(i, identifier(it->second->path));
    }
    record::Recording recording = recorder.finish(outputs, entry.result.expression());
    if (recording.refusal) throw *recording.refusal;

    const size_t arguments = recording.trace->inputs.size() - recording.externals.size();
    input_positions(entry, arguments);
    for (const record::External& e : recording.externals) {
      External x;
      const auto* impl = e.tensor.unsafeGetTensorImpl();
      if (e.grad_of >= 0) {
        x.is_grad = touches_grad = true;
        x.path = recording.trace->value(e.grad_of).name + ".grad";
        x.tensor = tensor_ref(entry, *recording.trace, e.grad_of, recording.externals);
      } else if (auto it = reads.find(impl); it != reads.end()) {
        x.path = it->second->path;
        x.tensor.fixed = e.tensor;
      } else {
        throw fulgurite::Refusal(
            "FG-205", "the program uses a tensor " + recording.trace->value(e.value).name +
                          " that is neither an argument, nor was read from a variable, nor made "
                          "in the call");
      }
      entry.tensors.emplace_back(e.tensor);
      entry.tensor_paths.push_back(x.path);
      entry.externals.push_back(std::move(x));
    }
    if (touches_grad) guard_grads(entry, recording);

    std::vector<const at::Tensor*> all;
    for (PyObject* o : arguments_) all.push_back(&tensor_of(o));
    for (const record::External& e : recording.externals) all.push_back(&e.tensor);

    passes::PipelineOptions options;
    options.reinplace = state_.options.reinplace;
    passes::Lowered lowered;
    {
      WithoutGil no_gil;
      lowered = passes::run_pipeline(recording.trace, options);
    }
    entry.aliases = run::AliasGuard(all);
    entry.check_aliases =
        entry.aliases.any() || lowered.functional->epilogue < lowered.functional->binds.size();
    entry.program = std::make_shared<run::Compiled>(std::move(lowered));
    entry.compile_milliseconds = milliseconds_since(start);
  }

  // The trace has each tensor once; a tensor given twice is one input. The entry must know which.
  void input_positions(Entry& entry, size_t distinct) const {
    entry.argument_positions.clear();
    std::vector<const at::Tensor*> seen;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const at::Tensor& t = tensor_of(arguments_[i]);
      if (is_known_input(t, seen)) continue;
      seen.push_back(&t);
      entry.argument_positions.push_back(i);
    }
    if (seen.size() != distinct) throw InternalError("recorded inputs do not match the arguments");
  }

  TensorRef tensor_ref(const at::Tensor& t) const {
    TensorRef r;
    for (size_t i = 0; i < arguments_.size() && r.argument < 0; ++i)
      if (tensor_of(arguments_[i]).is_same(t)) r.argument = static_cast<int32_t>(i);
    if (r.argument < 0) r.fixed = t;
    return r;
  }

  // The tensor that was input `id` of the trace.
  TensorRef tensor_ref(const Entry& entry, const ir::Trace& trace, ir::ValueId id,
                       const std::vector<record::External>& externals) const {
    for (size_t i = 0; i < entry.argument_positions.size(); ++i)
      if (trace.inputs[i] == id)
        return tensor_ref(tensor_of(arguments_[entry.argument_positions[i]]));
    for (const record::External& e : externals)
      if (e.value == id) return tensor_ref(e.tensor);
    throw InternalError("an input of the trace has no tensor");
  }

  // Which leaves must have a .grad when the call begins, and which must not.
  void guard_grads(Entry& entry, const record::Recording& recording) const {
    for (const record::LeafGrad& l : recording.leaves)
      entry.grads.push_back({tensor_ref(l.leaf), l.defined_before});
  }

  // The recorded run may have filled caches that it read before: then it is not what the next one
  // will be.
  void check_after_run(Entry& entry) {
    if (entry.python.check()) return;
    throw fulgurite::Refusal("FG-203", "what the call read has changed when it was over (" +
                                           entry.python.explain_failure() +
                                           "); the next call is recorded again");
  }

  static std::string identifier(const std::string& path) {
    std::string name;
    for (char c : path) {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
        name += c;
      } else if (!name.empty() && name.back() != '_') {
        name += '_';
      }
    }
    for (const char* prefix : {"self_", "closure_", "globals_"})
      if (name.rfind(prefix, 0) == 0) name = name.substr(std::string(prefix).size());
    while (!name.empty() && name.back() == '_') name.pop_back();
    return name.empty() ? "external" : name;
  }

  PyObject* self_;
  JitState& state_;
  PyObject* const* args_;
  size_t nargsf_;
  size_t nargs_;
  PyObject* kwnames_;
  std::vector<PyObject*> arguments_;
};

// Runs the entry's program. False if the call has to go on elsewhere (nothing has happened then).
enum class Served { Yes, DataLeftThePath, Raised };
Served serve(const std::shared_ptr<Entry>& entry, const std::vector<const at::Tensor*>& inputs,
             std::vector<at::Tensor>& outputs, std::string& error) {
  const std::shared_ptr<run::Compiled> program = entry->program;
  WithoutGil no_gil;
  Served served = Served::Yes;
  try {
    program->run(inputs.data(), outputs);
  } catch (const prims::ValueGuardFailed&) {
    served = Served::DataLeftThePath;
  } catch (const c10::Error& e) {
    served = Served::Raised;
    error = e.what_without_backtrace();
  } catch (const std::exception& e) {
    served = Served::Raised;
    error = e.what();
  }
  return served;
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
  const Modes now = Modes::now();
  std::vector<const at::Tensor*> inputs;
  std::vector<at::Tensor> scratch;
  for (size_t i = 0; i < state.entries.size(); ++i) {
    std::shared_ptr<Entry> entry = state.entries[i];
    inputs.clear();
    scratch.clear();
    if (!entry->check(args, nargs, kwnames, now, inputs, scratch)) continue;
    std::vector<at::Tensor> outputs;
    std::string error;
    const Served served = serve(entry, inputs, outputs, error);
    if (served == Served::DataLeftThePath) continue;
    if (served == Served::Raised) {
      // Eager raises the same, in its own words; if it does not, the program is at fault and goes.
      ++state.misses;
      PyObject* result = call_eagerly(state, args, nargsf, kwnames);
      if (result != nullptr) {
        state.fall_back("FG-208", "the compiled program raised where eager did not: " + error);
        for (size_t k = 0; k < state.entries.size(); ++k)
          if (state.entries[k] == entry) {
            state.entries.erase(state.entries.begin() + static_cast<std::ptrdiff_t>(k));
            break;
          }
      }
      return result;
    }
    ++state.hits;
    ++entry->hits;
    PyObject* result = entry->result.build(outputs, args, nargs);
    if (i > 0 && i < state.entries.size() && state.entries[i] == entry)
      std::rotate(state.entries.begin(), state.entries.begin() + static_cast<std::ptrdiff_t>(i),
                  state.entries.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return result;
  }
  ++state.misses;
  std::vector<std::shared_ptr<Entry>> fresh;
  bool dropped = false;
  for (const auto& e : state.entries) dropped = dropped || e->program->stale();
  if (dropped) {
    for (const auto& e : state.entries)
      if (!e->program->stale()) fresh.push_back(e);
    fresh.swap(state.entries);
    if (state.recompiles.size() < 1000)
      state.recompiles.push_back("a gradient rule of the program has been changed");
    tell(self, "recompile", "a gradient rule of the program has been changed");
  }
  if (state.skip > 0) {
    --state.skip;
    state.fall_back("FG-209", "run eagerly: the last " + std::to_string(state.failures) +
                                  " recordings gave no program (" + state.last_failure + ")");
    return call_eagerly(state, args, nargsf, kwnames);
  }
  // Programs that are never used again: something that they are specialised on differs in every
  // call.
  constexpr size_t kUnusedPrograms = 8;
  size_t unused = 0;
  for (const auto& e : state.entries) unused += e->hits == 0 ? 1 : 0;
  if (unused >= kUnusedPrograms) {
    state.last_failure = "FG-212: " + std::to_string(unused) +
                         " programs were compiled and never used again; the last time because " +
                         (state.recompiles.empty() ? "of its guards" : state.recompiles.back());
    if (state.fall_back("FG-212", state.last_failure.substr(8)))
      tell(self, "fallback", state.last_failure);
    state.entries.erase(std::remove_if(state.entries.begin(), state.entries.end(),
                                       [](const auto& e) { return e->hits == 0; }),
                        state.entries.end());
    state.failures = std::max<uint64_t>(state.failures + 1, 6);
    state.skip = (uint64_t{1} << std::min<uint64_t>(state.failures - 2, 10)) - 1;
    if (state.options.fullgraph) return raise_compile_error("FG-212", state.last_failure);
    return call_eagerly(state, args, nargsf, kwnames);
  }
  if (!dropped && !state.entries.empty() && state.recompiles.size() < 1000) {
    std::string why = state.entries.front()->explain_failure(args, nargs, kwnames, now);
    state.recompiles.push_back(why.empty() ? "data took another path" : why);
    tell(self, "recompile", state.recompiles.back());
  }
  return RecordedCall(self, state, args, nargsf, kwnames).run();
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
    for (const auto& e : f->state->entries) {
      if (e.use_count() != 1) continue;
      if (const int r = e->arguments.traverse(visit, arg)) return r;
      if (const int r = e->python.traverse(visit, arg)) return r;
    }
  }
  return 0;
}

int clear(PyObject* self) {
  auto* f = reinterpret_cast<JitFunction*>(self);
  Py_CLEAR(f->dict);
  if (f->state != nullptr) {
    f->state->entries.clear();
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
  f->state->options = options;
  PyObject_GC_Track(reinterpret_cast<PyObject*>(f));
  return reinterpret_cast<PyObject*>(f);
}

JitState* jit_state(PyObject* object) {
  if (type_object == nullptr || !PyObject_TypeCheck(object, type_object)) return nullptr;
  return reinterpret_cast<JitFunction*>(object)->state;
}

}  // namespace fulgurite::python
