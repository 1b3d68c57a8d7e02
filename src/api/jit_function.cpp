// A call of a jitted C++ function: served by a program whose guards hold, else recorded while it
// runs.
#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>

#include "api/serve.h"
#include "api/state.h"
#include "exec/claim.h"
#include "exec/registry.h"
#include "ir/errors.h"
#include "ops/prims.h"
#include "ops/rules.h"
#include "passes/functionalize.h"
#include "passes/pipeline.h"
#include "record/recorder.h"

namespace fulgurite {
namespace {

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// All operators of a function get the place of its `jit` call: C++ has no line of its own at run
// time.
thread_local const JitFunction::State* recorded_function = nullptr;

record::Position position() { return {recorded_function->file, recorded_function->line, ""}; }

class PositionScope {
 public:
  explicit PositionScope(const JitFunction::State& s) : outer_(recorded_function) {
    recorded_function = &s;
  }
  ~PositionScope() { recorded_function = outer_; }
  PositionScope(const PositionScope&) = delete;
  PositionScope& operator=(const PositionScope&) = delete;

 private:
  const JitFunction::State* outer_;
};

std::string name_from(const Options& options, const std::source_location& where) {
  std::string name = options.name;
  if (name.empty()) {
    std::string file = where.file_name();
    file = file.substr(file.find_last_of('/') + 1);
    name = file.substr(0, file.find('.')) + "_" + std::to_string(where.line());
  }
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name.insert(0, "f_");
  return name;
}

bool can_be_guarded(const at::Tensor& t) {
  return t.layout() == at::kStrided && !t.is_nested() && !t.is_quantized();
}

// A recording that gave no program.
void count_failure(JitFunction::State& s, const std::string& code, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.fall_back(code, reason);
  s.back_off.count_failure();
  s.back_off.wait();
}

// One call that is recorded while it runs.
class RecordedCall {
 public:
  RecordedCall(JitFunction::State& state, const api::Given& given, const run::Modes& now,
               std::shared_ptr<api::Entry> beside)
      : state_(state),
        given_(given),
        beside_(std::move(beside)),
        entry_(std::make_shared<api::Entry>()),
        recorder_(state.name, &position) {
    entry_->modes = now;
    entry_->layout = given.layout;
  }

  void run(detail::Body body, void* context, detail::Results& results) {
    const auto start = Clock::now();
    // Handles of our own: the function may reset those of the caller.
    for (const at::Tensor* t : given_.tensors) held_.push_back(*t);
    for (std::size_t i = 0; i < held_.size(); ++i) {
      entry_->tensors.emplace_back(held_[i]);
      const bool again = std::any_of(entry_->distinct.begin(), entry_->distinct.end(),
                                     [&](std::size_t k) { return held_[k].is_same(held_[i]); });
      if (again) continue;
      entry_->distinct.push_back(i);
      entry_->grad_defined.push_back(api::has_grad(held_[i]));
      recorder_.add_input(held_[i], "x" + std::to_string(i));
    }
    try {
      const PositionScope here(state_);
      const record::Recorder::Scope scope(recorder_);
      body(context, results);
    } catch (...) {
      count_failure(state_, "FG-206", "the call raised an exception");
      throw;
    }
    entry_->record_milliseconds = milliseconds_since(start);
    const std::uint64_t generation = exec::generation_of(state_.executors);
    std::string code, reason;
    try {
      compile(results);
      plant();
    } catch (const exec::ExecutorError&) {
      throw;  // the function's own result would hide that what was registered is wrong
    } catch (const rules::RuleError&) {
      throw;  // the user's mistake, not a reason to go on with another gradient
    } catch (const Error& e) {
      code = e.code();
      reason = e.message();
    } catch (const std::exception& e) {
      code = "FG-900";
      reason = e.what();
    }
    if (!code.empty()) {
      count_failure(state_, code, reason);
      if (state_.options.fullgraph) throw CompileError(code, reason);
      return;
    }
    const std::lock_guard<std::mutex> lock(state_.mutex);
    state_.back_off.succeeded();
    if (generation != exec::generation_of(state_.executors)) return;
    if (!state_.options.caching) state_.entries.clear();  // kept for last_traces alone
    while (!state_.entries.empty() && state_.entries.size() >= state_.options.max_entries)
      state_.entries.pop_back();
    state_.entries.insert(state_.entries.begin(), std::move(entry_));
  }

