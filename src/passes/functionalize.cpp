#include "passes/functionalize.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <unordered_map>

#include "ir/builder.h"
#include "ir/errors.h"
#include "ops/cards.h"
#include "ops/prims.h"
#include "ops/traits.h"
#include "passes/infer.h"

namespace fulgurite::passes {
namespace {

using c10::IValue;
using ir::Arg;
using ir::Bind;
using ir::kNoValue;
using ir::Op;
using ir::Result;
using ir::Trace;
using ir::Value;
using ir::ValueId;
using ir::ValueList;

constexpr size_t kNever = std::numeric_limits<size_t>::max();

// A tensor variable of the recorded program. Several recorded values (before and after a write) are
// the same variable.
struct Variable {
  int parent = -1;                // the variable it is a view of, -1: a root
  const Bind* view = nullptr;     // how; nullptr with a parent: by recorded geometry alone
  const Bind* made_by = nullptr;  // the recorded bind that gave a view, whatever its schema says
  bool single = true;             // `view` has this variable as its only result
  bool cut = false;               // gradients do not pass from the parent
  bool rename = false;            // the parent after t_, squeeze_, ...: the same tensor
  bool separate_version = false;  // .data: writes through it bump no version that others see
  Value facts;                    // type, storage and offset as last recorded
  ValueId input = kNoValue;  // of the functional trace, if the variable is an input or constant
  bool is_constant = false;

  ValueId current = kNoValue;  // functional value
  int version = 0;             // of the storage, at which `current` is right
  bool written = false;
  bool history_changed = false;  // a write with gradient: the caller's tensor gets a new history
  bool version_bumped = false;
};

struct Storage {
  int version = 0;
  bool visible = false;  // an input lives there
  std::vector<int> variables;
};

class Functionalizer {
 public:
  explicit Functionalizer(const Trace& recorded)
      : in_(recorded),
        b_(recorded.name, "functionalize"),
        variable_of_(recorded.values.size(), -1) {
    b_.trace().functional = true;
    b_.trace().locations = recorded.locations;
    b_.trace().output_template = recorded.output_template;
  }

  Functionalized run() {
    find_written_storages();
    add_roots();
    map_regions();
    for (size_t i = 0; i < in_.binds.size(); ++i) {
      enter_regions(i);
      bind(in_.binds[i]);
      leave_regions(i);
    }
    epilogue();
    Functionalized result;
    overwritten_.resize(b_.trace().values.size(), kNever);
    result.overwritten_at = std::move(overwritten_);
    result.trace = b_.finish();
    return result;
  }

 private:
  // ---- variables
  // -----------------------------------------------------------------------------------
  int new_variable(ValueId recorded) {
    const int index = static_cast<int>(vars_.size());
    Variable v;
    v.facts = in_.value(recorded);
    vars_.push_back(std::move(v));
    variable_of_[recorded] = index;
    Storage& s = storages_[vars_[index].facts.storage];
    s.variables.push_back(index);
    vars_[index].version = s.version;
    return index;
  }

  Storage& storage(const Variable& v) { return storages_[v.facts.storage]; }

  void find_written_storages() {
    for (const Bind& bind : in_.binds)
      for (size_t i : ops::written_arguments(bind))
        ir::for_each_value(bind.args[i],
                           [&](ValueId id) { written_storages_.push_back(in_.value(id).storage); });
    std::sort(written_storages_.begin(), written_storages_.end());
  }

  bool is_written(int32_t storage_id) const {
    return std::binary_search(written_storages_.begin(), written_storages_.end(), storage_id);
  }

  void add_roots() {
    for (ValueId id : in_.inputs) {
      const int v = new_variable(id);
      Value copy = in_.value(id);
      copy.storage = in_.value(id).storage;
      vars_[v].current = vars_[v].input = b_.add_input(std::move(copy));
      storage(vars_[v]).visible = true;
    }
    for (size_t id = 0; id < in_.values.size(); ++id) {
      if (in_.values[id].kind != ir::ValueKind::Constant) continue;
      const int v = new_variable(static_cast<ValueId>(id));
      vars_[v].current = vars_[v].input = b_.add_constant(in_.values[id].constant, "c");
      vars_[v].is_constant = true;
    }
    share_memory_of_inputs();
  }

  // Inputs that share memory, of which some is written: all become views of one flat base.
  void share_memory_of_inputs() {
    std::vector<int32_t> ids;
    for (auto& [id, s] : storages_)
      if (s.visible && s.variables.size() > 1 && is_written(id)) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    for (int32_t id : ids) {
      const std::vector<int> roots = storages_[id].variables;
      int64_t extent = 0;
      for (int r : roots) {
        const Value& f = vars_[r].facts;
        if (f.tensor().requires_grad)
          throw Refusal("FG-151", "inputs " + f.name +
                                      " and others share memory, one of them is written, and " +
                                      f.name + " requires grad; this combination runs eagerly");
        if (f.tensor().dtype != vars_[roots[0]].facts.tensor().dtype)
          throw Refusal("FG-152",
                        "inputs of different dtypes share memory and one of them is written");
        int64_t last = f.offset;
        for (size_t d = 0; d < f.tensor().sizes.size(); ++d)
          last += (f.tensor().sizes[d] - 1) * f.tensor().strides[d];
        extent = std::max(extent, last + 1);
      }
      const int base = static_cast<int>(vars_.size());
      Variable flat;
      ir::TensorType type = vars_[roots[0]].facts.tensor();
      type.sizes = {extent};
      type.strides = {1};
      flat.facts.type = type;
      flat.facts.storage = id;
      const Value& first = vars_[roots[0]].facts;
      flat.current = emit(prims::strided_view(),
                          {Arg(vars_[roots[0]].current), Arg(ints({extent})), Arg(ints({1})),
                           Arg(IValue(-first.offset))},
                          flat.facts, false);
      vars_.push_back(std::move(flat));
      storages_[id].variables.push_back(base);
      for (int r : roots) vars_[r].parent = base;
    }
  }

