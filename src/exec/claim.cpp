#include "exec/claim.h"

#include <algorithm>

#include "exec/groups.h"
#include "exec/offers.h"
#include "exec/operators.h"
#include "exec/transform.h"
#include "ir/builder.h"
#include "ir/regions.h"
#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::exec {
namespace {

using ir::Bind;
using ir::kNoValue;
using ir::Region;
using ir::Trace;
using ir::TracePtr;
using ir::ValueId;
using passes::Claim;
using passes::Claimed;

constexpr size_t kAten = static_cast<size_t>(-1);

// Both write and alias the same of their arguments.
bool same_aliasing(const ir::Op& a, const ir::Op& b) {
  auto same = [](const c10::Argument& x, const c10::Argument& y) {
    const auto *i = x.alias_info(), *j = y.alias_info();
    return i == nullptr || j == nullptr ? i == j : *i == *j;
  };
  const auto &x = a.schema(), &y = b.schema();
  for (size_t i = 0; i < x.arguments().size() && i < y.arguments().size(); ++i)
    if (!same(x.arguments()[i], y.arguments()[i])) return false;
  for (size_t i = 0; i < x.returns().size() && i < y.returns().size(); ++i)
    if (!same(x.returns()[i], y.returns()[i])) return false;
  return true;
}

// A bind on its way: who has it, or which executor may fuse it.
struct Pending {
  Bind bind;
  Claim claim;
  size_t fuser = kAten;  // index into the list; kAten: it is settled
};

class ClaimPass {
 public:
  ClaimPass(const ExecutorList& list, const Trace& trace, const std::vector<ValueId>& keep)
      : list_(list), t_(trace), keep_(keep), builder_(trace, "claim") {}

  Claimed run() {
    claim_core();
    for (size_t k = 0; k < list_.size(); ++k)
      if (const Fuse fuse = list_[k]->fuse()) fuse_groups(k, fuse);
    for (Pending& p : pending_) emit(p);
    builder_.begin_epilogue();
    pending_.clear();
    for (size_t i = t_.epilogue; i < t_.binds.size(); ++i) offer_in_epilogue(t_.binds[i]);
    for (Pending& p : pending_) emit(p);
    result_.trace = builder_.finish();
    return std::move(result_);
  }

 private:
  // ---- binds and regions ----
  void claim_core() {
    const std::vector<ir::RegionSpan> spans = ir::region_spans(t_);
    find_readers(spans);
    for (size_t i = 0; i < t_.epilogue;) {
      if (const size_t next = claim_region(i, spans); next > i) {
        i = next;
        continue;
      }
      offer(t_.binds[i], 0, {}, {});
      ++i;
    }
  }

  // For every value the last bind that reads it; what leaves the core is read at the end.
  void find_readers(const std::vector<ir::RegionSpan>& spans) {
    if (spans.empty()) return;
    last_reader_.assign(t_.values.size(), 0);
    for (size_t i = 0; i < t_.binds.size(); ++i)
      for_each_arg(t_.binds[i], [&](ValueId id) { last_reader_[id] = i; });
    for (const auto* list : {&t_.outputs, &t_.saved, &keep_})
      for (ValueId id : *list)
        if (id != kNoValue) last_reader_[id] = t_.binds.size();
  }

  // The outermost region that starts at bind `first` and is taken as a whole; returns the bind
  // after it, or `first`.
  size_t claim_region(size_t first, const std::vector<ir::RegionSpan>& spans) {
    std::vector<int32_t> inner_to_outer;
    for (int32_t r = t_.binds[first].region; r >= 0; r = t_.regions[r].parent)
      if (spans[r].first == first) inner_to_outer.push_back(r);
    for (auto r = inner_to_outer.rbegin(); r != inner_to_outer.rend(); ++r)
      if (claim_whole(t_.regions[*r], spans[*r])) return spans[*r].last;
    return first;
  }

  bool claim_whole(const Region& region, const ir::RegionSpan& span) {
    const Candidate candidate{t_, region.op, region.args, region.results, region.location};
    Declined declined;
    for (const ExecutorPtr& executor : list_) {
      if (executor->takes_everything()) break;
      const auto offer = offer_of(*executor, region.op);
      if (offer == nullptr) continue;
      std::string why = why_not_whole(region, span);
      if (why.empty()) {
        const Verdict verdict = ask(*executor, offer->checker, candidate);
        if (verdict.takes) {
          Bind bind{region.op,       region.args,   region.results,
                    region.location, region.parent, t_.binds[span.first].grad_mode};
          if (take(*executor, *offer, bind, declined, span.count, {}, &why)) return true;
        } else {
          why = verdict.reason.empty() ? "its checker declined" : verdict.reason;
        }
      }
      declined.emplace_back(executor->name(), why);
    }
    if (!declined.empty())
      result_.claims.push_back({region.op.id(), "", place(t_, region.location), 0, declined});
    return false;
  }

