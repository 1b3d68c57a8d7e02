#include "passes/simplify.h"

#include <ATen/core/Tensor.h>

#include <sstream>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/text.h"
#include "ops/cards.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/transformed.h"

namespace fulgurite::passes {
namespace {

using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Trace;
using ir::TracePtr;
using ir::ValueId;
using ir::ValueList;

class Simplifier {
 public:
  explicit Simplifier(const Trace& t) : t_(t), binds_(t.binds), replaced_(t.values.size()) {
    for (size_t i = 0; i < replaced_.size(); ++i) replaced_[i] = static_cast<ValueId>(i);
    leaves_.assign(t.values.size(), false);
    written_.assign(t.values.size(), false);
    for (ValueId id : t.outputs)
      if (id != kNoValue) leaves_[id] = true;
    for (ValueId id : t.saved)
      if (id != kNoValue) leaves_[id] = true;
    for (size_t i = t.epilogue; i < t.binds.size(); ++i)
      for_each_arg(t.binds[i], [&](ValueId id) { leaves_[id] = true; });
    // What may be the memory of something that leaves must be memory of its own.
    for (size_t i = t.epilogue; i-- > 0;) {
      if (ops::returns_fresh_memory(t.binds[i].op)) continue;
      bool leaves = false;
      for_each_result(t.binds[i], [&](ValueId id) { leaves = leaves || leaves_[id]; });
      if (leaves) for_each_arg(t.binds[i], [&](ValueId id) { leaves_[id] = true; });
    }
    given_.assign(t.values.size(), false);
    for (ValueId id : t.inputs) given_[id] = true;
    for (size_t i = 0; i < t.epilogue; ++i) {
      if (ops::returns_fresh_memory(t.binds[i].op)) continue;
      bool given = false;
      for_each_arg(t.binds[i], [&](ValueId id) { given = given || given_[id]; });
      if (given) for_each_result(t.binds[i], [&](ValueId id) { given_[id] = true; });
    }
    transformed_ = perhaps_transformed(t, t.epilogue);
    for (size_t i = 0; i < t.epilogue; ++i)
      for (size_t a : ops::written_arguments(t.binds[i]))
        ir::for_each_value(t.binds[i].args[a], [&](ValueId id) { written_[id] = true; });
  }

  TracePtr run(bool only_dead_code) {
    std::vector<bool> keep(t_.binds.size(), true);
    if (!only_dead_code) merge(keep);
    sweep(keep);
    bool same = !any_skipped_;
    for (bool k : keep) same = same && k;
    for (size_t i = 0; i < replaced_.size(); ++i)
      same = same && replaced_[i] == static_cast<ValueId>(i);
    if (same) return nullptr;
    ir::TraceBuilder b(t_, t_.stage);
    for (size_t i = 0; i < t_.binds.size(); ++i) {
      if (i == t_.epilogue) b.begin_epilogue();
      if (!keep[i]) continue;
      Bind copy = binds_[i];
      for (Arg& a : copy.args) a = mapped(a);
      b.add_bind(std::move(copy));
    }
    for (ir::Region& r : b.trace().regions) {
      for (Arg& a : r.args) a = mapped(a);
      for (ir::Result& x : r.results) x = mapped(x);
    }
    if (t_.epilogue == t_.binds.size()) b.begin_epilogue();
    return b.finish();
  }

 private:
  template <class T>
  T mapped(const T& a) const {
    T copy = a;
    if (auto* id = std::get_if<ValueId>(&copy))
      if (*id != kNoValue) *id = replaced_[*id];
    if (auto* list = std::get_if<ValueList>(&copy))
      for (ValueId& id : *list)
        if (id != kNoValue) id = replaced_[id];
    return copy;
  }

  // The value that the bind's only result equals, kNoValue if it computes something.
  ValueId no_op(const Bind& b) const {
    if (b.results.size() != 1 || !std::holds_alternative<ValueId>(b.results[0]) || b.args.empty() ||
        !std::holds_alternative<ValueId>(b.args[0]))
      return kNoValue;
    const auto from = std::get<ValueId>(b.args[0]);
    const auto to = std::get<ValueId>(b.results[0]);
    if (from == kNoValue || to == kNoValue || leaves_[to] || !t_.value(from).is_tensor() ||
        !t_.value(to).is_tensor())
      return kNoValue;
    const auto& a = t_.value(from).tensor();
    const auto& r = t_.value(to).tensor();
    const bool same =
        a.dtype == r.dtype && a.sizes == r.sizes && a.strides == r.strides && a.device == r.device;
    if (!same) return kNoValue;
    // Second gradients stop at it. (Values of a backward trace do not say whether they have one.)
    if (ops::cuts_gradient(b.op) &&
        (t_.kind == ir::TraceKind::Backward || (a.requires_grad && !r.requires_grad)))
      return kNoValue;
    const ops::Card* card = ops::card_of(b.op);
    if (card != nullptr && (card->traits & ops::kIdentity) != 0) return from;
    if (b.op.name() == "aten::clone" && !written_[to] && !written_[from] && !given_[from] &&
        !transformed_[from])
      return from;
    if (ops::is_view(b.op) && a.is_contiguous() && b.op.ns() == "aten" && !written_[to]) {
      // A view with the geometry of its base, at its start, is the base.
      if (b.op.name() == "aten::view" || b.op.name() == "aten::expand" ||
          b.op.name() == "aten::slice")
        return from;
    }
    return kNoValue;
  }