  // ---- emission
  // ------------------------------------------------------------------------------------
  static IValue ints(at::IntArrayRef v) { return IValue(v.vec()); }

  Value typed(const ir::TensorType& type, bool requires_grad) {
    Value v;
    ir::TensorType t = type;
    t.requires_grad = requires_grad;
    v.type = std::move(t);
    return v;
  }

  ValueId emit(const Op& op, std::vector<Arg> args, const Value& like, bool requires_grad) {
    const ValueId id = b_.add_value(typed(like.tensor(), requires_grad));
    b_.add_bind(Bind{op, std::move(args), {Result(id)}, location_, region_, grad_mode_});
    return id;
  }

  bool requires_grad(ValueId functional) const {
    return b_.value(functional).tensor().requires_grad;
  }

  // ---- reading
  // -------------------------------------------------------------------------------------
  ValueId read(int index) {
    {
      Variable& v = vars_[index];
      if (v.version == storage(v).version) return v.current;
      if (v.parent < 0)
        throw InternalError("functionalize: the root " + v.facts.name + " is out of date");
    }
    const ValueId base = read(vars_[index].parent);
    Variable& v = vars_[index];
    v.current = derive(v, base);
    v.version = storage(v).version;
    return v.current;
  }

  // The view `v` of a new value of its parent.
  ValueId derive(const Variable& v, ValueId base) {
    const Variable& p = vars_[v.parent];
    if (v.view != nullptr && v.single) {
      std::vector<Arg> args = v.view->args;
      args[0] = Arg(base);
      return emit(v.view->op, std::move(args), v.facts, requires_grad(base) && !v.cut);
    }
    require_same_dtype(v, p);
    return emit(prims::strided_view(),
                {Arg(base), Arg(ints(v.facts.tensor().sizes)), Arg(ints(v.facts.tensor().strides)),
                 Arg(IValue(v.facts.offset - p.facts.offset))},
                v.facts, requires_grad(base) && !v.cut);
  }

  void require_same_dtype(const Variable& v, const Variable& p) {
    if (v.facts.tensor().dtype != p.facts.tensor().dtype)
      throw Refusal("FG-153", "a view of another dtype (" + v.facts.name +
                                  ") is written or shares memory that is written");
  }

  // ---- writing
  // -------------------------------------------------------------------------------------
  // `contents` becomes the value of the variable, of its bases, and (when next read) of its other
  // aliases.
  void write(int index, ValueId contents, bool bumps_version) {
    std::vector<int> chain;
    for (int i = index; i >= 0; i = vars_[i].parent) chain.push_back(i);
    std::vector<ValueId> before;
    for (int i : chain) before.push_back(read(i));
    Storage& s = storage(vars_[index]);
    bool bumps = bumps_version;
    for (int i : chain) bumps = bumps && !vars_[i].separate_version;
    for (int i : s.variables) {
      const Variable& v = vars_[i];
      if (v.version != s.version || v.current == kNoValue || is_apart(i, index)) continue;
      mark_overwritten(v.current, bumps_version ? 2 * operator_bind_ : 2 * operator_bind_ - 1);
    }
    bool seen = grad_mode_;  // by autograd
    std::vector<int> current;
    for (size_t k = 0; k < chain.size();) {
      Variable& v = vars_[chain[k]];
      current.push_back(chain[k]);
      if (!seen && requires_grad(before[k])) {
        // A write that autograd does not see: new data under the old history.
        contents = emit(prims::set_data(), {Arg(before[k]), Arg(contents)}, v.facts, true);
      }
      v.current = contents;
      v.written = true;
      v.history_changed = v.history_changed || (seen && requires_grad(contents));
      v.version_bumped = v.version_bumped || bumps;
      // Where elements share memory (expand) there is no value to put back; the base beyond it has
      // one.
      size_t next = k + 1;
      bool cut = v.cut;
      for (; next < chain.size() && overlaps_itself(vars_[chain[next]].facts.tensor()); ++next) {
        const Variable& skipped = vars_[chain[next]];
        cut = cut || skipped.cut;
        if (skipped.view != nullptr && ops::inverse_of_value_view(skipped.view->op) != nullptr)
          throw Refusal("FG-164", "a conjugate or negative view of an expanded tensor is written");
      }
      if (next < chain.size()) {
        contents = next == k + 1 ? scatter(v, before[next], contents)
                                 : scatter_strided(v, vars_[chain[next]], before[next], contents);
        seen = seen && !cut;
      }
      k = next;
    }
    ++s.version;
    for (int i : current) vars_[i].version = s.version;
  }

  // Results of unsafe_split and the like share no memory and no version counter: is `i` on the side
  // of another such result than `written`?
  bool is_apart(int i, int written) const {
    for (int w = written; w >= 0; w = vars_[w].parent) {
      const Bind* made_by = vars_[w].made_by;
      if (made_by == nullptr || vars_[w].single || ops::is_view(made_by->op)) continue;
      for (int k = i; k >= 0; k = vars_[k].parent)
        if (k != w && vars_[k].made_by == made_by && vars_[k].parent == vars_[w].parent)
          return true;
    }
    return false;
  }

