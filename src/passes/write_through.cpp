#include "passes/write_through.h"

#include <ATen/core/Tensor.h>

#include <optional>

#include "ir/builder.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/infer.h"
#include "passes/renaming.h"

namespace fulgurite::passes {
namespace {

using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Trace;
using ir::ValueId;

// A scatter that becomes a write.
struct Write {
  Op view;
  ValueId base, contents, result;
  std::optional<size_t> update;  // the bind that computes the contents from the view, in place then
};

const ValueId* only_result(const Bind& b) {
  return b.results.size() == 1 ? std::get_if<ValueId>(&b.results[0]) : nullptr;
}

bool same_constant(const Arg& a, const Arg& b) {
  const auto* x = std::get_if<c10::IValue>(&a);
  const auto* y = std::get_if<c10::IValue>(&b);
  return x != nullptr && y != nullptr && *x == *y;
}

class WriteThrough {
 public:
  explicit WriteThrough(const Body& body)
      : body_(body),
        t_(*body.trace),
        use_(body),
        made_by_(t_.values.size()),
        names_(t_.values.size()),
        given_out_(t_.values.size(), false) {
    for (const auto* ids : {&t_.outputs, &t_.saved, &body.later})
      for (ValueId id : *ids)
        if (id != kNoValue) given_out_[id] = true;
    for (size_t i = 0; i < t_.binds.size(); ++i)
      for_each_result(t_.binds[i], [&](ValueId id) { made_by_[id] = i; });
  }

  Body run() {
    std::vector<std::optional<Write>> writes(body_.end);
    std::vector<bool> in_place(body_.end, false);
    bool any = false;
    for (size_t i = 0; i < body_.end; ++i) {
      writes[i] = write_of(i);
      if (!writes[i]) continue;
      any = true;
      if (writes[i]->update) in_place[*writes[i]->update] = true;
      // The result lives in this memory from now on.
      use_.untouchable[use_.groups.find(writes[i]->base)] = true;
      unite(writes[i]->base, writes[i]->result);
    }
    if (!any) return body_;
    ir::TraceBuilder b(t_, t_.stage);
    Body out = body_;
    for (size_t i = 0; i < t_.binds.size(); ++i) {
      if (i == t_.epilogue) b.begin_epilogue();
      if (i == body_.end) out.end = b.trace().binds.size();
      Bind copy = names_.of_bind(t_.binds[i]);
      if (i < body_.end && writes[i]) {
        if (!writes[i]->update) emit_copy(b, *writes[i], copy);
        continue;
      }
      if (i < body_.end && in_place[i]) copy.op = *ops::in_place_variant(copy.op);
      b.add_bind(std::move(copy));
    }
    if (t_.epilogue == t_.binds.size()) b.begin_epilogue();
    if (body_.end == t_.binds.size()) out.end = b.trace().binds.size();
    names_.apply_to_regions(b);
    out.trace = b.finish();
    return out;
  }

 private:
  std::optional<Write> write_of(size_t i) {
    const Bind& b = t_.binds[i];
    const auto view = ops::written_view(b.op);
    const ValueId* result = only_result(b);
    if (!view || result == nullptr || *result == kNoValue) return {};
    const auto* base = std::get_if<ValueId>(&b.args[0]);
    const auto* contents = std::get_if<ValueId>(&b.args[1]);
    if (base == nullptr || contents == nullptr || !same_layout(t_.value(*base), t_.value(*result)))
      return {};
    for (size_t a = 2; a < b.args.size(); ++a)
      if (!std::holds_alternative<c10::IValue>(b.args[a])) return {};
    if (!has_own_elements(t_.value(*base).tensor()) || !use_.dies_in(i, *base)) return {};
    if (given_out_[*result] && use_.is_given(*base)) return {};  // both keep their names
    Write write{*view, *base, *contents, *result, {}};
    write.update = update_of(i, write);
    return write;
  }

  // The bind that makes the contents out of the view, if it can run in place on it: nobody else
  // wants its result, and nobody looks at the memory between it and the scatter.
  std::optional<size_t> update_of(size_t scatter, const Write& w) {
    const size_t i = made_by_[w.contents];
    if (t_.value(w.contents).kind != ir::ValueKind::Result || i >= body_.end) return {};
    if (use_.is_given(w.base) && i < t_.epilogue) return {};
    const Bind& b = t_.binds[i];
    const auto* target = b.args.empty() ? nullptr : std::get_if<ValueId>(&b.args[0]);
    if (only_result(b) == nullptr || target == nullptr || *target == kNoValue ||
        !ops::in_place_variant(b.op) || !same_layout(t_.value(*target), t_.value(w.contents)) ||
        !is_view_of(*target, scatter, w) || !use_.dies_in(scatter, w.contents))
      return {};
    const ValueId memory = use_.groups.find(w.base), made = use_.groups.find(w.contents);
    size_t uses = 0;
    for_each_arg(b, [&](ValueId id) { uses += use_.groups.find(id) == memory ? 1 : 0; });
    if (uses != 1) return {};
    for (size_t k = i + 1; k < scatter; ++k) {
      bool looks = false;
      for_each_arg(t_.binds[k], [&](ValueId id) {
        looks = looks || use_.groups.find(id) == memory || use_.groups.find(id) == made;
      });
      if (looks) return {};
    }
    return i;
  }

  bool is_view_of(ValueId id, size_t scatter, const Write& w) const {
    if (t_.value(id).kind != ir::ValueKind::Result) return false;
    const Bind& b = t_.binds[made_by_[id]];
    const Bind& s = t_.binds[scatter];
    if (!(b.op == w.view) || b.args.size() + 1 != s.args.size() || !(b.args[0] == Arg(w.base)))
      return false;
    for (size_t a = 1; a < b.args.size(); ++a)
      if (!same_constant(b.args[a], s.args[a + 1])) return false;
    return true;
  }

  // `scatter`: with arguments of the new trace.
  void emit_copy(ir::TraceBuilder& b, const Write& w, const Bind& scatter) const {
    Bind view = scatter;
    view.op = w.view;
    view.args.erase(view.args.begin() + 1);
    ir::Value seen = b.value(std::get<ValueId>(scatter.args[0]));
    seen.name.clear();
    seen.kind = ir::ValueKind::Result;
    seen.type = infer_types(b.trace(), view, /*on_meta=*/true).at(0);
    const ValueId target = b.add_value(seen);
    view.results = {target};
    b.add_bind(std::move(view));
    Bind copy = scatter;
    copy.op = Op::get("aten::copy_");
    copy.args = {Arg(target), scatter.args[1], Arg(c10::IValue(false))};
    seen.name.clear();
    copy.results = {b.add_value(seen)};
    b.add_bind(std::move(copy));
  }

  // One value from now on. Others refer to what is given out by number: its number stays.
  void unite(ValueId base, ValueId result) {
    const ValueId root = names_.of(base);
    if (given_out_[result]) {
      names_.rename(root, result);
    } else {
      names_.rename(result, root);
    }
  }

  const Body& body_;
  const Trace& t_;
  MemoryUse use_;
  std::vector<size_t> made_by_;
  Renaming names_;
  std::vector<bool> given_out_;
};

}  // namespace

Body write_through(const Body& body) { return WriteThrough(body).run(); }

}  // namespace fulgurite::passes
