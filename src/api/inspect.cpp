// What can be asked of a jitted C++ function.
#include <cstdio>
#include <ostream>

#include "api/state.h"
#include "ir/text.h"

namespace fulgurite {
namespace {

std::shared_ptr<api::Entry> latest(const JitFunction& f) {
  JitFunction::State& s = f.state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (!s.entries.empty()) return s.entries.front();
  std::string why = " (not called yet)";
  if (!s.fallbacks.empty())
    why = "; the last reason: " + s.fallbacks.back().code + ": " + s.fallbacks.back().reason;
  throw std::runtime_error("FG-014: nothing is compiled for this function" + why);
}

std::vector<Trace> stages_of(const std::vector<passes::Stage>& stages) {
  std::vector<Trace> out;
  for (const passes::Stage& s : stages) out.emplace_back(s.trace, s.name, s.milliseconds);
  return out;
}

std::string with_two_decimals(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

}  // namespace

std::size_t Trace::size() const { return trace_->binds.size(); }

std::vector<std::string> Trace::ops() const {
  std::vector<std::string> ids;
  for (const ir::Bind& b : trace_->binds) ids.push_back(b.op.id());
  return ids;
}

std::string Trace::python(int depth) const {
  ir::PrintOptions options;
  options.depth = depth;
  return ir::print_python(*trace_, options);
}

std::string Trace::cpp() const { return ir::print_cpp(*trace_); }

std::ostream& operator<<(std::ostream& out, const Trace& trace) { return out << trace.python(); }

std::vector<Trace> last_traces(const JitFunction& f) {
  return stages_of(latest(f)->program->parts().stages);
}

std::vector<Trace> last_backward_traces(const JitFunction& f) {
  return stages_of(latest(f)->program->parts().backward_stages);
}

std::string last_prologue(const JitFunction& f) {
  std::string text;
  for (const std::string& line : latest(f)->guard_lines()) text += line + "\n";
  return text;
}

std::uint64_t cache_hits(const JitFunction& f) {
  const std::lock_guard<std::mutex> lock(f.state().mutex);
  return f.state().hits;
}

std::uint64_t cache_misses(const JitFunction& f) {
  const std::lock_guard<std::mutex> lock(f.state().mutex);
  return f.state().misses;
}

std::vector<Fallback> fallbacks(const JitFunction& f) {
  const std::lock_guard<std::mutex> lock(f.state().mutex);
  return f.state().fallbacks;
}

std::vector<std::string> recompiles(const JitFunction& f) {
  const std::lock_guard<std::mutex> lock(f.state().mutex);
  return f.state().recompiles;
}

std::string explain(const JitFunction& f) {
  JitFunction::State& s = f.state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  std::string text = s.name + ": " + std::to_string(s.entries.size()) + " programs, " +
                     std::to_string(s.hits) + " hits, " + std::to_string(s.misses) + " misses\n";
  for (std::size_t i = 0; i < s.entries.size(); ++i) {
    const api::Entry& e = *s.entries[i];
    const passes::Lowered& parts = e.program->parts();
    text += "program " + std::to_string(i) + ": " +
            std::to_string(parts.stages.front().trace->binds.size()) + " operators recorded, " +
            std::to_string(parts.forward->binds.size()) + " forward";
    size_t backward = 0;
    for (const auto& part : parts.parts) backward += part.backward->binds.size();
    if (!parts.parts.empty()) text += ", " + std::to_string(backward) + " backward";
    text += ", " + std::to_string(e.guard_lines().size()) + " guards, " + std::to_string(e.hits) +
            " calls, recorded in " + with_two_decimals(e.record_milliseconds) +
            " ms, compiled in " + with_two_decimals(e.compile_milliseconds) + " ms\n";
    if (!e.tree()) continue;
    for (const run::DecisionText& d : run::BranchTree::describe(e))
      text += "  where " + d.what + (d.place.empty() ? "" : " (" + d.place + ")") + " is " +
              d.answer + "\n";
  }
  for (const std::string& why : s.recompiles) text += "recorded again: " + why + "\n";
  for (const Fallback& b : s.fallbacks)
    text += "not compiled, " + std::to_string(b.count) + "x: " + b.code + ": " + b.reason + "\n";
  return text;
}

}  // namespace fulgurite