 private:
  void plant() {
    const std::lock_guard<std::mutex> lock(state_.mutex);
    entry_->last_used = ++state_.clock;
    run::BranchTree::plant(entry_, beside_.get(), entry_->places());
  }

  void compile(const detail::Results& results) {
    const auto start = Clock::now();
    entry_->result_lengths = results.lengths;
    const record::Recording recording = [&] {
      const PositionScope here(state_);
      const bool one = results.tensors.size() == 1 && results.lengths.empty();
      return recorder_.finish(results.tensors, one ? "$0" : "");
    }();
    if (recording.refusal) throw *recording.refusal;
    const run::Modes after = run::Modes::now();
    if (!(after == entry_->modes))
      throw Refusal("FG-210",
                    "the call changes a mode for its caller: " + after.difference(entry_->modes));
    const ir::Trace& t = *recording.trace;
    if (t.inputs.size() - recording.externals.size() != entry_->distinct.size())
      throw InternalError("recorded inputs do not match the arguments");

    std::vector<const at::Tensor*> all;
    for (const at::Tensor& x : held_) all.push_back(&x);
    for (const record::External& e : recording.externals) {
      const auto of =
          e.grad_of < 0 ? t.inputs.end() : std::find(t.inputs.begin(), t.inputs.end(), e.grad_of);
      if (of == t.inputs.end())
        throw Refusal(
            "FG-205",
            "the function uses a tensor (" + t.value(e.value).name + ", " +
                run::TensorGuard(e.tensor).describe() +
                ") that is not an argument and was not made in the call; pass captured and global "
                "tensors as arguments");
      entry_->grad_inputs.push_back({static_cast<std::size_t>(of - t.inputs.begin())});
      entry_->tensors.emplace_back(e.tensor);
      all.push_back(&e.tensor);
    }
    entry_->touches_grad = !entry_->grad_inputs.empty() ||
                           std::any_of(t.binds.begin(), t.binds.end(),
                                       [](const ir::Bind& b) { return b.op == prims::set_grad(); });

    passes::PipelineOptions options;
    options.reinplace = state_.options.reinplace;
    options.claim = exec::claimer(state_.executors);
    options.shared = recording.shared;
    options.views = recording.views;
    passes::Lowered lowered = passes::run_pipeline(recording.trace, options);
    entry_->aliases = run::AliasGuard(all, passes::inputs_whose_views_matter(*recording.trace));
    entry_->check_aliases =
        entry_->aliases.any() || lowered.functional->epilogue < lowered.functional->binds.size();
    entry_->program = std::make_shared<run::Compiled>(std::move(lowered));
    entry_->compile_milliseconds = milliseconds_since(start);
  }

  JitFunction::State& state_;
  const api::Given& given_;
  std::shared_ptr<api::Entry> beside_;  // that was left because of the data
  std::shared_ptr<api::Entry> entry_;
  record::Recorder recorder_;
  std::vector<at::Tensor> held_;
};

// The function as it stands; users' gradient rules hold.
void run_eagerly(const JitFunction::State& s, detail::Body body, void* context,
                 detail::Results& results) {
  const PositionScope here(s);
  const record::UnderRules rules(&position);
  body(context, results);
}

void count_hit(JitFunction::State& s, const std::shared_ptr<api::Entry>& entry) {
  const std::lock_guard<std::mutex> lock(s.mutex);
  ++s.hits;
  ++entry->hits;
  entry->last_used = ++s.clock;
  if (s.entries.empty() || s.entries.front() == entry) return;
  const auto at = std::find(s.entries.begin(), s.entries.end(), entry);
  if (at != s.entries.end()) std::rotate(s.entries.begin(), at, at + 1);
}

// Serves the call by a compiled program; false if none may. Then `left` is where the data took
// another path, null if they did not.
bool serve(JitFunction::State& s, const api::Given& given, const run::Modes& now, detail::Body body,
           void* context, detail::Results& results, std::shared_ptr<api::Entry>& left) {
  std::string error;
  std::shared_ptr<api::Entry> entry;
  {
    api::Serving serving(s, given, now, results.tensors);
    const auto ended = serving.run();
    entry = serving.entry();
    switch (ended) {
      case api::Serving::Ended::Served:
        results.lengths = entry->result_lengths;
        count_hit(s, entry);
        return true;
      case api::Serving::Ended::ExecutorFailed:
        throw exec::ExecutorError(*serving.executor_failure());
      case api::Serving::Ended::Unserved:
        left = std::static_pointer_cast<api::Entry>(serving.left());
        return false;
      case api::Serving::Ended::Raised:
        if (serving.wrote()) throw std::runtime_error(serving.error());
        error = serving.error();
    }
  }
  // The function itself raises the same, in its own words; if it does not, the program is at fault
  // and goes.
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    ++s.misses;
  }
  results = {};
  run_eagerly(s, body, context, results);
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.fall_back("FG-208", "the compiled program raised where eager did not: " + error);
  std::erase(s.entries, entry);
  return true;
}

}  // namespace

