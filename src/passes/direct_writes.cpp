#include "passes/direct_writes.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "ir/builder.h"
#include "ir/schema_args.h"
#include "ops/prims.h"
#include "ops/traits.h"

namespace fulgurite::passes {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Result;
using ir::Trace;
using ir::TracePtr;
using ir::ValueId;
using ir::ValueList;

namespace {

constexpr size_t kNobody = static_cast<size_t>(-1);

// Below autograd set_data(self, data) is `data`: whoever only reads contents, as copy_ without grad
// mode does, reads those.
TracePtr without_set_data(const TracePtr& trace, const std::vector<ValueId>& later) {
  const Trace& t = *trace;
  std::unordered_map<ValueId, ValueId> data_of;
  for (size_t i = 0; i < t.epilogue; ++i)
    if (t.binds[i].op == prims::set_data())
      data_of.emplace(std::get<ValueId>(t.binds[i].results[0]),
                      std::get<ValueId>(t.binds[i].args[1]));
  if (data_of.empty() || t.epilogue == t.binds.size()) return trace;
  std::set<ValueId> needed(later.begin(), later.end());
  needed.insert(t.outputs.begin(), t.outputs.end());
  needed.insert(t.saved.begin(), t.saved.end());
  std::vector<Bind> binds = t.binds;
  for (size_t i = 0; i < binds.size(); ++i) {
    const bool contents = i < t.epilogue
                              ? binds[i].op.ns() == "aten" || binds[i].op == prims::set_data()
                              : binds[i].op == prims::copy_() && !binds[i].grad_mode;
    auto read = [&](ValueId& id) {
      while (contents && data_of.count(id) > 0) id = data_of[id];
      needed.insert(id);
    };
    for (Arg& a : binds[i].args) {
      if (auto* id = std::get_if<ValueId>(&a)) read(*id);
      if (auto* list = std::get_if<ValueList>(&a))
        for (ValueId& id : *list) read(id);
    }
  }
  ir::TraceBuilder b(t, t.stage);
  for (size_t i = 0; i < binds.size(); ++i) {
    if (i == t.epilogue) b.begin_epilogue();
    if (binds[i].op == prims::set_data() && i < t.epilogue &&
        needed.count(std::get<ValueId>(binds[i].results[0])) == 0)
      continue;
    b.add_bind(std::move(binds[i]));
  }
  return b.finish();
}

int64_t bytes(const ir::Value& v) {
  return v.is_tensor()
             ? v.tensor().numel() * static_cast<int64_t>(c10::elementSize(v.tensor().dtype))
             : 0;
}

bool holds_integers(const Trace& t, const Bind& b) {
  bool any = false;
  auto look = [&](ValueId id) {
    const ir::Value& v = t.value(id);
    any = any || (v.is_tensor() && c10::isIntegralType(v.tensor().dtype, /*includeBool=*/false));
  };
  for_each_arg(b, look);
  for_each_result(b, look);
  return any;
}

// Numbers that are values of the trace stand where the operator converts them to a tensor's dtype.
bool takes_numbers_as_elements(const Trace& t, const Bind& b) {
  const auto& formal = b.op.schema().arguments();
  for (size_t a = 0; a < b.args.size(); ++a) {
    bool number = false, real = true;
    ir::for_each_value(b.args[a], [&](ValueId id) {
      const auto* kind = std::get_if<ir::ScalarKind>(&t.value(id).type);
      if (kind == nullptr) return;
      number = true;
      real = real && (*kind == ir::ScalarKind::Int || *kind == ir::ScalarKind::Float);
    });
    if (!number) continue;
    c10::TypePtr type = ir::strip_optional(ir::full_type(formal[a]));
    if (const auto* list = type->castRaw<c10::ListType>()) type = list->getElementType();
    const bool element =
        type->kind() == c10::TypeKind::NumberType || type->kind() == c10::TypeKind::TensorType;
    if (!element || !real || holds_integers(t, b) || !ops::runs_with_any_number(b.op)) return false;
  }
  return true;
}

const ValueId* destination_of(const Bind& b) {
  return b.op == prims::copy_() ? std::get_if<ValueId>(&b.args[1]) : nullptr;
}

}  // namespace

DirectWrites::DirectWrites(TracePtr trace, std::vector<ValueId> later)
    : trace_(without_set_data(trace, later)), t_(*trace_), later_(std::move(later)) {
  find_uses();
  find_targets();
}

void DirectWrites::find_uses() {
  made_by_.assign(t_.values.size(), kNobody);
  read_by_.resize(t_.values.size());
  kept_.assign(t_.values.size(), false);
  for (size_t i = 0; i < t_.binds.size(); ++i) {
    for_each_arg(t_.binds[i], [&](ValueId id) { read_by_[id].push_back(i); });
    for_each_result(t_.binds[i], [&](ValueId id) { made_by_[id] = i; });
  }
  for (const auto* ids : {&t_.saved, &later_})
    for (ValueId id : *ids)
      if (id != kNoValue) kept_[id] = true;
  given_out_ = kept_;
  for (ValueId id : t_.outputs)
    if (id != kNoValue) given_out_[id] = true;
  stays_.assign(t_.epilogue, false);
  for (size_t i = t_.epilogue; i-- > 0;) {
    bool stays = !is_movable(t_.binds[i]);
    // The epilogue runs under autograd, which knows a view that the caller gets as one.
    const bool view = !ops::returns_fresh_memory(t_.binds[i].op);
    for_each_result(t_.binds[i], [&](ValueId id) {
      stays = stays || kept_[id] || (view && given_out_[id]);
      for (size_t reader : read_by_[id])
        stays = stays || (reader < t_.epilogue ? stays_[reader] : view);
    });
    stays_[i] = stays;
  }
}

bool DirectWrites::is_movable(const Bind& b) const {
  if (ops::keeps_tensors(b.op) || !ops::runs_on_any_contents(b.op, holds_integers(t_, b)))
    return false;
  bool tensors = true;
  for_each_result(b, [&](ValueId id) { tensors = tensors && t_.value(id).is_tensor(); });
  return tensors && takes_numbers_as_elements(t_, b);
}

// An argument that the program goes on with is written where the history is made, before the
// epilogue: what would move there could read it too late.
bool DirectWrites::is_written_before_epilogue() const {
  return std::any_of(t_.binds.begin() + static_cast<std::ptrdiff_t>(t_.epilogue), t_.binds.end(),
                     [&](const Bind& b) {
                       if (destination_of(b) == nullptr) return false;
                       const size_t maker = made_by_[std::get<ValueId>(b.args[0])];
                       return maker != kNobody && t_.binds[maker].op == prims::argument();
                     });
}

void DirectWrites::find_targets() {
  if (is_written_before_epilogue()) return;
  Trace core = t_;
  core.binds.erase(core.binds.begin() + static_cast<std::ptrdiff_t>(t_.epilogue), core.binds.end());
  MemoryGroups groups(core);
  std::set<ValueId> written;
  for (const Bind& b : core.binds)
    for (size_t a : ops::written_arguments(b))
      ir::for_each_value(b.args[a], [&](ValueId id) { written.insert(groups.find(id)); });
  std::unordered_map<ValueId, int> destinations;
  std::unordered_map<ValueId, int> seen;  // by group: outputs, saved values, uses by the epilogue
  for (size_t id = 0; id < given_out_.size(); ++id)
    if (given_out_[id]) ++seen[groups.find(static_cast<ValueId>(id))];
  for (size_t i = t_.epilogue; i < t_.binds.size(); ++i) {
    for_each_arg(t_.binds[i], [&](ValueId id) { ++seen[groups.find(id)]; });
    if (const ValueId* to = destination_of(t_.binds[i])) ++destinations[*to];
  }
  for (size_t i = t_.epilogue; i < t_.binds.size(); ++i) {
    const Bind& b = t_.binds[i];
    const ValueId* to = destination_of(b);
    if (to == nullptr) continue;
    Target target{i, std::get<ValueId>(b.args[0]), *to, kNoValue};
    if (made_by_[*to] != kNobody) {
      const Bind& alias = t_.binds[made_by_[*to]];
      if (!(alias.op == prims::data()) || made_by_[*to] < t_.epilogue) continue;
      target.memory = std::get<ValueId>(alias.args[0]);
      target.alias = *to;
      if (destinations.count(target.memory) > 0) continue;
    }
    const ir::Value& memory = t_.value(target.memory);
    const bool history = b.grad_mode && (memory.tensor().requires_grad ||
                                         t_.value(target.source).tensor().requires_grad);
    if (history || memory.kind != ir::ValueKind::Input || kept_[target.memory] ||
        destinations[*to] > 1 || is_shared(target.memory) || !has_own_elements(memory.tensor()) ||
        written.count(groups.find(target.memory)) > 0)
      continue;
    // The new value is nobody else's.
    if (seen[groups.find(target.source)] > 1 || !find_way(target)) continue;
    target.counted = target.alias == kNoValue ? 1 : 0;
    for (size_t k = t_.epilogue; k < t_.binds.size(); ++k)
      if (t_.binds[k].op == prims::bump_version_() && t_.binds[k].args[0] == Arg(target.memory))
        target.counted += static_cast<int>(std::get<IValue>(t_.binds[k].args[1]).toInt());
    targets_.push_back(std::move(target));
  }
}

bool DirectWrites::is_shared(ValueId input) const {
  const int32_t storage = t_.value(input).storage;
  return storage < 0 || std::count_if(
                            t_.inputs.begin(), t_.inputs.end(),
                            [&](ValueId id) { return t_.value(id).storage == storage; }) != 1;
}

// From the new value back to the caller's tensor, by operators that may run in place; or to one
// that may compute into it.
bool DirectWrites::find_way(Target& target) const {
  const ir::Value& memory = t_.value(target.memory);
  for (ValueId id = target.source; id != target.memory;) {
    const size_t i = made_by_[id];
    if (i >= t_.epilogue || stays_[i] || t_.binds[i].results.size() != 1) break;  // or kNobody
    const Bind& b = t_.binds[i];
    target.way.push_back(i);
    if (ops::out_variant(b.op) && same_layout(memory, t_.value(id)))
      target.starts.push_back(target.way.size());
    ValueId before = kNoValue;
    const auto* firsts = b.args.empty() ? nullptr : std::get_if<ValueList>(&b.args[0]);
    if (const auto* results = std::get_if<ValueList>(&b.results[0])) {
      for (size_t k = 0; firsts != nullptr && k < results->size() && k < firsts->size(); ++k)
        if ((*results)[k] == id) before = (*firsts)[k];
    } else if (!b.args.empty() && std::holds_alternative<ValueId>(b.args[0])) {
      before = std::get<ValueId>(b.args[0]);
    }
    const bool same_memory = ops::in_place_variant(b.op) || ops::written_view(b.op) ||
                             ops::cuts_gradient(b.op);  // x.data
    if (before == kNoValue || !same_memory || !same_layout(t_.value(before), t_.value(id))) break;
    id = before;
    if (id != target.memory) continue;
    target.starts.clear();
    return true;
  }
  return begins_with_result(target);
}

// Shortens the way so that it begins with a result that can be computed into the memory.
bool DirectWrites::begins_with_result(Target& target) {
  if (target.starts.empty()) return false;
  target.way.resize(target.starts.back());
  target.starts.pop_back();
  target.into = true;
  return true;
}

// The ways, what needs their results, and what nobody else needs, if less memory is held so.
std::vector<bool> DirectWrites::moved() const {
  std::vector<bool> moves(t_.epilogue, false);
  for (const Target& target : targets_)
    for (size_t i : target.way) moves[i] = true;
  for (size_t i = 0; i < t_.epilogue; ++i)
    for_each_arg(t_.binds[i], [&](ValueId id) {
      const size_t maker = made_by_[id];
      if (maker < t_.epilogue && moves[maker]) moves[i] = true;
    });
  for (size_t i = t_.epilogue; i-- > 0;) {
    if (moves[i] || stays_[i]) continue;
    bool any = false, all = true;
    for_each_result(t_.binds[i], [&](ValueId id) {
      all = all && !given_out_[id];
      for (size_t reader : read_by_[id]) {
        any = true;
        all = all && reader < t_.epilogue && moves[reader];
      }
    });
    moves[i] = any && all && keeps_less(t_.binds[i], moves);
  }
  return moves;
}

bool DirectWrites::keeps_less(const Bind& b, const std::vector<bool>& moves) const {
  int64_t made = 0, held = 0;
  if (ops::is_view(b.op)) return true;
  for_each_result(b, [&](ValueId id) { made += bytes(t_.value(id)); });
  for_each_arg(b, [&](ValueId id) {
    while (made_by_[id] != kNobody && ops::is_view(t_.binds[made_by_[id]].op) &&
           std::holds_alternative<ValueId>(t_.binds[made_by_[id]].args[0]))
      id = std::get<ValueId>(t_.binds[made_by_[id]].args[0]);
    const auto& readers = read_by_[id];
    const bool lives =
        given_out_[id] || t_.value(id).kind != ir::ValueKind::Result || moves[made_by_[id]] ||
        std::any_of(readers.begin(), readers.end(),
                    [&](size_t reader) { return reader >= t_.epilogue || moves[reader]; });
    held += lives ? 0 : bytes(t_.value(id));
  });
  return held <= made;
}

}  // namespace fulgurite::passes