  // A scatter over what was just written to the same place (`x[i] += v` ends with one) goes into
  // what was there before.
  void skip_overwritten(Bind& b) {
    if (!ops::written_view(b.op)) return;
    const auto base = std::get<ValueId>(b.args[0]);
    if (base == kNoValue || written_[base]) return;
    const auto it = made_by_.find(replaced_[base]);
    if (it == made_by_.end()) return;
    const Bind& first = binds_[it->second];
    if (!(first.op == b.op) || first.args.size() != b.args.size()) return;
    for (size_t i = 2; i < b.args.size(); ++i)
      if (!(mapped(first.args[i]) == mapped(b.args[i]))) return;
    const auto before = std::get<ValueId>(first.args[0]);
    if (before == kNoValue || written_[before] || given_[before]) return;
    b.args[0] = first.args[0];
    any_skipped_ = true;
  }

  void merge(std::vector<bool>& keep) {
    std::unordered_map<std::string, size_t> seen;
    for (size_t i = 0; i < t_.epilogue; ++i) {
      skip_overwritten(binds_[i]);
      const Bind& b = binds_[i];
      for_each_result(b, [&](ValueId id) { made_by_[id] = i; });
      const ValueId equal = no_op(b);
      if (equal != kNoValue) {
        replaced_[std::get<ValueId>(b.results[0])] = replaced_[equal];
        keep[i] = false;
        continue;
      }
      if (!ops::is_pure(b.op)) continue;
      bool mergeable = true;
      for_each_result(b,
                      [&](ValueId id) { mergeable = mergeable && !leaves_[id] && !written_[id]; });
      for_each_arg(b, [&](ValueId id) { mergeable = mergeable && !written_[id]; });
      if (!mergeable) continue;
      auto [it, is_new] = seen.emplace(key(b), i);
      if (is_new) continue;
      const Bind& first = binds_[it->second];
      std::vector<ValueId> from, to;
      for_each_result(b, [&](ValueId id) { from.push_back(id); });
      for_each_result(first, [&](ValueId id) { to.push_back(id); });
      if (from.size() != to.size()) continue;
      bool same_history = true;
      for (size_t k = 0; k < from.size(); ++k)
        same_history = same_history && t_.value(from[k]).type == t_.value(to[k]).type;
      if (!same_history) continue;
      for (size_t k = 0; k < from.size(); ++k) replaced_[from[k]] = to[k];
      keep[i] = false;
    }
  }

  std::string key(const Bind& b) const {
    std::ostringstream out;
    out << b.op.id() << (b.grad_mode ? "+" : "-");
    const auto& arguments = b.op.schema().arguments();
    for (size_t i = 0; i < b.args.size(); ++i) {
      if (const auto* id = std::get_if<ValueId>(&b.args[i])) {
        out << '%' << (*id == kNoValue ? kNoValue : replaced_[*id]);
      } else if (const auto* list = std::get_if<ValueList>(&b.args[i])) {
        for (ValueId e : *list) out << '%' << (e == kNoValue ? kNoValue : replaced_[e]) << ',';
      } else {
        out << ir::constant_text(std::get<c10::IValue>(b.args[i]), arguments[i].real_type());
      }
      out << '|';
    }
    return out.str();
  }

  void sweep(std::vector<bool>& keep) const {
    std::vector<bool> used(t_.values.size(), false);
    auto use = [&](ValueId id) { used[replaced_[id]] = true; };
    for (ValueId id : t_.outputs)
      if (id != kNoValue) use(id);
    for (ValueId id : t_.saved)
      if (id != kNoValue) use(id);
    for (size_t i = t_.binds.size(); i-- > 0;) {
      if (!keep[i]) continue;
      const Bind& b = binds_[i];
      bool needed = i >= t_.epilogue ? ops::has_effect(b.op)
                                     : ops::has_effect(b.op) && !writes_only_dead(b, used);
      for_each_result(b, [&](ValueId id) { needed = needed || used[id]; });
      if (!needed) {
        keep[i] = false;
        continue;
      }
      for_each_arg(b, use);
    }
  }

  // A write into a copy made for it, which nobody reads afterwards.
  bool writes_only_dead(const Bind& b, const std::vector<bool>& used) const {
    if (ops::is_random(b.op)) return false;
    const auto written = ops::written_arguments(b);
    if (written.empty()) return false;
    bool dead = true;
    for (size_t a : written)
      ir::for_each_value(b.args[a], [&](ValueId id) { dead = dead && !used[id]; });
    return dead && b.op.ns() == "aten";
  }

  const Trace& t_;
  std::vector<Bind> binds_;
  bool any_skipped_ = false;
  std::vector<ValueId> replaced_;
  std::unordered_map<ValueId, size_t> made_by_;
  std::vector<bool> leaves_;  // the caller gets it, or something on its memory
  std::vector<bool> written_;
  std::vector<bool> transformed_;
  std::vector<bool> given_;  // an input, or something on its memory: the caller may change it
};

}  // namespace

TracePtr simplify(const TracePtr& trace) {
  TracePtr next = Simplifier(*trace).run(false);
  return next ? next : trace;
}

TracePtr eliminate_dead_code(const TracePtr& trace) {
  TracePtr next = Simplifier(*trace).run(true);
  return next ? next : trace;
}

}  // namespace fulgurite::passes
