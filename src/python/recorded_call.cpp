#include "recorded_call.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "exec/claim.h"
#include "input_sources.h"
#include "ir/errors.h"
#include "number_recorder.h"
#include "ops/prims.h"
#include "passes/functionalize.h"
#include "passes/pipeline.h"
#include "python_function.h"
#include "record/recorder.h"
#include "rules.h"
#include "run/write_back.h"
#include "watch/numbers.h"
#include "without_gil.h"

namespace fulgurite::python {

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

record::Position program_position() {
  record::Position p;
  const SourceLocation where = current_location(&p.module);
  p.file = where.file;
  p.line = where.line;
  return p;
}

namespace {

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string place(const SourceLocation& where) {
  return where.file.empty() ? "" : where.file + ":" + std::to_string(where.line) + " ";
}

// One call that is recorded while it runs.
class RecordedCall {
 public:
  RecordedCall(PyObject* self, JitState& state, PyObject* const* args, size_t nargsf,
               PyObject* kwnames, std::shared_ptr<Entry> beside)
      : self_(self),
        state_(state),
        beside_(std::move(beside)),
        args_(args),
        nargsf_(nargsf),
        nargs_(static_cast<size_t>(PyVectorcall_NARGS(nargsf))),
        kwnames_(kwnames),
        key_(EntryCache::key_of(args, nargs_, kwnames)) {}

  PyObject* run() {
    const auto start = Clock::now();
    auto entry = std::make_shared<Entry>();
    entry->modes = Modes::now();
    std::string refusal;
    WatchOptions watch_options;
    entry->arguments = ArgumentStructure::of(args_, nargs_, kwnames_, inputs_.arguments,
                                             watch_options.argument_structure, refusal);
    if (!refusal.empty()) return eager("FG-204", refusal);
    if (!state_.places.empty()) {
      entry->arguments.follow(state_.places, watch_options.followed);
      watch_options.places = &state_.places;
    }

    record::Recorder recorder(state_.name, &program_position);
    const auto names = entry->arguments.tensor_names(state_.callable.get());
    std::vector<const at::Tensor*> inputs;
    for (size_t i = 0; i < inputs_.arguments.size(); ++i) {
      const at::Tensor& t = tensor_of(inputs_.arguments[i]);
      if (t.layout() != at::kStrided || t.is_nested())
        return eager("FG-110", "argument " + names[i] + " is a " + t.toString() +
                                   "; compiled are strided, dense tensors");
      const bool again = is_among(t, inputs);
      inputs.push_back(&t);
      entry->tensors.emplace_back(t);
      entry->tensor_paths.push_back(names[i]);
      if (!again) recorder.add_input(t, names[i]);
    }
    if (state_.options.functional_leaves) recorder.open_leaves();
    Observation seen;
    PyRef result;
    watch_options.context = &recorder;
    watch_options.on_grad_access = [](PyObject* tensor, void* context) {
      if (is_any_tensor(tensor))
        static_cast<record::Recorder*>(context)->note_grad_access(tensor_of(tensor));
    };
    watch_options.on_requires_grad = [](PyObject* tensor, void* context) {
      if (is_any_tensor(tensor))
        static_cast<record::Recorder*>(context)->note_requires_grad(tensor_of(tensor));
    };
    watch_options.on_alias = [](PyObject* tensor, void* context) {
      if (is_any_tensor(tensor))
        static_cast<record::Recorder*>(context)->note_alias(tensor_of(tensor));
    };
    NumberRecorder numbers(recorder);
    watch_options.numbers = &numbers;
    watch_options.varying = &state_.varying;
    FunctionCalls functions(recorder);
    watch_options.functions = &functions;
    const std::vector<PyObject*> args = follow_numbers(*entry, numbers, watch_options);
    {
      record::Recorder::Scope scope(recorder);
      result = PyRef::steal(watch(state_.callable.get(), args.data(),
                                  static_cast<size_t>(PyVectorcall_NARGS(nargsf_)), kwnames_,
                                  watch_options, seen));
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
    if (!recorder.leaf_writes().empty() && !close_leaves(recorder, *entry, seen, result))
      return nullptr;
    entry->record_milliseconds = milliseconds_since(start);
    state_.last_record_milliseconds = entry->record_milliseconds;
    const uint64_t executors_generation = exec::generation_of(state_.options.executors);
    try {
      compile(recorder, *entry, seen, functions, result.get());
      entry->python = std::move(seen.guards);
      check_after_run(*entry);
      Entry::plant(entry, beside_.get());
    } catch (const exec::ExecutorError& e) {
      // Eager's result would hide that what the user registered is wrong.
      raise_executor_error(e);
      return nullptr;
    } catch (const fulgurite::Refusal& r) {
      if (!followed_more_) take_parts(seen);
      if (!failed(r.code(), r.message())) return nullptr;
      return result.release();
    } catch (...) {
      // A gradient rule is wrong: the user's mistake, not a reason to go on with another gradient.
      if (set_rule_error()) return nullptr;
      if (!failed_with_current_exception()) return nullptr;
      return result.release();
    }
    state_.back_off.succeeded();
    const bool is_current = executors_generation == exec::generation_of(state_.options.executors);
    if (state_.options.caching && is_current) {
      if (state_.entries.add(std::move(entry), key_, state_.options.max_entries))
        ++state_.evicted_unused;
      tell(self_, "compiled", state_.name);
    }
    return result.release();
  }

 private:
  // The arguments of the call; numbers that were others before are replaced by objects that nobody
  // else has, so that they can be followed.
  std::vector<PyObject*> follow_numbers(Entry& entry, NumberRecorder& numbers,
                                        WatchOptions& watch_options) {
    const size_t total = nargs_ + (kwnames_ ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_)) : 0);
    std::vector<PyObject*> args(args_, args_ + total);
    for (size_t i = 0; i < total; ++i) {
      const std::string path = entry.arguments.number_path(i);
      if (path.empty() || state_.varying.count(path) == 0) continue;
      fresh_arguments_.push_back(watching::fresh_number(args[i]));
      args[i] = fresh_arguments_.back().get();
      const int node = numbers.input(args[i], path);
      watch_options.number_arguments.emplace_back(args[i], node);
      inputs_.argument_numbers.emplace_back(node, i);
    }
    return args;
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
    if (!followed_more_) state_.back_off.count_failure();
    state_.last_failure = code + ": " + reason;
    // Not recorded, a write of a leaf would be eager's error, where it was none before.
    if (wrote_leaves_) {
      state_.back_off.do_not_wait();
    } else {
      state_.back_off.wait();
    }
    if (state_.options.fullgraph) {
      raise_compile_error(code, reason);
      return false;
    }
    return true;
  }