  void mark_overwritten(ValueId id, size_t now) {
    if (overwritten_.size() <= static_cast<size_t>(id))
      overwritten_.resize(static_cast<size_t>(id) + 1, kNever);
    overwritten_[id] = std::min(overwritten_[id], now);
  }

  // The parent's value after its view `v` was given the value `contents`.
  ValueId scatter(const Variable& v, ValueId base, ValueId contents) {
    const Variable& p = vars_[v.parent];
    const bool rg = requires_grad(base) || (requires_grad(contents) && !v.cut);
    const auto& vt = v.facts.tensor();
    const auto& pt = p.facts.tensor();
    if (v.view != nullptr && v.single) {
      if (const char* inverse = ops::inverse_of_value_view(v.view->op))
        return emit(Op::get(inverse), {Arg(contents)}, p.facts, rg);
    }
    if (vt.sizes == pt.sizes && vt.strides == pt.strides && vt.dtype == pt.dtype &&
        v.facts.offset == p.facts.offset)
      return contents;
    if (v.view != nullptr && v.single) {
      const ops::Card* card = ops::card_of(v.view->op);
      if (card != nullptr && card->scatter != nullptr) {
        std::vector<Arg> args{Arg(base), Arg(contents)};
        args.insert(args.end(), v.view->args.begin() + 1, v.view->args.end());
        return emit(Op::get(card->scatter), std::move(args), p.facts, rg);
      }
      if (auto inverse = ops::inverse_permutation(*v.view, contents))
        return emit(inverse->op, std::move(inverse->args), p.facts, rg);
      if (v.facts.offset == p.facts.offset && vt.numel() == pt.numel() && vt.is_contiguous() &&
          pt.is_contiguous() && vt.dtype == pt.dtype) {
        return emit(Op::get("aten::view"), {Arg(contents), Arg(ints(pt.sizes))}, p.facts, rg);
      }
    }
    return scatter_strided(v, p, base, contents);
  }

  ValueId scatter_strided(const Variable& v, const Variable& p, ValueId base, ValueId contents) {
    require_same_dtype(v, p);
    const auto& vt = v.facts.tensor();
    return emit(prims::strided_scatter(),
                {Arg(base), Arg(contents), Arg(ints(vt.sizes)), Arg(ints(vt.strides)),
                 Arg(IValue(v.facts.offset - p.facts.offset))},
                p.facts, requires_grad(base) || (requires_grad(contents) && !v.cut));
  }

  // Two elements may share memory (expand, some as_strided).
  static bool overlaps_itself(const ir::TensorType& t) {
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (size_t d = 0; d < t.sizes.size(); ++d)
      if (t.sizes[d] > 1) dims.emplace_back(t.strides[d], t.sizes[d]);
    std::sort(dims.begin(), dims.end());
    int64_t reach = 0;
    for (auto [stride, size] : dims) {
      if (stride <= reach) return true;
      reach += stride * (size - 1);
    }
    return false;
  }

  // ---- one recorded bind
  // ---------------------------------------------------------------------------
  ValueId read_recorded(ValueId recorded) {
    if (recorded == kNoValue) return kNoValue;
    if (!in_.value(recorded).is_tensor()) return numbers_.at(recorded);
    return read(variable_of_[recorded]);
  }

  template <class ArgOrResult>
  ArgOrResult mapped(const ArgOrResult& a) {
    ArgOrResult copy = a;
    if (auto* id = std::get_if<ValueId>(&copy)) *id = read_recorded(*id);
    if (auto* list = std::get_if<ValueList>(&copy))
      for (ValueId& id : *list) id = read_recorded(id);
    return copy;
  }

  void bind(const Bind& bind) {
    location_ = bind.location;
    grad_mode_ = bind.grad_mode;
    if (bind.op == prims::set_grad()) {
      deferred_.push_back(&bind);
      return;
    }
    if (ops::changes_geometry_in_place(bind.op)) return geometry_change(bind);
    const std::vector<size_t> written = ops::written_arguments(bind);
    if (!written.empty()) return mutation(bind, written);
    if (ops::is_view(bind.op) || aliases_by_record(bind)) return view(bind);
    Bind out{bind.op, {}, {}, bind.location, region_, bind.grad_mode};
    for (const Arg& a : bind.args) out.args.push_back(mapped(a));
    for (const Result& r : bind.results) out.results.push_back(define(r));
    b_.add_bind(std::move(out));
  }

  Result define(const Result& r) {
    auto one = [&](ValueId recorded) {
      if (recorded == kNoValue) return kNoValue;
      if (!in_.value(recorded).is_tensor()) {
        Value number;
        number.type = in_.value(recorded).type;
        return numbers_[recorded] = b_.add_value(std::move(number));
      }
      const int v = new_variable(recorded);
      return vars_[v].current = b_.add_value(
                 typed(vars_[v].facts.tensor(), vars_[v].facts.tensor().requires_grad));
    };
    if (const auto* id = std::get_if<ValueId>(&r)) return Result(one(*id));
    ValueList list;
    for (ValueId id : std::get<ValueList>(r)) list.push_back(one(id));
    return Result(std::move(list));
  }