  // Why the binds of the region cannot be replaced by one; "" if they can.
  std::string why_not_whole(const Region& region, const ir::RegionSpan& span) const {
    if (!span.contiguous() || span.last > t_.epilogue) return "its parts are not together any more";
    std::vector<ValueId> given, results;
    for (const ir::Arg& a : region.args)
      ir::for_each_value(a, [&](ValueId id) { given.push_back(id); });
    for (const ir::Result& r : region.results)
      ir::for_each_value(r, [&](ValueId id) { results.push_back(id); });
    auto among = [](const std::vector<ValueId>& list, ValueId id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    size_t made = 0;
    for (size_t i = span.first; i < span.last; ++i) {
      const Bind& b = t_.binds[i];
      if (ops::has_effect(b.op)) return "it reads numbers out of tensors";
      if (b.grad_mode != t_.binds[span.first].grad_mode) return "grad mode changes inside it";
      std::string why;
      for_each_result(b, [&](ValueId id) {
        if (among(results, id)) {
          ++made;
        } else if (last_reader_[id] >= span.last) {
          why = "its inner value " + t_.value(id).name + " is used outside it";
        }
      });
      if (!why.empty()) return why;
    }
    return made == results.size() ? "" : "it returns a tensor that it did not make";
  }

  // ---- one bind ----
  std::shared_ptr<const Offer> offer_of(const Executor& executor, const ir::Op& op) const {
    return executor.is_active() ? executor.offer(op) : nullptr;
  }

  // Finds an executor for `bind`, from number `first` of the list on. `open` are the transforms
  // that it came out of: they are not asked again.
  void offer(const Bind& bind, size_t first, Declined declined,
             const std::vector<const Offer*>& open) {
    const Candidate candidate{builder_.trace(), bind.op, bind.args, bind.results, bind.location};
    const OperatorPtr own = find_operator(bind.op);
    if (own != nullptr) check_meta(own->executor, bind.op, bind.args, candidate);
    for (size_t k = first; k < list_.size(); ++k) {
      const Executor& executor = *list_[k];
      if (executor.takes_everything()) break;
      if (!executor.is_active()) continue;
      if (own != nullptr && own->executor == executor.name())
        return settle(bind, executor.name(), bind, declined, 1);
      if (const auto offered = executor.offer(bind.op)) {
        if (std::find(open.begin(), open.end(), offered.get()) != open.end()) continue;
        const Verdict verdict = ask(executor, offered->checker, candidate);
        std::string why = verdict.reason.empty() ? "its checker declined" : verdict.reason;
        if (verdict.takes && take(executor, *offered, bind, declined, 1, open, &why)) return;
        declined.emplace_back(executor.name(), why);
      } else if (const auto supported = executor.supports(bind.op)) {
        if (reads_numbers(bind)) {
          declined.emplace_back(executor.name(), "it takes or gives a number read out of a tensor");
          continue;
        }
        const Verdict verdict = ask(executor, *supported, candidate);
        if (verdict.takes) {
          pending_.push_back({bind, claim_of(bind, executor.name(), declined, 1), k});
          return;
        }
        declined.emplace_back(executor.name(),
                              verdict.reason.empty() ? "its checker declined" : verdict.reason);
      }
    }
    settle(bind, "aten", bind, declined, 1);
  }

  // Puts what the offer says in the place of `bind`. False, with the reason, if that cannot be.
  bool take(const Executor& executor, const Offer& offer, const Bind& bind,
            const Declined& declined, size_t operators, std::vector<const Offer*> open,
            std::string* why) {
    const Candidate candidate{builder_.trace(), bind.op, bind.args, bind.results, bind.location};
    if (offer.as) {
      auto args = arguments_for(*offer.as, candidate, why);
      if (!args) return false;
      check_meta(executor.name(), *offer.as, *args, candidate);
      Bind own{*offer.as,     std::move(*args), bind.results,
               bind.location, bind.region,      bind.grad_mode};
      settle(bind, executor.name(), std::move(own), declined, operators);
      return true;
    }
    if (reads_numbers(bind)) {
      *why = "it takes or gives a number read out of a tensor";
      return false;
    }
    open.push_back(&offer);
    splice(expand(executor.name(), *offer.transform, candidate), bind, open);
    result_.claims.push_back(claim_of(bind, executor.name(), declined, operators));
    return true;
  }

  // The binds of a transform, with the program's values, each offered in its turn.
  void splice(const Expansion& e, const Bind& bind, const std::vector<const Offer*>& open) {
    static const ir::Op clone = ir::Op::get("aten::clone");
    const Trace& x = *e.trace;
    std::vector<ValueId> ids(x.values.size(), kNoValue);
    for (size_t k = 0; k < e.inputs.size(); ++k) ids[x.inputs[k]] = e.inputs[k];
    // Results that the transform made, as the program has them, are the program's values at once.
    std::vector<bool> direct(e.results.size(), false);
    for (size_t k = 0; k < e.results.size(); ++k) {
      const ValueId out = x.outputs[k];
      if (e.results[k] == kNoValue || x.value(out).kind != ir::ValueKind::Result ||
          ids[out] != kNoValue ||
          x.value(out).tensor().strides != builder_.value(e.results[k]).tensor().strides)
        continue;
      ids[out] = e.results[k];
      direct[k] = true;
    }
    for (size_t id = 0; id < x.values.size(); ++id) {
      if (ids[id] != kNoValue) continue;
      const ir::Value& v = x.values[id];
      if (v.kind == ir::ValueKind::Constant) {
        ids[id] = builder_.add_constant(v.constant);
      } else {
        ir::Value copy;
        copy.type = v.type;
        ids[id] = builder_.add_value(std::move(copy));
      }
    }
    auto mapped = [&](auto item) {
      if (auto* id = std::get_if<ValueId>(&item); id != nullptr && *id != kNoValue) *id = ids[*id];
      if (auto* list = std::get_if<ir::ValueList>(&item))
        for (ValueId& id : *list)
          if (id != kNoValue) id = ids[id];
      return item;
    };
    for (const Bind& b : x.binds) {
      Bind copy{b.op, {}, {}, bind.location, bind.region, bind.grad_mode};
      for (const ir::Arg& a : b.args) copy.args.push_back(mapped(a));
      for (const ir::Result& r : b.results) copy.results.push_back(mapped(r));
      offer(copy, 0, {}, open);
    }
    for (size_t k = 0; k < e.results.size(); ++k) {
      if (direct[k] || e.results[k] == kNoValue) continue;
      const ir::TensorType& type = builder_.value(e.results[k]).tensor();
      Bind last{clone,         {ids[x.outputs[k]], c10::IValue()}, {}, bind.location, bind.region,
                bind.grad_mode};
      if (x.value(x.outputs[k]).tensor().strides != type.strides)
        last = Bind{prims::conform(),
                    {ids[x.outputs[k]], c10::IValue(static_cast<int64_t>(type.dtype)),
                     c10::IValue(std::vector<int64_t>(type.strides.begin(), type.strides.end()))},
                    {},
                    bind.location,
                    bind.region,
                    bind.grad_mode};
      last.results.emplace_back(e.results[k]);
      pending_.push_back({std::move(last), {}, kAten});
    }
  }

  // What the caller can see: an operator may be replaced by one that writes and aliases the same.
  void offer_in_epilogue(const Bind& bind) {
    const Candidate candidate{t_, bind.op, bind.args, bind.results, bind.location};
    Declined declined;
    for (const ExecutorPtr& executor : list_) {
      if (executor->takes_everything()) break;
      const auto offered = offer_of(*executor, bind.op);
      if (offered == nullptr) continue;
      std::string why = "it must alias or write the caller's tensors as " + bind.op.id() + " does";
      if (offered->as && same_aliasing(*offered->as, bind.op)) {
        const Verdict verdict = ask(*executor, offered->checker, candidate);
        why = verdict.reason.empty() ? "its checker declined" : verdict.reason;
        if (verdict.takes && take(*executor, *offered, bind, declined, 1, {}, &why)) return;
      }
      declined.emplace_back(executor->name(), why);
    }
    settle(bind, "aten", bind, declined, 1);
  }

  bool reads_numbers(const Bind& bind) const {
    bool any = false;
    auto look = [&](ValueId id) { any |= !builder_.value(id).is_tensor(); };
    for_each_arg(bind, look);
    for_each_result(bind, look);
    return any;
  }

  // ---- groups ----
  void fuse_groups(size_t k, const Fuse& fuse) {
    Executor& executor = *list_[k];
    std::vector<const Bind*> binds;
    std::vector<bool> member;
    for (const Pending& p : pending_) {
      binds.push_back(&p.bind);
      member.push_back(p.fuser == k);
    }
    if (std::find(member.begin(), member.end(), true) == member.end()) return;
    std::vector<Pending> before = std::move(pending_);
    pending_.clear();
    const std::vector<Piece> pieces = group(binds, builder_.trace().values.size(), member);
    for (size_t n = 0; n < pieces.size(); ++n) {
      if (!pieces[n].is_group) {
        for (size_t i : pieces[n].binds) pending_.push_back(std::move(before[i]));
        continue;
      }
      std::vector<const Bind*> parts;
      for (size_t i : pieces[n].binds) parts.push_back(&before[i].bind);
      const GroupTrace g = extract(parts, builder_.trace(), read_after(pieces, n, before));
      std::string why;
      if (const ImplementationPtr kernel = make_kernel(executor, fuse, g, &why)) {
        settle_group(executor, kernel, g, pieces[n], before);
        continue;
      }
      for (size_t i : pieces[n].binds) {
        Pending& p = before[i];
        p.claim.declined.emplace_back(executor.name(), why.empty() ? "it declined the group" : why);
        const Bind bind = p.bind;
        offer(bind, k + 1, p.claim.declined, {});
      }
    }
  }

  std::vector<bool> read_after(const std::vector<Piece>& pieces, size_t n,
                               const std::vector<Pending>& all) {
    std::vector<bool> read(builder_.trace().values.size(), false);
    auto mark = [&](ValueId id) { read[id] = true; };
    for (size_t m = n + 1; m < pieces.size(); ++m)
      for (size_t i : pieces[m].binds) for_each_arg(all[i].bind, mark);
    for (size_t i = t_.epilogue; i < t_.binds.size(); ++i) for_each_arg(t_.binds[i], mark);
    for (const auto* list : {&t_.outputs, &t_.saved, &keep_})
      for (ValueId id : *list)
        if (id != kNoValue) mark(id);
    return read;
  }

  static ImplementationPtr make_kernel(const Executor& executor, const Fuse& fuse,
                                       const GroupTrace& g, std::string* why) {
    try {
      return fuse(g.trace, *why);
    } catch (const std::exception& e) {
      throw ExecutorError("FG-415",
                          "executor " + executor.name() + ": fuse raised " + e.what() +
                              " on a group of " + std::to_string(g.trace->binds.size()) +
                              " operators; it returns a kernel, or None to decline",
                          std::current_exception());
    }
  }

  void settle_group(Executor& executor, const ImplementationPtr& kernel, const GroupTrace& g,
                    const Piece& piece, const std::vector<Pending>& all) {
    const Bind& first = all[piece.binds.front()].bind;
    result_.kept.push_back(kernel);
    Bind bind{fused_operator(executor), {}, {}, first.location, -1, first.grad_mode};
    bind.args.emplace_back(ir::ValueList(g.inputs.begin(), g.inputs.end()));
    bind.args.emplace_back(c10::IValue(add_kernel(kernel, g.trace)));
    bind.results.emplace_back(ir::ValueList(g.outputs.begin(), g.outputs.end()));
    Claim claim;
    for (size_t i : piece.binds) {
      claim.op += (claim.op.empty() ? "" : " + ") + all[i].bind.op.id();
      claim.declined.insert(claim.declined.end(), all[i].claim.declined.begin(),
                            all[i].claim.declined.end());
    }
    claim.executor = executor.name();
    claim.place = place(t_, first.location);
    claim.operators = piece.binds.size();
    pending_.push_back({std::move(bind), std::move(claim), kAten});
  }

  // ---- the result ----
  Claim claim_of(const Bind& bind, const std::string& executor, const Declined& declined,
                 size_t operators) const {
    return {bind.op.id(), executor, place(t_, bind.location), operators, declined};
  }

  void settle(const Bind& original, const std::string& executor, Bind own, const Declined& declined,
              size_t operators) {
    pending_.push_back({std::move(own), claim_of(original, executor, declined, operators), kAten});
  }

  void emit(Pending& p) {
    builder_.add_bind(std::move(p.bind));
    if (!p.claim.op.empty()) result_.claims.push_back(std::move(p.claim));
  }

  const ExecutorList& list_;
  const Trace& t_;
  const std::vector<ValueId>& keep_;
  ir::TraceBuilder builder_;
  std::vector<size_t> last_reader_;
  std::vector<Pending> pending_;
  Claimed result_;
};

}  // namespace

std::string place(const Trace& trace, int32_t location) {
  if (location < 0) return "";
  const ir::SourceLocation& where = trace.locations[static_cast<size_t>(location)];
  return where.file.substr(where.file.find_last_of('/') + 1) + ":" + std::to_string(where.line);
}

namespace {

// Everything is left to aten, but what executors' operators gave must be what their metas say.
void check_operators(const Trace& t) {
  for (const Bind& b : t.binds)
    if (const OperatorPtr own = find_operator(b.op))
      check_meta(own->executor, b.op, b.args, {t, b.op, b.args, b.results, b.location});
}

}  // namespace

passes::Claimer claimer(const ExecutorList& list) {
  const bool all_to_aten = list.empty() || list.front()->takes_everything();
  if (all_to_aten && !any_operators()) return {};
  if (all_to_aten) {
    return [](const TracePtr& trace, const std::vector<ValueId>&) {
      check_operators(*trace);
      return Claimed{trace, {}, {}};
    };
  }
  return [list](const TracePtr& trace, const std::vector<ValueId>& keep) {
    return ClaimPass(list, *trace, keep).run();
  };
}

}  // namespace fulgurite::exec