  // The program wrote leaves that require grad: they are leaves again, and what it returned is made
  // anew with the program's values in their place. False with an exception set.
  bool close_leaves(record::Recorder& recorder, Entry& entry, const Observation& seen,
                    PyRef& result) {
    std::vector<PyObject*> objects;
    std::string refusal;
    Recipe recipe;
    const int node =
        recipe.add(result.get(), ObjectFinder(seen, args_, all_arguments()), objects, refusal);
    std::vector<at::Tensor> outputs;
    for (PyObject* o : objects) {
      gives_numbers_ = gives_numbers_ || !is_any_tensor(o);
      outputs.push_back(is_any_tensor(o) ? tensor_of(o) : number_tensor(o));
    }
    try {
      const passes::Claimer claim = exec::claimer(state_.options.executors);
      recorder.close_leaves(outputs, [&](const at::Tensor& value, const at::Tensor& leaf) {
        return run::write_back_by_executor(claim, value, leaf);
      });
    } catch (const exec::ExecutorError& e) {
      raise_executor_error(e);
      return false;
    } catch (const std::exception& e) {
      if (!set_rule_error())
        PyErr_SetString(PyExc_RuntimeError, e.what());  // no frame above catches
      return false;
    }
    if (node < 0) {
      PyErr_Format(PyExc_RuntimeError,
                   "FG-185: the result %s, and a leaf that requires grad was written in place "
                   "(%s): what the "
                   "function returns cannot be given the leaf's new value",
                   refusal.c_str(), recorder.leaf_writes().front().c_str());
      return false;
    }
    std::vector<PyRef> slots;
    for (const auto& [object, slot] : seen.slots) {
      slots.resize(std::max(slots.size(), static_cast<size_t>(slot) + 1));
      slots[static_cast<size_t>(slot)] = PyRef::borrow(object);
    }
    Recipe::Making making(recipe, outputs, args_, slots);
    result = PyRef::borrow(making.get(node));
    if (!result) return false;
    entry.writes_leaves = wrote_leaves_ = true;
    for (const std::string& where : recorder.leaf_writes())
      if (!warn_of_leaf_write(where)) return false;
    return true;
  }