  // A result on memory that an argument already has, although the schema does not call it a view.
  bool aliases_by_record(const Bind& bind) {
    bool aliases = false;
    for_each_result(bind, [&](ValueId r) {
      if (!in_.value(r).is_tensor()) return;
      for_each_arg(bind, [&](ValueId a) {
        aliases = aliases || (in_.value(a).is_tensor() && in_.value(a).storage >= 0 &&
                              in_.value(a).storage == in_.value(r).storage);
      });
    });
    return aliases;
  }

  void view(const Bind& bind) {
    ValueId source = kNoValue;
    ValueId first = kNoValue;
    for_each_result(bind, [&](ValueId r) { first = first == kNoValue ? r : first; });
    if (first == kNoValue) return;
    for_each_arg(bind, [&](ValueId a) {
      if (source == kNoValue && in_.value(a).is_tensor() &&
          in_.value(a).storage == in_.value(first).storage)
        source = a;
    });
    if (source == kNoValue) {
      // A view by its schema that gave fresh memory (reshape that copied, to(), ...).
      Bind out{bind.op, {}, {}, bind.location, region_, bind.grad_mode};
      for (const Arg& a : bind.args) out.args.push_back(mapped(a));
      for (const Result& r : bind.results) out.results.push_back(define(r));
      b_.add_bind(std::move(out));
      return;
    }
    const int parent = variable_of_[source];
    if (ops::lifts_constant(bind.op)) {
      alias_of(std::get<ValueId>(bind.results[0]), parent);
      return;
    }
    const bool schema_view = ops::is_view(bind.op) &&
                             std::holds_alternative<ValueId>(bind.args[0]) &&
                             std::get<ValueId>(bind.args[0]) == source;
    const bool absolute = bind.op.name() == "aten::as_strided";
    Bind out{bind.op, {}, {}, bind.location, region_, bind.grad_mode};
    for (const Arg& a : bind.args) out.args.push_back(mapped(a));
    const bool single =
        bind.results.size() == 1 && std::holds_alternative<ValueId>(bind.results[0]);
    auto make = [&](ValueId recorded) {
      if (recorded == kNoValue) return kNoValue;
      const int v = new_variable(recorded);
      vars_[v].parent = parent;
      vars_[v].view = schema_view && !absolute ? &bind : nullptr;
      vars_[v].made_by = &bind;
      vars_[v].single = single;
      vars_[v].cut = ops::cuts_gradient(bind.op) || (in_.value(source).tensor().requires_grad &&
                                                     !in_.value(recorded).tensor().requires_grad);
      vars_[v].rename =
          !schema_view;  // _unsafe_view and the like: eager does not know it as a view
      vars_[v].separate_version = bind.op == prims::data();
      return vars_[v].current = b_.add_value(
                 typed(vars_[v].facts.tensor(), vars_[v].facts.tensor().requires_grad));
    };
    if (absolute) {
      // as_strided counts from the start of the storage; a value has none. Count from its base
      // instead.
      const auto result = std::get<ValueId>(bind.results[0]);
      const Value& facts = in_.value(result);
      check_within(facts, vars_[parent].facts);
      out.op = prims::strided_view();
      out.args = {out.args[0], Arg(ints(facts.tensor().sizes)), Arg(ints(facts.tensor().strides)),
                  Arg(IValue(facts.offset - vars_[parent].facts.offset))};
    }
    for (const Result& r : bind.results) {
      if (const auto* id = std::get_if<ValueId>(&r)) {
        out.results.emplace_back(make(*id));
      } else {
        ValueList list;
        for (ValueId e : std::get<ValueList>(r)) list.push_back(make(e));
        out.results.emplace_back(std::move(list));
      }
    }
    b_.add_bind(std::move(out));
  }

  // A value is only the elements of its variable, not the rest of the storage that as_strided can
  // reach.
  void check_within(const Value& view, const Value& base) const {
    const auto [lo, hi] = extent(view);
    const auto [base_lo, base_hi] = extent(base);
    const bool within = lo >= base_lo && hi <= base_hi && base.tensor().is_dense();
    if (!within && is_written(base.storage))
      throw Refusal(
          "FG-167",
          "as_strided reaches beyond the tensor it is taken of, on memory that the program writes");
  }

  static std::pair<int64_t, int64_t> extent(const Value& v) {
    int64_t last = v.offset;
    for (size_t d = 0; d < v.tensor().sizes.size(); ++d)
      last += (v.tensor().sizes[d] - 1) * v.tensor().strides[d];
    return {v.offset, last + 1};
  }

  // `recorded` is the same variable as `index`, seen after a change.
  void alias_of(ValueId recorded, int index) {
    variable_of_[recorded] = index;
    vars_[index].facts = in_.value(recorded);
  }

  // t_, squeeze_, ...: the variable becomes a view of what it was.
  void geometry_change(const Bind& bind) {
    const auto functional = ops::view_variant(bind.op);
    if (!functional || !std::holds_alternative<ValueId>(bind.args[0]) || bind.results.size() != 1)
      throw Refusal("FG-154",
                    bind.op.id() + " changes what a tensor is, in a way that is not compiled yet");
    views_of_changes_.push_back(std::make_unique<Bind>(bind));
    views_of_changes_.back()->op = *functional;
    const int changed = variable_of_[std::get<ValueId>(bind.args[0])];
    if (storage(vars_[changed]).visible)
      throw Refusal(
          "FG-140",
          bind.op.id() + " changes the shape of a view of a tensor that the caller can see");
    // The version counter is bumped: what was saved before counts as overwritten.
    for (int i : storage(vars_[changed]).variables)
      if (vars_[i].current != kNoValue)
        mark_overwritten(vars_[i].current, 2 * b_.trace().binds.size() - 1);
    view(*views_of_changes_.back());
    const auto result = std::get<ValueId>(bind.results[0]);
    if (result != kNoValue && variable_of_[result] >= 0) vars_[variable_of_[result]].rename = true;
  }