void JitFunction::State::follow_executors() {
  const std::lock_guard<std::mutex> lock(mutex);
  seen_generation = exec::generation();
  const std::uint64_t now = exec::generation_of(executors);
  if (now == executors_generation) return;
  executors_generation = now;
  entries.clear();
  back_off.clear();
}

void JitFunction::State::fall_back(const std::string& code, const std::string& reason) {
  for (Fallback& f : fallbacks) {
    if (f.code == code && f.reason == reason) {
      ++f.count;
      return;
    }
  }
  if (fallbacks.size() < 1000) fallbacks.push_back({code, reason, 1});
}

JitFunction::JitFunction(Options options, const std::source_location& where)
    : state_(std::make_shared<State>()) {
  static std::once_flag installed;
  std::call_once(installed, record::install);
  state_->name = name_from(options, where);
  for (const std::string& name : options.executors) {
    state_->executors.push_back(exec::find_executor(name));
    if (state_->executors.back() == nullptr)
      throw std::invalid_argument("FG-401: there is no executor '" + name + "'");
  }
  if (options.executors.empty()) state_->executors = exec::default_executors();
  state_->executors = exec::completed(std::move(state_->executors));
  state_->follow_executors();
  state_->options = std::move(options);
  state_->file = where.file_name();
  state_->line = static_cast<int>(where.line());
}

void JitFunction::call(const detail::Arguments& arguments, detail::Body body, void* context,
                       detail::Results& results) const {
  State& s = *state_;
  // Inside a recording of another function this call is part of it.
  if (record::recording()) return body(context, results);
  if (exec::generation() != s.seen_generation) s.follow_executors();
  std::string code, reason = run::unsupported_mode();
  if (!reason.empty()) code = "FG-207";
  const api::Given given(arguments);
  for (const at::Tensor* t : given.tensors) {
    if (!code.empty() || can_be_guarded(*t)) continue;
    code = "FG-110";
    reason = "an argument is a tensor of a kind that is not compiled yet (" + t->toString() +
             "); supported are strided, dense tensors";
  }
  const run::Modes now = run::Modes::now();
  std::shared_ptr<api::Entry> left;
  if (code.empty() && s.options.caching && serve(s, given, now, body, context, results, left))
    return;
  bool skipped = false;
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    ++s.misses;
    if (code.empty() && s.back_off.passes()) {
      skipped = true;
      s.fall_back("FG-209", "run as it stands: the last " + std::to_string(s.back_off.failures()) +
                                " recordings gave no program");
    }
    if (code.empty() && !skipped && left) {
      const auto room = run::BranchTree::room_beside(*left, s.options.max_branches);
      reason = room.refusal;
      if (!reason.empty()) code = "FG-213";
      if (room.goes) std::erase(s.entries, std::static_pointer_cast<api::Entry>(room.goes));
    }
    if (!code.empty()) s.fall_back(code, reason);
    if (code.empty() && !skipped && !s.entries.empty() && s.options.caching &&
        s.recompiles.size() < 1000) {
      const std::string why = s.entries.front()->explain_failure(given, now);
      s.recompiles.push_back(why.empty() ? "data took another path" : why);
    }
    std::erase_if(s.entries, [](const auto& e) { return e->program->stale(); });
  }
  if (!code.empty() && s.options.fullgraph) throw CompileError(code, reason);
  if (!code.empty() || skipped) return run_eagerly(s, body, context, results);
  RecordedCall(s, given, now, std::move(left)).run(body, context, results);
}

}  // namespace fulgurite