  // Once per place.
  static bool warn_of_leaf_write(const std::string& where) {
    static auto* warned = new std::unordered_set<std::string>();
    if (!warned->insert(where).second) return true;
    return PyErr_WarnFormat(PyExc_UserWarning, 1,
                            "%s writes a leaf that requires grad in place: eager PyTorch raises an "
                            "error here. The function is given the gradient with respect to the "
                            "leaf's value before the call; jit(f, leaf_inplace=\"error\") gives "
                            "eager's error",
                            where.c_str()) == 0;
  }

  size_t all_arguments() const {
    return nargs_ + (kwnames_ ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames_)) : 0);
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

  void compile(record::Recorder& recorder, Entry& entry, Observation& seen,
               FunctionCalls& functions, PyObject* result) {
    const auto start = Clock::now();
    follow_changes(seen);
    for (const auto& r : seen.refusals) throw fulgurite::Refusal("FG-200", place(r.where) + r.what);
    bool touches_grad = inputs_.note_reads(seen, entry);
    if (!(Modes::now() == entry.modes))
      throw fulgurite::Refusal("FG-210", "the call changes a mode for its caller: " +
                                             Modes::now().difference(entry.modes));
    bool has_effects = false;
    for (const Effect& e : seen.effects) {
      if (e.kind == EffectKind::Backward) {
        touches_grad = true;
        continue;
      }
      const char* key = e.key && PyUnicode_Check(e.key.get()) ? PyUnicode_AsUTF8(e.key.get()) : "";
      if (e.kind == EffectKind::TensorAttr && std::string(key) == "requires_grad" &&
          is_any_tensor(e.holder.get())) {
        recorder.note_requires_grad(tensor_of(e.holder.get()));
        continue;
      }
      if (e.kind == EffectKind::TensorAttr && std::string(key) == "grad" &&
          is_any_tensor(e.holder.get())) {
        touches_grad = true;
        recorder.note_grad_write(tensor_of(e.holder.get()));
        continue;
      }
      if (e.kind == EffectKind::TensorAttr && std::string(key) == "retains_grad" &&
          is_any_tensor(e.holder.get())) {
        functions.grad_retained(e.holder.get());
        continue;
      }
      has_effects = true;
    }

    if (entry.writes_leaves && !functions.sites.empty())
      throw fulgurite::Refusal("FG-190",
                               "applies autograd.Functions, and writes a leaf that requires grad");
    functions.settle_hooks();
    if (entry.writes_leaves && !functions.hooks.empty())
      throw fulgurite::Refusal("FG-193",
                               "registers hooks on tensors, and writes a leaf that requires grad");
    has_effects = has_effects || fills_contexts(functions) || !functions.hooks.empty();
    std::vector<PyObject*> output_objects;
    const size_t given = all_arguments();
    if ((has_effects || gives_numbers_) && entry.writes_leaves)
      throw fulgurite::Refusal(
          "FG-188",
          "the function writes a leaf that requires grad in place, and stores something outside or "
          "gives a number");
    entry.effects = Effects::of(seen, result, args_, given, functions, output_objects);
    entry.has_effects = has_effects;
    const std::string expression = entry.effects.result_expression();
    std::vector<at::Tensor> outputs;
    for (PyObject* o : output_objects)
      outputs.push_back(is_any_tensor(o) ? tensor_of(o)
                                         : number_output(recorder, o, seen.number_objects.at(o)));

    inputs_.name_externals(recorder);
    record::Recording recording = recorder.finish(outputs, expression);
    if (recording.refusal) throw *recording.refusal;
    inputs_.check_reads(recorder);
    inputs_.settle_numbers(recorder, entry, seen, recording.numbers);
    touches_grad = inputs_.settle_tensors(entry, recording) || touches_grad;
    if (touches_grad) inputs_.guard_grads(entry, recording);

    std::vector<const at::Tensor*> all;
    for (PyObject* o : inputs_.arguments) all.push_back(&tensor_of(o));
    for (const record::External& e : recording.externals) all.push_back(&e.tensor);

    passes::PipelineOptions options;
    options.reinplace = state_.options.reinplace;
    options.claim = exec::claimer(state_.options.executors);
    options.shared = recording.shared;
    options.views = recording.views;
    options.write_back_at_once = state_.options.write_back_at_once;
    for (const TensorHook& h : functions.hooks)
      options.separate_parts =
          options.separate_parts || (h.kind == TensorHook::Kind::Gradient && h.boundary < 0);
    passes::Lowered lowered;
    {
      WithoutGil no_gil;
      lowered = passes::run_pipeline(recording.trace, options);
    }
    if (!touches_grad && !entry.writes_leaves && !seen.asked_for_gradients)
      allow_any_requires_grad(entry, *recording.trace);
    entry.aliases = run::AliasGuard(all, passes::inputs_whose_views_matter(*recording.trace));
    entry.check_aliases = entry.aliases.any() || entry.writes_leaves ||
                          lowered.functional->epilogue < lowered.functional->binds.size();
    for (const SlotGuard& s : entry.slot_tensors)
      entry.geometry = entry.geometry * 31 + std::hash<std::string>()(s.guard.describe());
    if (!functions.sites.empty() || !functions.hooks.empty())
      entry.functions = std::make_shared<const PythonFunctions>(std::move(functions.sites));
    entry.program = std::make_shared<run::Compiled>(std::move(lowered), entry.functions,
                                                    state_.options.check_results);
    entry.compile_milliseconds = milliseconds_since(start);
  }