  void mutation(const Bind& bind, const std::vector<size_t>& written) {
    // The variables written, in the order of the schema.
    std::vector<int> targets;
    for (size_t i : written)
      ir::for_each_value(bind.args[i], [&](ValueId id) { targets.push_back(variable_of_[id]); });
    for (int t : targets) {
      if (overlaps_itself(vars_[t].facts.tensor()))
        throw Refusal("FG-165", bind.op.id() + " writes a tensor whose elements share memory");
      check_restricted_views(bind, vars_[t]);
    }
    std::vector<ValueId> contents;
    const auto functional = ops::functional_variant(bind.op);
    const bool is_copy = ops::copies_argument(bind.op);
    bool functional_applied = false;
    const size_t old_results = written_is_hidden(bind) ? bind.results.size() : 0;
    if (is_copy) {
      contents = {copied(bind, vars_[targets[0]].facts)};
      const ValueId before = read(targets[0]);
      if (bind.grad_mode && requires_grad(before))
        contents[0] =
            emit(prims::replace(), {Arg(before), Arg(contents[0])}, vars_[targets[0]].facts, true);
    } else if (functional && bind.op != functional->op && !draws_in_memory_order(bind, targets)) {
      contents = apply_functional(bind, *functional, written, old_results);
      functional_applied = true;
    } else {
      contents = apply_to_clones(bind, written);
    }
    if (!functional_applied) operator_bind_ = b_.trace().binds.size() - 1;
    if (contents.size() != targets.size())
      throw Refusal("FG-155", bind.op.id() + ": expected " + std::to_string(targets.size()) +
                                  " written tensors, found " + std::to_string(contents.size()));
    // Results that are the written tensors: the same variables, with the facts after the write.
    size_t next = 0;
    for (size_t r = 0; r < bind.results.size() && !written_is_hidden(bind); ++r) {
      const auto* alias = bind.op.schema().returns()[r].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      ir::for_each_value(bind.results[r], [&](ValueId id) {
        for (size_t t = 0; t < targets.size(); ++t) {
          const size_t pick = (next + t) % targets.size();
          if (vars_[targets[pick]].facts.storage == in_.value(id).storage) {
            if (vars_[targets[pick]].facts.tensor().sizes != in_.value(id).tensor().sizes)
              throw Refusal("FG-156", bind.op.id() + " resized a tensor that it writes");
            alias_of(id, targets[pick]);
            next = pick + 1;
            return;
          }
        }
        throw Refusal("FG-157", bind.op.id() + " returns a tensor that is none of those it writes");
      });
    }
    for (size_t t = 0; t < targets.size(); ++t)
      write(targets[t], contents[t], ops::bumps_versions(bind.op));
  }

  // Random numbers are drawn in the order of the memory that they fill: another layout, other
  // numbers.
  bool draws_in_memory_order(const Bind& bind, const std::vector<int>& targets) const {
    if (!ops::is_random(bind.op)) return false;
    for (int t : targets)
      if (!vars_[t].facts.tensor().is_contiguous()) return true;
    return false;
  }

  // Eager refuses to use results of split, unbind, ... and views made without grad mode once their
  // memory was written, if they require grad.
  void check_restricted_views(const Bind& bind, const Variable& target) {
    for (int i : storage(target).variables) {
      const Variable& v = vars_[i];
      if (v.parent < 0 || v.view == nullptr || !v.facts.tensor().requires_grad) continue;
      if (!v.single || !v.made_by->grad_mode)
        throw Refusal("FG-163",
                      bind.op.id() +
                          " writes memory of which there are views that require grad, made "
                          "several at once (split, unbind) or without grad mode");
    }
  }

  // copy_(self, src): the values of src in the geometry of self, in memory of its own.
  ValueId copied(const Bind& bind, const Value& target) {
    static const Op to_copy = Op::get("aten::_to_copy");
    static const Op clone = Op::get("aten::clone");
    static const Op expand = Op::get("aten::expand");
    if (!std::holds_alternative<ValueId>(bind.args[1]))
      throw Refusal("FG-161", "copy_ of a number into a tensor is not compiled yet");
    ValueId src = read_recorded(std::get<ValueId>(bind.args[1]));
    const ir::TensorType& want = target.tensor();
    const ir::TensorType have = b_.value(src).tensor();
    const bool differentiable =
        requires_grad(src) && bind.grad_mode && differentiable_type(want.dtype);
    Value like = b_.value(src);
    ir::TensorType& type = std::get<ir::TensorType>(like.type);
    type.dtype = want.dtype;
    type.device = want.device;
    type.strides = ir::default_strides(type.sizes);
    const IValue none;
    if (have.dtype != want.dtype || have.device != want.device) {
      src = emit(to_copy,
                 {Arg(src), Arg(IValue(static_cast<int64_t>(want.dtype))), Arg(none),
                  Arg(IValue(want.device)), Arg(none), Arg(IValue(false)),
                  Arg(IValue(static_cast<int64_t>(at::MemoryFormat::Contiguous)))},
                 like, differentiable);
    } else {
      src = emit(clone, {Arg(src), Arg(IValue(static_cast<int64_t>(at::MemoryFormat::Contiguous)))},
                 like, differentiable);
    }
    if (have.sizes != want.sizes) {
      type.strides = {};
      const auto lead = want.sizes.size() - have.sizes.size();
      const ir::Dims dense = ir::default_strides(have.sizes);
      for (size_t d = 0; d < want.sizes.size(); ++d)
        type.strides.push_back(d < lead || have.sizes[d - lead] != want.sizes[d] ? 0
                                                                                 : dense[d - lead]);
      type.sizes = want.sizes;
      src =
          emit(expand, {Arg(src), Arg(ints(want.sizes)), Arg(IValue(false))}, like, differentiable);
    }
    if (type.strides != want.strides) {
      type.strides = want.strides;
      src = emit(prims::conform(),
                 {Arg(src), Arg(IValue(static_cast<int64_t>(want.dtype))), Arg(ints(want.strides))},
                 like, differentiable);
    }
    return src;
  }

  static bool differentiable_type(at::ScalarType t) {
    return at::isFloatingType(t) || at::isComplexType(t);
  }

  bool written_is_hidden(const Bind& bind) const { return !bind.op.schema().is_mutable(); }

  std::vector<ValueId> apply_functional(const Bind& bind, const ops::Functional& f,
                                        const std::vector<size_t>& written, size_t old_results) {
    Bind out{f.op, {}, {}, bind.location, region_, bind.grad_mode};
    for (int a : f.argument_of) out.args.push_back(mapped(bind.args[static_cast<size_t>(a)]));
    for (size_t r = 0; r < old_results; ++r) out.results.push_back(define(bind.results[r]));
    std::vector<ValueId> contents;
    std::vector<ValueId> recorded_after;  // results of the recorded op that are the written tensors
    if (old_results == 0)
      for (const Result& r : bind.results)
        ir::for_each_value(r, [&](ValueId id) { recorded_after.push_back(id); });
    std::vector<int> targets;
    auto result_like = [&](ValueId recorded) {
      const Variable& v = vars_[variable_of_[recorded]];
      targets.push_back(variable_of_[recorded]);
      const size_t k = contents.size();
      bool rg = v.facts.tensor().requires_grad;
      if (k < recorded_after.size()) rg = in_.value(recorded_after[k]).tensor().requires_grad;
      contents.push_back(b_.add_value(typed(v.facts.tensor(), rg && bind.grad_mode)));
      return contents.back();
    };
    for (size_t i = 0; i < bind.args.size(); ++i) {
      if (!ops::writes_argument(bind.op, i)) continue;
      if (std::find(written.begin(), written.end(), i) == written.end()) {
        // An empty list, or None: the functional operator has a result for it all the same.
        const bool is_list =
            bind.op.schema().arguments()[i].type()->kind() == c10::TypeKind::ListType;
        out.results.push_back(is_list ? Result(ValueList()) : Result(kNoValue));
      } else if (const auto* id = std::get_if<ValueId>(&bind.args[i])) {
        out.results.emplace_back(result_like(*id));
      } else {
        ValueList list;
        for (ValueId e : std::get<ValueList>(bind.args[i])) list.push_back(result_like(e));
        out.results.emplace_back(std::move(list));
      }
    }
    const bool into_out = bind.op.schema().arguments()[written[0]].kwarg_only();
    conform(out, contents, into_out);
    return contents;
  }

  // The functional operator may choose another dtype or other strides than the variable has.
  void conform(Bind& out, std::vector<ValueId>& contents, bool into_out) {
    bool sure = true;
    for (ValueId c : contents) sure = sure && b_.value(c).tensor().is_contiguous();
    for_each_arg(out, [&](ValueId a) {
      const Value& v = b_.value(a);
      if (!v.is_tensor()) return;
      sure = sure && v.tensor().is_contiguous();
      if (v.tensor().dtype != b_.value(contents[0]).tensor().dtype && !v.tensor().sizes.empty())
        sure = false;
      if (v.tensor().sizes.empty() && !contents.empty() &&
          v.tensor().dtype != b_.value(contents[0]).tensor().dtype)
        sure = false;
    });
    std::vector<ir::TensorType> real;
    if (!sure) real = infer_types(b_.trace(), out);
    std::vector<std::pair<size_t, ir::TensorType>> differ;
    if (!sure) {
      // Results of `out` in flat order end with the written ones.
      const size_t skip = real.size() - contents.size();
      for (size_t k = 0; k < contents.size(); ++k) {
        ir::TensorType& type = std::get<ir::TensorType>(b_.trace().values[contents[k]].type);
        ir::TensorType& found = real[skip + k];
        if (found.dtype != type.dtype && into_out)
          throw Refusal(
              "FG-168",
              out.op.id() +
                  " is given an out= of another dtype than its result, in which it computes");
        if (found.dtype == type.dtype && found.strides == type.strides) continue;
        differ.emplace_back(k, type);
        found.requires_grad = type.requires_grad;
        type = found;
      }
    }
    b_.add_bind(std::move(out));
    operator_bind_ = b_.trace().binds.size() - 1;  // not what follows to conform
    for (auto& [k, type] : differ) {
      Value like;
      like.type = type;
      contents[k] = emit(prims::conform(),
                         {Arg(contents[k]), Arg(IValue(static_cast<int64_t>(type.dtype))),
                          Arg(ints(type.strides))},
                         like, type.requires_grad);
    }
  }