  // A call that builds no graph is the same for tensors that require grad and others.
  static void allow_any_requires_grad(Entry& entry, const ir::Trace& trace) {
    if (entry.modes.grad()) return;
    for (const ir::Bind& b : trace.binds)
      if (b.grad_mode || b.op == prims::set_requires_grad()) return;
    for (run::TensorGuard& guard : entry.tensors) guard.allow_any_requires_grad();
    for (SlotGuard& s : entry.slot_tensors) s.guard.allow_any_requires_grad();
  }

  // Whether a context holds more than what eager's own code puts there.
  static bool fills_contexts(const FunctionCalls& functions) {
    for (const FunctionSite& site : functions.sites) {
      PyObject** attributes = _PyObject_GetDictPtr(site.context.get());
      const bool any =
          attributes != nullptr && *attributes != nullptr && PyDict_GET_SIZE(*attributes) > 0;
      if (any || !site.hooks.empty()) return true;
    }
    return false;
  }

  // The whole is refused: what it calls may still be compiled.
  void take_parts(const Observation& seen) {
    constexpr size_t kMostParts = 256;
    for (const PyRef& part : seen.pure_parts) {
      auto& parts = state_.parts;
      const bool known = std::any_of(parts.begin(), parts.end(),
                                     [&](const Part& p) { return p.callable.get() == part.get(); });
      if (known || parts.size() >= kMostParts || part.get() == state_.callable.get()) continue;
      std::string name = Py_TYPE(part.get())->tp_name;
      if (PyFunction_Check(part.get())) {
        const char* text =
            PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(part.get())->func_qualname);
        if (text == nullptr) PyErr_Clear();
        name = text != nullptr ? text : "function";
      }
      JitOptions options = state_.options;
      options.fullgraph = false;
      PyRef substitute = PyRef::steal(new_jit_function(part.get(), name, options));
      if (substitute) parts.push_back({part, substitute});
    }
  }

  // What the run read and changed itself: the next recording follows it instead of fixing it.
  void follow_changes(const Observation& seen) {
    constexpr size_t kMostPlaces = 256;
    bool more = false;
    for (const std::string& place : seen.changed) {
      if (state_.places.size() >= kMostPlaces) break;
      more = state_.places.insert(place).second || more;
    }
    if (!more) return;
    followed_more_ = true;
    throw fulgurite::Refusal("FG-203", "the call reads and changes " + seen.changed.front() +
                                           "; the next call is recorded again, following it");
  }

  // The recorded run may have filled caches that it read before: then it is not what the next one
  // will be. With effects that are replayed, it may be right for a later one.
  void check_after_run(Entry& entry) {
    if (entry.has_effects || entry.python.check()) return;
    throw fulgurite::Refusal("FG-203", "what the call read has changed when it was over (" +
                                           entry.python.explain_failure() +
                                           "); the next call is recorded again");
  }

  PyObject* self_;
  JitState& state_;
  std::shared_ptr<Entry> beside_;
  PyObject* const* args_;
  size_t nargsf_;
  size_t nargs_;
  PyObject* kwnames_;
  bool followed_more_ = false;
  bool wrote_leaves_ = false;
  bool gives_numbers_ = false;  // only known of a call that wrote leaves
  uint64_t key_;                // of the arguments as they were before the call
  InputSources inputs_;
  std::vector<PyRef> fresh_arguments_;
};

}  // namespace

PyObject* record_call(PyObject* self, JitState& state, PyObject* const* args, size_t nargsf,
                      PyObject* kwnames, const std::shared_ptr<Entry>& beside) {
  return RecordedCall(self, state, args, nargsf, kwnames, beside).run();
}

}  // namespace fulgurite::python