  // No functional variant (custom operators): run the operator itself on copies made for it.
  std::vector<ValueId> apply_to_clones(const Bind& bind, const std::vector<size_t>& written) {
    static const Op clone = Op::get("aten::clone");
    Bind out{bind.op, {}, {}, bind.location, region_, bind.grad_mode};
    std::vector<ValueId> contents;
    for (size_t i = 0; i < bind.args.size(); ++i) {
      Arg a = mapped(bind.args[i]);
      if (std::find(written.begin(), written.end(), i) != written.end()) {
        auto copy = [&](ValueId id) {
          contents.push_back(emit(clone, {Arg(id), Arg(IValue())}, b_.value(id),
                                  requires_grad(id) && bind.grad_mode));
          return contents.back();
        };
        if (auto* id = std::get_if<ValueId>(&a)) *id = copy(*id);
        if (auto* list = std::get_if<ValueList>(&a))
          for (ValueId& id : *list) id = copy(id);
      }
      out.args.push_back(std::move(a));
    }
    for (ValueId c : contents)
      if (requires_grad(c))
        throw Refusal(
            "FG-158",
            bind.op.id() + " writes a tensor that requires grad and has no functional variant");
    for (size_t i = 0; i < bind.results.size(); ++i) {
      const Result& r = bind.results[i];
      const auto* alias = bind.op.schema().returns()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) {
        out.results.push_back(define(r));
        continue;
      }
      Result nothing = r;
      if (auto* id = std::get_if<ValueId>(&nothing)) *id = kNoValue;
      if (auto* list = std::get_if<ValueList>(&nothing))
        for (ValueId& id : *list) id = kNoValue;
      out.results.push_back(std::move(nothing));
    }
    b_.add_bind(std::move(out));
    return contents;
  }

  // ---- regions
  // ------------------------------------------------------------------------------------- A region
  // is carried over if what it takes and gives can be named when it begins and ends.
  void map_regions() {
    const size_t n = in_.regions.size();
    region_ids_.assign(n, -1);
    first_bind_.assign(n, kNever);
    last_bind_.assign(n, 0);
    for (size_t i = 0; i < in_.binds.size(); ++i) {
      for (int32_t g = in_.binds[i].region; g >= 0; g = in_.regions[g].parent) {
        first_bind_[g] = std::min(first_bind_[g], i);
        last_bind_[g] = i;
      }
    }
  }

  void enter_regions(size_t i) {
    std::vector<int32_t> opening;
    for (int32_t g = in_.binds[i].region; g >= 0; g = in_.regions[g].parent)
      if (first_bind_[g] == i) opening.push_back(g);
    std::reverse(opening.begin(), opening.end());
    region_ = -1;
    for (int32_t g = in_.binds[i].region; g >= 0 && region_ < 0; g = in_.regions[g].parent)
      region_ = region_ids_[g];
    for (int32_t g : opening) {
      const ir::Region& r = in_.regions[g];
      if (ops::is_mutable(r.op)) continue;
      bool known = true;
      for (const Arg& a : r.args)
        ir::for_each_value(a, [&](ValueId id) {
          known =
              known && (in_.value(id).is_tensor() ? variable_of_[id] >= 0 : numbers_.count(id) > 0);
        });
      if (!known) continue;
      ir::Region copy{r.op, {}, {}, r.location, region_, r.module};
      for (const Arg& a : r.args) copy.args.push_back(mapped(a));
      region_ids_[g] = region_ = b_.add_region(std::move(copy));
    }
  }

  void leave_regions(size_t i) {
    for (int32_t g = in_.binds[i].region; g >= 0; g = in_.regions[g].parent) {
      if (last_bind_[g] != i || region_ids_[g] < 0) continue;
      ir::Region& copy = b_.trace().regions[region_ids_[g]];
      for (const Result& r : in_.regions[g].results) {
        Result m = r;
        auto one = [&](ValueId id) {
          if (id == kNoValue || !in_.value(id).is_tensor() || variable_of_[id] < 0) return kNoValue;
          const Variable& v = vars_[variable_of_[id]];
          return v.current;
        };
        if (auto* id = std::get_if<ValueId>(&m)) *id = one(*id);
        if (auto* list = std::get_if<ValueList>(&m))
          for (ValueId& id : *list) id = one(id);
        copy.results.push_back(std::move(m));
      }
    }
  }

  // ---- what the caller can see
  // ---------------------------------------------------------------------
  void epilogue() {
    location_ = -1;
    region_ = -1;
    grad_mode_ = true;
    // Everything that the epilogue needs is computed before it begins: it changes the inputs.
    struct WriteBack {
      int variable;
      ValueId value;
    };
    std::vector<WriteBack> write_backs;
    for (size_t i = 0; i < vars_.size(); ++i) {
      if (vars_[i].input == kNoValue || vars_[i].is_constant || !storage(vars_[i]).visible)
        continue;
      if (storage(vars_[i]).version == 0 || !changed(static_cast<int>(i))) continue;
      write_backs.push_back({static_cast<int>(i), read(static_cast<int>(i))});
    }
    std::vector<int> outputs;
    for (ValueId id : in_.outputs) outputs.push_back(id == kNoValue ? -1 : variable_of_[id]);
    std::vector<ValueId> grads;
    for (const Bind* g : deferred_) grads.push_back(fresh(mapped(g->args[1])));
    // Outputs that are views are made by the epilogue, from the tensor that they are views of: so
    // the caller gets eager's `_base`, version counter and history.
    std::unordered_map<int, ValueId> made;
    for (int v : outputs) {
      if (v < 0) continue;
      const int r = origin(v);
      if (made.count(r) > 0) continue;
      if (vars_[r].input != kNoValue && !vars_[r].is_constant) {
        made.emplace(r, vars_[r].input);
      } else {
        if (storage(vars_[r]).visible)
          throw Refusal("FG-159", "an output shares memory with inputs that overlap each other");
        made.emplace(r, fresh_root(r));
      }
      for (int i = v; i != r; i = vars_[i].parent)
        if (vars_[i].cut && requires_grad(read(i)))
          throw Refusal("FG-162",
                        "a tensor taken out of autograd (.data, detach) got a history by a write, "
                        "and is returned");
    }

    b_.begin_epilogue();
    for (const WriteBack& w : write_backs) {
      const Variable& v = vars_[w.variable];
      grad_mode_ = v.history_changed;
      ValueId destination = v.input;
      if (!v.version_bumped) destination = emit(prims::data(), {Arg(v.input)}, v.facts, false);
      const ValueId after = b_.add_value(typed(v.facts.tensor(), v.facts.tensor().requires_grad));
      b_.add_bind(Bind{
          prims::copy_(), {Arg(w.value), Arg(destination)}, {Result(after)}, -1, -1, grad_mode_});
    }
    for (size_t k = 0; k < deferred_.size(); ++k) {
      const auto leaf = std::get<ValueId>(deferred_[k]->args[0]);
      const ValueId input = vars_[variable_of_[leaf]].input;
      if (input == kNoValue)
        throw Refusal("FG-122", "the .grad of a tensor that is no argument or parameter was set");
      b_.add_bind(Bind{prims::set_grad(),
                       {Arg(input), grads[k] == kNoValue ? Arg(IValue()) : Arg(grads[k])},
                       {},
                       -1,
                       -1,
                       false});
    }
    auto view_of = [&](auto&& self, int v) -> ValueId {
      auto it = made.find(v);
      if (it != made.end()) return it->second;
      const ValueId base = self(self, vars_[v].parent);
      const Variable& var = vars_[v];
      grad_mode_ = var.made_by == nullptr || var.made_by->grad_mode;
      location_ = var.view != nullptr ? var.view->location : -1;
      return made[v] = derive(var, base);
    };
    for (int v : outputs) b_.trace().outputs.push_back(v < 0 ? kNoValue : view_of(view_of, v));
  }

  // The tensor that `v` is, or is a view of: an input, or the topmost variable that is the root
  // itself under another shape.
  int origin(int v) const {
    std::vector<int> path;
    for (int i = v; i >= 0; i = vars_[i].parent) {
      path.push_back(i);
      if (vars_[i].input != kNoValue) return i;
    }
    size_t k = path.size() - 1;
    while (k > 0 && vars_[path[k - 1]].rename) --k;
    return path[k];
  }

  int root(int v) const {
    while (vars_[v].parent >= 0) v = vars_[v].parent;
    return v;
  }

  // Was anything on the memory of input `v` written? With a flat base: only if the write overlapped
  // it.
  bool changed(int v) {
    Variable& x = vars_[v];
    if (x.parent < 0) return x.written;
    if (x.written) return true;
    // Overlap is decided by extents: a copy too many writes the same contents.
    for (int i : storage(x).variables) {
      const Variable& y = vars_[i];
      if (!y.written || i == root(v)) continue;
      const auto [lo, hi] = extent(x.facts);
      const auto [lo2, hi2] = extent(y.facts);
      if (lo < hi2 && lo2 < hi) return true;
    }
    return false;
  }

  // Something the caller may keep: made by the trace, and given to nobody else.
  ValueId fresh_root(int r) {
    const ValueId id = read(r);
    auto [it, is_new] = given_out_.emplace(id, r);
    if (b_.value(id).kind == ir::ValueKind::Result && (is_new || it->second == r)) return id;
    static const Op clone = Op::get("aten::clone");
    const ValueId copy = emit(clone, {Arg(id), Arg(IValue())}, b_.value(id), requires_grad(id));
    vars_[r].current = copy;
    given_out_.emplace(copy, r);
    return copy;
  }

  ValueId fresh(const Arg& a) {
    if (!std::holds_alternative<ValueId>(a)) return kNoValue;
    const auto id = std::get<ValueId>(a);
    return id;
  }

  const Trace& in_;
  ir::TraceBuilder b_;
  std::vector<Variable> vars_;
  std::vector<int> variable_of_;  // by recorded ValueId
  std::unordered_map<ValueId, ValueId> numbers_;
  std::unordered_map<int32_t, Storage> storages_;
  std::vector<int32_t> written_storages_;
  std::vector<size_t> overwritten_;
  std::vector<std::unique_ptr<Bind>> views_of_changes_;
  std::vector<const Bind*> deferred_;
  std::unordered_map<ValueId, int>
      given_out_;  // value -> root variable whose contents it is to the caller

  std::vector<int32_t> region_ids_;
  std::vector<size_t> first_bind_, last_bind_;

  size_t operator_bind_ = 0;  // the bind that computed what is being written

  int32_t location_ = -1;
  int32_t region_ = -1;
  bool grad_mode_ = true;
};

}  // namespace

Functionalized functionalize(const Trace& recorded) { return Functionalizer(recorded).run(); }

}  // namespace fulgurite::passes
