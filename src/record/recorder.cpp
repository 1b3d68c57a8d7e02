#include "record/recorder.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "ir/builder.h"
#include "ops/memory.h"
#include "ops/open_leaf.h"
#include "ops/prims.h"
#include "ops/rules.h"
#include "ops/traits.h"
#include "record/fresh_memory.h"
#include "record/place_numbers.h"
#include "record/tensors.h"

namespace fulgurite::record {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using ir::Arg;
using ir::kNoValue;
using ir::Op;
using ir::Result;
using ir::ValueId;
using ir::ValueList;
using torch::jit::Stack;

namespace {

constexpr DispatchKey kKey = DispatchKey::FULGURITE_RECORDER_KEY;
using ExcludeKey = c10::impl::ExcludeDispatchKeyGuard;

thread_local Recorder* active = nullptr;
RuleHook rule_hook = nullptr;

}  // namespace

// What is noted about a value while recording, beside its ir::Value.
struct Facts {
  c10::StorageImpl* storage = nullptr;
  const void* version_counter = nullptr;
  int32_t producer = -1;  // index into binds, -1: input or external
};

struct Recorder::Impl {
  std::string name;
  PositionProvider where = nullptr;
  std::optional<Refusal> refusal;
  bool outer_excluded = false;  // was recording paused where the scope began?
  bool rules_only = false;      // nothing is recorded; users' rules hold

  std::vector<ir::Value> values;
  std::vector<Facts> facts;
  std::vector<ValueId> inputs;
  std::vector<External> externals;
  std::vector<PendingBind> binds;
  std::vector<ir::Region> regions;
  std::vector<bool> region_dead;
  std::vector<ir::SourceLocation> locations;
  std::unordered_map<std::string, int32_t> location_ids;
  Numbers numbers;
  std::unordered_map<ValueId, size_t> expectations;  // of numbers: the bind of the value guard
  PlacedNumbers placed_numbers;

  std::unordered_map<const c10::TensorImpl*, ValueId> by_impl;
  std::unordered_map<const c10::StorageImpl*, std::vector<ValueId>> by_storage;
  std::unordered_map<const c10::StorageImpl*, int32_t> storage_ids;
  // Weak references keep the addresses above from being used again.
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> weak_tensors;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> weak_storages;
  // Leaves that were there before the run, with the .grad that they had.
  struct Leaf {
    at::Tensor tensor;
    ValueId value;
    at::Tensor grad;
    bool grad_set = false;  // by Python
  };
  std::vector<Leaf> leaves;

  // Leaves that the program writes under autograd. Operators are given the open leaf (or a view of
  // it) wherever the program gives them the leaf (or a view of it that has a history).
  struct OpenedLeaf {
    at::Tensor leaf;
    at::Tensor open;
    ValueId value;
    std::vector<std::pair<at::Tensor, at::Tensor>> views;  // of the leaf, of the open leaf
  };
  bool may_open_leaves = false;
  std::vector<OpenedLeaf> opened;
  std::vector<std::string> leaf_writes;

  std::unordered_set<const c10::StorageImpl*> written_with_grad;
  std::unordered_set<const c10::TensorImpl*> given;  // inputs and externals
  bool ambient_inference = c10::InferenceMode::is_enabled();
  FreshMemory fresh;
  int nesting = 0;      // inside how many leaf operators that keep the key on
  int32_t region = -1;  // innermost open region
  size_t next_result = 0;
  size_t operators = 0;
  Position position;

  void refuse(const std::string& code, const std::string& message) {
    if (refusal) return;
    update_position();
    std::string text = message;
    if (!position.file.empty())
      text = position.file + ":" + std::to_string(position.line) + ": " + text;
    refusal.emplace(code, text);
  }

  void update_position() {
    if (where != nullptr) position = where();
  }

  int32_t location() {
    if (position.file.empty()) return -1;
    std::string key = position.file + ":" + std::to_string(position.line);
    auto [it, inserted] =
        location_ids.emplace(std::move(key), static_cast<int32_t>(locations.size()));
    if (inserted) locations.push_back({position.file, position.line});
    return it->second;
  }

  // ---- values
  // --------------------------------------------------------------------------------------
  ValueId new_value(const at::Tensor& t, int32_t producer, std::string value_name,
                    ir::ValueKind kind) {
    auto* impl = t.unsafeGetTensorImpl();
    const auto id = static_cast<ValueId>(values.size());
    ir::Value v = describe(t);
    v.kind = kind;
    v.name = std::move(value_name);
    Facts f;
    f.storage = storage_of(impl);
    f.version_counter = version_counter_of(impl);
    f.producer = producer;
    if (f.storage != nullptr) {
      v.storage =
          storage_ids.emplace(f.storage, static_cast<int32_t>(storage_ids.size())).first->second;
      by_storage[f.storage].push_back(id);
      weak_storages.emplace_back(
          c10::weak_intrusive_ptr<c10::StorageImpl>(impl->storage().getWeakStorageImpl()));
    }
    weak_tensors.emplace_back(t.getIntrusivePtr());
    values.push_back(std::move(v));
    facts.push_back(f);
    by_impl[impl] = id;
    return id;
  }

  ValueId new_result(const at::Tensor& t, int32_t producer) {
    if (!is_plain(t)) {
      refuse("FG-110", "an operator returned a tensor of a kind that is not recorded yet (" +
                           std::string(t.toString()) + "); supported are strided, dense tensors");
      return kNoValue;
    }
    return new_value(t, producer, "t" + std::to_string(next_result++), ir::ValueKind::Result);
  }

  void note_leaf(const at::Tensor& t, ValueId id) {
    if (t.is_leaf() && t.requires_grad()) leaves.push_back({t, id, t.grad(), false});
  }

  ValueId external(const at::Tensor& t) {
    int32_t grad_of = -1;
    for (const Leaf& leaf : leaves)
      if (leaf.grad.defined() && leaf.grad.is_same(t)) grad_of = leaf.value;
    const ValueId id =
        new_value(t, -1, "external" + std::to_string(externals.size()), ir::ValueKind::Input);
    externals.push_back({t, id, grad_of});
    given.insert(t.unsafeGetTensorImpl());
    note_leaf(t, id);
    return id;
  }

  // The value that `t` is now, and nothing new: kNoValue if it is unknown.
  ValueId find(const at::Tensor& t) {
    auto* impl = t.unsafeGetTensorImpl();
    auto it = by_impl.find(impl);
    if (it == by_impl.end()) return kNoValue;
    if (facts[it->second].storage != storage_of(impl) || !same_geometry(values[it->second], impl)) {
      by_impl.erase(it);  // `.data = `, set_, swap_tensors: not dispatched
      return kNoValue;
    }
    return it->second;
  }

  ValueId use(const at::Tensor& t) {
    if (!is_plain(t)) {
      refuse("FG-110", "an operator takes a tensor of a kind that is not recorded yet (" +
                           std::string(t.toString()) + "); supported are strided, dense tensors");
      return kNoValue;
    }
    auto* impl = t.unsafeGetTensorImpl();
    const ValueId id = find(t);
    if (id != kNoValue) return with_requires_grad_of(t, id);
    if (auto* storage = storage_of(impl)) {
      auto same = by_storage.find(storage);
      if (same != by_storage.end()) {
        const void* counter = version_counter_of(impl);
        for (auto i = same->second.rbegin(); i != same->second.rend(); ++i) {
          if (!same_geometry(values[*i], impl)) continue;
          const bool same_history = values[*i].tensor().requires_grad == t.requires_grad() ||
                                    written_with_grad.count(storage) > 0;
          if (facts[*i].version_counter == counter && same_history) {
            by_impl[impl] = *i;
            weak_tensors.emplace_back(t.getIntrusivePtr());
            return *i;
          }
          // Tensor.data: the same memory under another version counter and outside autograd.
          if (!t.requires_grad()) return alias(t, *i);
        }
      }
    }
    return external(t);
  }

  ValueId alias(const at::Tensor& t, ValueId of) {
    PendingBind p{
        ir::Bind{prims::data(), {Arg(of)}, {}, location(), region, c10::GradMode::is_enabled()}};
    const ValueId id = new_result(t, static_cast<int32_t>(binds.size()));
    p.bind.results.emplace_back(id);
    binds.push_back(std::move(p));
    return id;
  }

  // The value `id` of `t`, or, where requires_grad was set since, the value that it is now.
  ValueId with_requires_grad_of(const at::Tensor& t, ValueId id) {
    if (t.requires_grad() == values[id].tensor().requires_grad) return id;
    // A write through a view gave its base a history: passes see that from the write itself.
    if (t.grad_fn() != nullptr && written_with_grad.count(facts[id].storage) > 0) return id;
    if (t.grad_fn() != nullptr) {
      refuse("FG-120",
             "a tensor got its history from a custom autograd Function, which is not compiled yet");
      return id;
    }
    PendingBind p{ir::Bind{prims::set_requires_grad(),
                           {Arg(id), Arg(IValue(t.requires_grad()))},
                           {},
                           location(),
                           region,
                           c10::GradMode::is_enabled()}};
    const ValueId now = new_result(t, static_cast<int32_t>(binds.size()));
    p.bind.results.emplace_back(now);
    binds.push_back(std::move(p));
    return now;
  }

  // ---- arguments and results
  // -----------------------------------------------------------------------
  ValueId tensor_arg(const at::Tensor& t) { return t.defined() ? use(t) : kNoValue; }

  Arg argument(const IValue& v) {
    if (v.isTensor()) {
      const at::Tensor& t = v.toTensor();
      if (!t.defined()) return Arg(IValue());
      if (t.unsafeGetTensorImpl()->is_wrapped_number() && find(t) == kNoValue) {
        ExcludeKey off(kKey);
        return Arg(IValue(t.item()));
      }
      return Arg(use(t));
    }
    if (v.isTensorList() || v.isOptionalTensorList()) {
      ValueList list;
      for (const IValue& e : v.toListRef())
        list.push_back(e.isTensor() ? tensor_arg(e.toTensor()) : kNoValue);
      return Arg(std::move(list));
    }
    if (v.isGenerator()) {
      refuse(
          "FG-130",
          "an explicit torch.Generator is passed to a random operator, which is not compiled yet");
      return Arg(IValue());
    }
    if (v.isList()) return Arg(v.deepcopy());
    return Arg(v);
  }

  std::vector<Arg> arguments(const Stack& stack, size_t count) {
    std::vector<Arg> args;
    args.reserve(count);
    for (size_t i = stack.size() - count; i < stack.size(); ++i) args.push_back(argument(stack[i]));
    return args;
  }

  // The value of a result tensor. A result that is an argument (in-place, out=) is the same
  // variable: it gets a new value after the write, so that facts which the write changed
  // (requires_grad, geometry) are those after it.
  ValueId result_tensor(const at::Tensor& t, int32_t producer) {
    if (!t.defined()) return kNoValue;
    return new_result(t, producer);
  }

  void results(PendingBind& p, int32_t index, const Stack& stack) {
    const size_t count = p.bind.op.schema().returns().size();
    for (size_t i = stack.size() - count; i < stack.size(); ++i) {
      const IValue& v = stack[i];
      if (v.isTensor()) {
        p.bind.results.emplace_back(result_tensor(v.toTensor(), index));
      } else if (v.isTensorList()) {
        ValueList list;
        for (const IValue& e : v.toListRef()) list.push_back(result_tensor(e.toTensor(), index));
        p.bind.results.emplace_back(std::move(list));
      } else {
        p.bind.results.emplace_back(kNoValue);
      }
    }
  }

  // ---- what the program reads out of tensors
  // -------------------------------------------------------
  bool shape_depends_on_data(const ir::Bind& bind) const {
    if (!ops::has_data_dependent_shape(bind.op)) return false;
    if (!ops::shape_depends_on_masks_only(bind.op)) return true;
    bool masks = false;
    ir::for_each_arg(bind, [&](ValueId id) {
      if (!values[id].is_tensor()) return;
      const auto dtype = values[id].tensor().dtype;
      masks = masks || dtype == at::kBool || dtype == at::kByte;
    });
    return masks;
  }

  void expect_results(size_t index, const Stack& stack) {
    const Op op = binds[index].bind.op;
    const auto& returns = op.schema().returns();
    for (size_t i = 0; i < returns.size(); ++i) {
      const IValue& v = stack[stack.size() - returns.size() + i];
      if (v.isTensor() && v.toTensor().defined() && shape_depends_on_data(binds[index].bind)) {
        const auto id = std::get<ValueId>(binds[index].bind.results[i]);
        push(prims::expect_sizes(), {Arg(id), Arg(IValue(v.toTensor().sizes().vec()))});
        continue;
      }
      if (!(v.isInt() || v.isDouble() || v.isBool()) || ops::reads_only_metadata(op)) {
        if (v.isComplexDouble())
          refuse("FG-131",
                 op.id() + " reads a complex number out of a tensor, which is not compiled yet");
        continue;
      }
      const auto kind = v.isInt()      ? ir::ScalarKind::Int
                        : v.isDouble() ? ir::ScalarKind::Float
                                       : ir::ScalarKind::Bool;
      const auto id = static_cast<ValueId>(values.size());
      ir::Value number;
      number.name = "n" + std::to_string(next_result++);
      number.type = kind;
      values.push_back(std::move(number));
      facts.push_back({nullptr, nullptr, static_cast<int32_t>(index)});
      binds[index].bind.results[i] = id;
      const Op& expect = v.isInt()      ? prims::expect_int()
                         : v.isDouble() ? prims::expect_float()
                                        : prims::expect_bool();
      expectations[id] = binds.size();
      push(expect, {Arg(id), Arg(v)});
    }
  }

  // ---- numbers in the hands of Python
  ValueId number_value(const IValue& value, ir::ValueKind kind, std::string value_name) {
    const auto id = static_cast<ValueId>(values.size());
    ir::Value v;
    v.kind = kind;
    v.name = value_name.empty() ? "n" + std::to_string(next_result++) : std::move(value_name);
    v.type = value.isInt()      ? ir::ScalarKind::Int
             : value.isDouble() ? ir::ScalarKind::Float
                                : ir::ScalarKind::Bool;
    values.push_back(std::move(v));
    facts.emplace_back();
    return id;
  }

  void place() {
    placed_numbers = place_numbers(
        numbers, binds, [this](const IValue& value, ir::ValueKind kind, std::string value_name) {
          return number_value(value, kind, std::move(value_name));
        });
  }

  void push(const Op& op, std::vector<Arg> args) {
    binds.push_back(
        {ir::Bind{op, std::move(args), {}, location(), region, c10::GradMode::is_enabled()}});
  }

  // ---- one operator
  // -------------------------------------------------------------------------------- Does the
  // operator change the shape (or the storage) of a tensor that was there before the run?
  bool changes_given_tensor(const Op& op, const Stack& stack) const {
    if (!ops::changes_geometry_in_place(op)) return false;
    const IValue& self = stack[stack.size() - op.schema().arguments().size()];
    if (!self.isTensor() || given.count(self.toTensor().unsafeGetTensorImpl()) == 0) return false;
    // A new shape of the same memory is repeated on an argument at the end of the compiled call.
    return !ops::view_variant(op) || is_external(self.toTensor());
  }

  // Opens the leaves that an operator is about to write; false if there is none.
  bool open_written_leaves(const Op& op, const Stack& stack);
  at::Tensor opened_alias(const at::Tensor& t);
  void use_opened_leaves(Stack* stack, size_t arguments);
  void write_out_arguments(const Op& op, Stack* stack);
  at::Tensor view_of_closed(const at::Tensor& value, ValueId closed, const at::Tensor& like,
                            int64_t offset);
  bool is_external(const at::Tensor& t) const {
    for (const External& e : externals)
      if (e.tensor.is_same(t)) return true;
    return false;
  }

  // Runs the operator by a user's rule; false, with nothing done, if there is none for it.
  bool by_rule(const Op& op, Stack* stack) {
    if (where == nullptr || !rules::any() || rule_hook == nullptr || nesting > 0) return false;
    update_position();
    const std::string place =
        position.file.empty() ? "" : position.file + ":" + std::to_string(position.line);
    ExcludeKey off(kKey);
    return rule_hook(op, *stack, place);
  }

  // Memory that nobody has written may hold anything: zeros, in the trace.
  void zero_unwritten(const Op& op, const Stack& stack) {
    if (fresh.empty() || ops::ignores_contents(op)) return;
    const size_t count = op.schema().arguments().size();
    auto one = [&](const at::Tensor& t, size_t argument) {
      if (!fresh.has(t) || !fresh.take(t) || ops::overwrites_argument(op, argument)) return;
      static const Op zero = Op::get("aten::zero_");
      push(zero, {Arg(use(t))});
      const auto index = static_cast<int32_t>(binds.size() - 1);
      const ValueId after = new_result(t, index);
      binds.back().bind.results.emplace_back(after);
    };
    for (size_t i = 0; i < count; ++i) {
      const IValue& v = stack[stack.size() - count + i];
      if (v.isTensor()) one(v.toTensor(), i);
      if (v.isTensorList())
        for (const IValue& e : v.toListRef()) one(e.toTensor(), i);
    }
  }

  void leaf(const c10::OperatorHandle& handle, DispatchKeySet below, Stack* stack);
  void composite(const c10::OperatorHandle& handle, DispatchKeySet below, Stack* stack);
  bool filled_behind_our_back(const Op& op, const Stack& stack, size_t first_bind);
};

bool Recorder::Impl::open_written_leaves(const Op& op, const Stack& stack) {
  if (!may_open_leaves || !op.schema().is_mutable() || !c10::GradMode::is_enabled()) return false;
  if (ops::changes_geometry_in_place(op)) return false;
  if (ops::writes_out_argument(op) && !ops::functional_variant(op)) return false;
  bool any = false;
  const size_t count = op.schema().arguments().size();
  auto look_at = [&](const at::Tensor& t) {
    if (!t.defined() || !is_plain(t)) return;
    const at::Tensor leaf = ops::leaf_that_forbids_writing(t);
    if (!leaf.defined()) return;
    const bool made_here = find(leaf) != kNoValue && given.count(leaf.unsafeGetTensorImpl()) == 0;
    const ValueId id = made_here ? kNoValue : use(leaf);
    if (id == kNoValue) return;
    OpenedLeaf o{leaf, {}, kNoValue, {}};
    {
      Pause pause;
      o.open = ops::open_leaf(leaf);
    }
    PendingBind p{ir::Bind{prims::open_leaf(), {Arg(id)}, {}, location(), region, true}};
    o.value = new_result(o.open, static_cast<int32_t>(binds.size()));
    p.bind.results.emplace_back(o.value);
    binds.push_back(std::move(p));
    opened.push_back(std::move(o));
    leaf_writes.push_back(
        (position.file.empty() ? "" : position.file + ":" + std::to_string(position.line) + ": ") +
        op.id());
    any = true;
  };
  for (size_t i = 0; i < count; ++i) {
    if (!ops::writes_argument(op, i)) continue;
    const IValue& v = stack[stack.size() - count + i];
    if (v.isTensor()) look_at(v.toTensor());
    if (v.isTensorList())
      for (const IValue& e : v.toListRef()) look_at(e.toTensor());
  }
  return any;
}

// The tensor that operators get for `t`: itself, unless it is an opened leaf or a view of one.
at::Tensor Recorder::Impl::opened_alias(const at::Tensor& t) {
  for (OpenedLeaf& o : opened) {
    if (t.is_same(o.leaf)) return o.open;
    if (!t.is_view() || !t.requires_grad() || !at::Tensor(t._base()).is_same(o.leaf)) continue;
    for (const auto& [view, alias] : o.views)
      if (t.is_same(view)) return alias;
    const ValueId id = use(t);
    Pause pause;
    c10::AutoGradMode with_grad(true);
    const at::Tensor alias = o.open.as_strided(t.sizes(), t.strides(), t.storage_offset());
    if (id != kNoValue) by_impl[alias.unsafeGetTensorImpl()] = id;
    o.views.emplace_back(t, alias);
    return alias;
  }
  return t;
}

void Recorder::Impl::use_opened_leaves(Stack* stack, size_t arguments) {
  for (size_t i = stack->size() - arguments; i < stack->size(); ++i) {
    IValue& v = (*stack)[i];
    if (v.isTensor() && v.toTensor().defined()) {
      v = opened_alias(v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const IValue& e : v.toListRef())
        list.push_back(e.toTensor().defined() ? opened_alias(e.toTensor()) : e.toTensor());
      v = list;
    } else if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const IValue& e : v.toListRef())
        list.push_back(e.isTensor() ? std::optional(opened_alias(e.toTensor())) : std::nullopt);
      v = list;
    }
  }
}

// The part of a closed leaf's value (whose id is `closed`) that `like` showed of the leaf.
at::Tensor Recorder::Impl::view_of_closed(const at::Tensor& value, ValueId closed,
                                          const at::Tensor& like, int64_t offset) {
  at::Tensor view = value.as_strided(like.sizes(), like.strides(), value.storage_offset() + offset);
  PendingBind p{ir::Bind{prims::strided_view(),
                         {Arg(closed), Arg(IValue(like.sizes().vec())),
                          Arg(IValue(like.strides().vec())), Arg(IValue(offset))},
                         {},
                         -1,
                         -1,
                         true}};
  p.bind.results.emplace_back(new_result(view, static_cast<int32_t>(binds.size())));
  binds.push_back(std::move(p));
  return view;
}

// out= of tensors that require grad, which eager refuses: the values are computed, then copied.
void Recorder::Impl::write_out_arguments(const Op& op, Stack* stack) {
  const auto functional = ops::functional_variant(op);
  const size_t count = op.schema().arguments().size();
  const Stack args(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  Stack computed;
  for (int a : functional->argument_of) computed.push_back(args[static_cast<size_t>(a)]);
  functional->op.handle().callBoxed(&computed);
  stack->resize(stack->size() - count);
  static const auto copy = Op::get("aten::copy_").handle();
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!ops::writes_argument(op, i)) continue;
    const at::Tensor value = computed.at(next++).toTensor();
    TORCH_CHECK(args[i].toTensor().sizes() == value.sizes(), op.id(), ": out= has the shape ",
                args[i].toTensor().sizes(), ", the result has ", value.sizes(),
                "; a leaf that requires grad is not resized");
    Stack call{args[i], IValue(value), IValue(false)};
    copy.callBoxed(&call);
    stack->push_back(args[i]);
  }
}

// A leaf operator: what autograd sees.
void Recorder::Impl::leaf(const c10::OperatorHandle& handle, DispatchKeySet below, Stack* stack) {
  const Op op(handle);
  const auto& schema = op.schema();
  ++operators;
  update_position();
  if (c10::InferenceMode::is_enabled() != ambient_inference)
    refuse("FG-132", "inference mode is switched inside the function, which is not compiled yet");
  if (open_written_leaves(op, *stack)) {
    use_opened_leaves(stack, schema.arguments().size());
    if (ops::writes_out_argument(op)) return write_out_arguments(op, stack);
  }
  zero_unwritten(op, *stack);
  PendingBind p{ir::Bind{op, {}, {}, location(), region, c10::GradMode::is_enabled()}};
  if (ops::lifts_constant(op) && stack->back().isTensor() &&
      find(stack->back().toTensor()) == kNoValue) {
    // torch.tensor(...): the contents are a literal of the program.
    const at::Tensor& t = stack->back().toTensor();
    ExcludeKey off(kKey);
    const ValueId id =
        new_value(t, -1, "c" + std::to_string(values.size()), ir::ValueKind::Constant);
    values[id].constant = t.detach().clone();
    p.bind.args.emplace_back(id);
  } else {
    p.bind.args = arguments(*stack, schema.arguments().size());
  }
  if (changes_given_tensor(op, *stack))
    refuse("FG-140",
           op.id() +
               " changes the shape of a tensor that the caller can see, which is not compiled yet");
  // The autograd kernel of a mutable operator may clone what it must save before it writes. That
  // clone is part of the program: the key stays on, and the operator itself is pushed after it.
  // A user's rule saves what it needs out of sight.
  const bool ruled = by_rule(op, stack);
  const bool key_stays_on = !ruled && schema.is_mutable() && c10::GradMode::is_enabled();
  size_t index = binds.size();
  if (!key_stays_on) binds.push_back(p);
  if (!ruled) {
    std::optional<ExcludeKey> off;
    if (!key_stays_on) off.emplace(kKey);
    ++nesting;
    try {
      handle.redispatchBoxed(below, stack);
    } catch (...) {
      --nesting;
      if (!key_stays_on) binds[index].dead = true;
      throw;
    }
    --nesting;
  }
  if (key_stays_on) {
    index = binds.size();
    binds.push_back(std::move(p));
  }
  if (key_stays_on || ruled)
    for (size_t a : ops::written_arguments(binds[index].bind))
      ir::for_each_value(binds[index].bind.args[a],
                         [&](ValueId id) { written_with_grad.insert(facts[id].storage); });
  PendingBind done = std::move(binds[index]);
  results(done, static_cast<int32_t>(index), *stack);
  binds[index] = std::move(done);
  if (ops::leaves_memory_uninitialised(op))
    for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
      if ((*stack)[i].isTensor()) fresh.allocated((*stack)[i].toTensor());
  expect_results(index, *stack);
}

// Some composites allocate with empty* and fill the memory without dispatching anything.
bool Recorder::Impl::filled_behind_our_back(const Op& op, const Stack& stack, size_t first_bind) {
  const size_t count = op.schema().returns().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (!stack[i].isTensor()) continue;
    const at::Tensor& t = stack[i].toTensor();
    if (!t.defined() || t.numel() == 0) continue;
    const ValueId id = find(t);
    if (id == kNoValue) return true;
    const int32_t producer = facts[id].producer;
    if (producer < static_cast<int32_t>(first_bind)) continue;
    if (!ops::leaves_memory_uninitialised(binds[producer].bind.op)) continue;
    bool written = false;
    for (size_t q = producer + 1; q < binds.size() && !written; ++q) {
      if (!binds[q].bind.op.schema().is_mutable()) continue;
      ir::for_each_arg(binds[q].bind, [&](ValueId a) {
        written = written || facts[a].storage == facts[id].storage;
      });
    }
    if (!written) return true;
  }
  return false;
}

void Recorder::Impl::composite(const c10::OperatorHandle& handle, DispatchKeySet below,
                               Stack* stack) {
  const Op op(handle);
  update_position();
  const size_t arg_count = op.schema().arguments().size();
  const size_t first_bind = binds.size();
  Stack saved(stack->end() - static_cast<std::ptrdiff_t>(arg_count), stack->end());
  ir::Region r{op, arguments(*stack, arg_count), {}, location(), region, position.module};
  const auto region_id = static_cast<int32_t>(regions.size());
  regions.push_back(std::move(r));
  region_dead.push_back(false);
  const int32_t outer = region;
  region = region_id;
  try {
    handle.redispatchBoxed(below, stack);
  } catch (...) {
    region = outer;
    throw;
  }
  region = outer;
  if (ops::reads_integers(op))
    refuse(
        "FG-133",
        op.id() +
            " reads the numbers in an integer tensor without an operator that could be recorded");
  if (filled_behind_our_back(op, *stack, first_bind)) {
    for (size_t i = first_bind; i < binds.size(); ++i) binds[i].dead = true;
    for (size_t i = region_id; i < regions.size(); ++i) region_dead[i] = true;
    PendingBind p{ir::Bind{op,
                           regions[region_id].args,
                           {},
                           regions[region_id].location,
                           region,
                           c10::GradMode::is_enabled()}};
    const auto index = static_cast<int32_t>(binds.size());
    results(p, index, *stack);
    binds.push_back(std::move(p));
    return;
  }
  const size_t count = op.schema().returns().size();
  for (size_t i = stack->size() - count; i < stack->size(); ++i) {
    const IValue& v = (*stack)[i];
    if (v.isTensor() && v.toTensor().defined()) {
      regions[region_id].results.emplace_back(find(v.toTensor()));
    } else if (v.isTensorList()) {
      ValueList list;
      for (const IValue& e : v.toListRef())
        list.push_back(e.toTensor().defined() ? find(e.toTensor()) : kNoValue);
      regions[region_id].results.emplace_back(std::move(list));
    } else {
      regions[region_id].results.emplace_back(kNoValue);
    }
  }
}

namespace {

bool is_functorch_key(DispatchKey k) {
  return k == DispatchKey::FuncTorchDynamicLayerFrontMode || k == DispatchKey::FuncTorchBatched ||
         k == DispatchKey::FuncTorchGradWrapper || k == DispatchKey::FuncTorchVmapMode ||
         k == DispatchKey::Batched || k == DispatchKey::VmapMode;
}

bool is_autocast_key(DispatchKey k) {
  return k == DispatchKey::AutocastCPU || k == DispatchKey::AutocastCUDA;
}

void fallback(const c10::OperatorHandle& op, DispatchKeySet ks, Stack* stack) {
  const DispatchKeySet below = ks & DispatchKeySet(DispatchKeySet::FULL_AFTER, kKey);
  Recorder* recorder = active;
  const bool silent =
      recorder != nullptr && (recorder->impl().refusal || recorder->impl().rules_only);
  if (recorder == nullptr || ops::is_bookkeeping(Op(op)) || (silent && !rules::any())) {
    ExcludeKey off(kKey);
    op.redispatchBoxed(below, stack);
    return;
  }
  Recorder::Impl& r = recorder->impl();
  if (!r.opened.empty()) r.use_opened_leaves(stack, op.schema().arguments().size());
  if (r.nesting > 0) {
    // Inside a leaf that kept the key on: only what its autograd kernel itself calls belongs to the
    // program.
    const bool autograd_kernel =
        r.nesting == 1 &&
        !c10::impl::tls_is_dispatch_key_excluded(DispatchKey::AutogradFunctionality) &&
        !c10::impl::tls_is_dispatch_key_excluded(DispatchKey::ADInplaceOrView);
    if (!autograd_kernel) {
      ExcludeKey off(kKey);
      op.redispatchBoxed(below, stack);
      return;
    }
  }
  // functorch wrappers and autocast casts are transparent: what they call comes back here.
  const DispatchKey highest = below.highestPriorityTypeId();
  const bool autocasts = is_autocast_key(highest) && op.hasKernelForDispatchKey(highest);
  if (is_functorch_key(highest) || autocasts) {
    op.redispatchBoxed(below, stack);
    return;
  }
  const DispatchKeySet kernel_keys = is_autocast_key(highest) ? below.remove(highest) : below;
  bool composite = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
                   !op.hasKernelForDispatchKey(kernel_keys.highestPriorityTypeId());
  if (composite) {
    // Some operators have both a composite and a backend kernel: on that backend they are leaves.
    auto backend = below.highestBackendKey();
    if (backend == c10::BackendComponent::InvalidBit) backend = c10::BackendComponent::CPUBit;
    composite = !op.hasKernelForDispatchKey(
        c10::toRuntimePerBackendFunctionalityKey(DispatchKey::Dense, backend));
  }
  // A composite that has a user's rule is one operator.
  if (composite && rules::find(Op(op))) composite = false;
  if (silent) {
    // Nothing is recorded any more, but users' rules go on to hold for the parts of composites.
    if (composite) {
      op.redispatchBoxed(below, stack);
    } else if (!r.by_rule(Op(op), stack)) {
      ExcludeKey off(kKey);
      op.redispatchBoxed(below, stack);
    }
  } else if (composite) {
    r.composite(op, below, stack);
  } else {
    r.leaf(op, below, stack);
  }
}

}  // namespace

// ---- Recorder
// -------------------------------------------------------------------------------------------
Recorder::Recorder(std::string name, PositionProvider where) : impl_(std::make_unique<Impl>()) {
  impl_->name = std::move(name);
  impl_->where = where;
}

Recorder::~Recorder() = default;

void Recorder::open_leaves() { impl_->may_open_leaves = true; }

const std::vector<std::string>& Recorder::leaf_writes() const { return impl_->leaf_writes; }

void Recorder::close_leaves(std::vector<at::Tensor>& outputs, const WriteBack& write_back) {
  Impl& r = *impl_;
  Pause pause;
  c10::AutoGradMode with_grad(true);
  for (const Impl::OpenedLeaf& o : r.opened) {
    at::Tensor value;
    // The write-back has happened; a user's rule for it says how gradients pass.
    Stack call{IValue(o.open), IValue(o.leaf.detach().clone())};
    if (rule_hook != nullptr && rules::find(prims::copy_()) &&
        rule_hook(prims::copy_(), call, r.leaf_writes.front())) {
      value = call.back().toTensor();
      const auto rule = rules::find(prims::copy_());
      if (rule != nullptr && (rule->forward || rule->joint)) {
        // It wrote something else than the program did.
        c10::AutoGradMode no_grad(false);
        o.open.detach().copy_(value);
      }
    } else {
      value = o.open.clone();
    }
    if (write_back) {
      c10::AutoGradMode no_grad(false);
      const at::Tensor given = write_back(value, o.leaf);
      if (given.defined()) value.detach().copy_(given);
    }
    PendingBind close{ir::Bind{prims::close_leaf(), {Arg(r.use(o.open))}, {}, -1, -1, true}};
    const ValueId closed = r.new_result(value, static_cast<int32_t>(r.binds.size()));
    close.bind.results.emplace_back(closed);
    r.binds.push_back(std::move(close));
    for (at::Tensor& t : outputs) {
      if (!t.defined() || !t.requires_grad() || !t.is_alias_of(o.leaf)) continue;
      if (t.is_same(o.leaf) || t.is_same(o.open)) {
        t = value;
      } else if (value.strides() != o.leaf.strides()) {
        r.refuse("FG-182",
                 "a view of a leaf that the function wrote in place is returned, and the leaf is "
                 "itself a strided part of its memory");
      } else {
        t = r.view_of_closed(value, closed, t, t.storage_offset() - o.leaf.storage_offset());
      }
    }
  }
}

ValueId Recorder::add_input(const at::Tensor& tensor, const std::string& name) {
  Impl& r = *impl_;
  const ValueId known = r.find(tensor);
  if (known != kNoValue) return known;
  if (!is_plain(tensor)) {
    r.refuse("FG-110", "argument " + name + " is a tensor of a kind that is not compiled yet (" +
                           tensor.toString() + "); supported are strided, dense tensors");
    return kNoValue;
  }
  const ValueId id = r.new_value(tensor, -1, name, ir::ValueKind::Input);
  r.inputs.push_back(id);
  r.given.insert(tensor.unsafeGetTensorImpl());
  r.note_leaf(tensor, id);
  return id;
}

Recorder::Scope::Scope(Recorder& recorder)
    : outer_(active), outer_included_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  active = &recorder;
  recorder.impl().outer_excluded = c10::impl::tls_is_dispatch_key_excluded(kKey);
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  c10::impl::tls_set_dispatch_key_excluded(kKey, false);
}

Recorder::Scope::~Scope() {
  c10::impl::tls_set_dispatch_key_excluded(kKey, active->impl().outer_excluded);
  active = outer_;
  c10::impl::tls_set_dispatch_key_included(kKey, outer_included_);
}

Numbers& Recorder::numbers() { return impl_->numbers; }

Mark Recorder::mark() const { return {impl_->binds.size(), impl_->regions.size()}; }

int Recorder::read_number(Mark since, const IValue& value) {
  Impl& r = *impl_;
  ValueId found = kNoValue;
  for (size_t i = since.binds; i < r.binds.size(); ++i)
    for_each_result(r.binds[i].bind, [&](ValueId id) {
      if (r.expectations.count(id) == 0) return;
      found = found == kNoValue ? id : -2;  // of several it is not known which
    });
  if (found < 0) return -1;
  const size_t expectation = r.expectations.at(found);
  const auto* expected = std::get_if<IValue>(&r.binds[expectation].bind.args[1]);
  if (expected == nullptr || !same_number(*expected, value)) return -1;
  return r.numbers.read(value, found, expectation);
}

void Recorder::use_numbers(Mark since, const std::vector<NumberPlace>& places) {
  Impl& r = *impl_;
  // The operator is the last one; before it an autograd kernel may have cloned what it saves.
  size_t index = r.binds.size();
  bool plain = r.regions.size() == since.regions;
  for (size_t i = r.binds.size(); i-- > since.binds;) {
    if (r.binds[i].dead) continue;
    const auto& op = r.binds[i].bind.op;
    if (op == prims::expect_int() || op == prims::expect_float() || op == prims::expect_bool() ||
        op == prims::expect_sizes())
      continue;
    if (index == r.binds.size()) {
      index = i;
    } else {
      plain = plain && !has_constant_number(r.binds[i].bind);
    }
  }
  for (const NumberPlace& place : places) {
    std::optional<size_t> argument;
    if (plain && index < r.binds.size())
      argument = argument_of(r.binds[index].bind, r.values, place, r.numbers.value(place.node));
    if (argument) {
      r.numbers.use(index, *argument, place.element, place.node);
    } else {
      r.numbers.fix(place.node);
    }
  }
}

void Recorder::check_number(int comparison) {
  impl_->update_position();
  impl_->numbers.check(comparison, impl_->binds.size(), impl_->region, impl_->location());
}

void Recorder::refuse(const std::string& code, const std::string& message) {
  impl_->refuse(code, message);
}

void Recorder::note_grad_access(const at::Tensor& leaf) {
  for (const Impl::OpenedLeaf& o : impl_->opened)
    if (o.leaf.is_same(leaf))
      impl_->refuse("FG-183",
                    "the .grad of a leaf is used after the function wrote the leaf in place");
  if (leaf.requires_grad() && leaf.is_leaf()) impl_->use(leaf);
}

void Recorder::note_requires_grad(const at::Tensor& t) { impl_->use(t); }

void Recorder::note_grad_write(const at::Tensor& leaf) {
  impl_->use(leaf);
  for (auto& l : impl_->leaves)
    if (l.tensor.is_same(leaf)) l.grad_set = true;
}

const std::vector<External>& Recorder::externals() const { return impl_->externals; }

void Recorder::name_external(size_t index, std::string name) {
  impl_->values[impl_->externals.at(index).value].name = std::move(name);
}

Recording Recorder::finish(const std::vector<at::Tensor>& outputs, std::string output_template) {
  Impl& r = *impl_;
  Recording recording;
  recording.operators = r.operators;
  std::vector<ValueId> output_ids;
  for (const at::Tensor& t : outputs) output_ids.push_back(t.defined() ? r.use(t) : kNoValue);
  std::vector<std::pair<ValueId, ValueId>> grad_writes;
  for (const auto& leaf : r.leaves) {
    recording.leaves.push_back({leaf.tensor, leaf.grad.defined()});
    const at::Tensor now = leaf.tensor.grad();
    if (leaf.grad_set || now.defined() != leaf.grad.defined() ||
        (now.defined() && !now.is_same(leaf.grad)))
      grad_writes.emplace_back(leaf.value, now.defined() ? r.use(now) : kNoValue);
  }
  if (r.refusal) {
    recording.refusal = r.refusal;
    return recording;
  }
  r.place();
  recording.numbers = r.placed_numbers.inputs;

  ir::TraceBuilder b(r.name, "recorded");
  ir::Trace& t = b.trace();
  std::vector<ValueId> ids(r.values.size(), kNoValue);
  for (ValueId id : r.inputs) ids[id] = b.add_input(r.values[id]);
  for (External& e : r.externals) {
    ids[e.value] = b.add_input(r.values[e.value]);
    External x = e;
    x.value = ids[e.value];
    if (x.grad_of >= 0) x.grad_of = ids[x.grad_of];
    recording.externals.push_back(std::move(x));
  }
  for (ValueId id : r.placed_numbers.ids) ids[id] = b.add_input(r.values[id]);
  for (size_t id = 0; id < r.values.size(); ++id) {
    if (r.values[id].kind == ir::ValueKind::Constant) {
      const ir::Value& v = r.values[id];
      ids[id] = b.add_constant(v.constant, "c");
      t.values[ids[id]].storage = v.storage;
    }
  }
  t.locations = r.locations;
  // Regions of composites that were kept whole disappear; so do regions that hold nothing.
  std::vector<bool> region_used(r.regions.size(), false);
  for (const PendingBind& p : r.binds) {
    if (p.dead) continue;
    for (int32_t g = p.bind.region; g >= 0 && !region_used[g]; g = r.regions[g].parent)
      region_used[g] = true;
  }
  auto map_value = [&](ValueId id) {
    if (id == kNoValue) return kNoValue;
    if (ids[id] == kNoValue) ids[id] = b.add_value(r.values[id]);
    return ids[id];
  };
  auto map = [&](const auto& a) {
    auto copy = a;
    if (auto* id = std::get_if<ValueId>(&copy)) *id = map_value(*id);
    if (auto* list = std::get_if<ValueList>(&copy))
      for (ValueId& id : *list) id = map_value(id);
    return copy;
  };
  // Values are numbered in the order in which binds define them.
  for (const PendingBind& p : r.binds)
    if (!p.dead) for_each_result(p.bind, [&](ValueId id) { map_value(id); });
  std::vector<int32_t> region_ids(r.regions.size(), -1);
  for (size_t g = 0; g < r.regions.size(); ++g) {
    if (!region_used[g] || r.region_dead[g]) {
      region_ids[g] = r.regions[g].parent >= 0 ? region_ids[r.regions[g].parent] : -1;
      continue;
    }
    ir::Region region{r.regions[g].op,
                      {},
                      {},
                      r.regions[g].location,
                      r.regions[g].parent >= 0 ? region_ids[r.regions[g].parent] : -1,
                      r.regions[g].module};
    for (const Arg& a : r.regions[g].args) region.args.push_back(map(a));
    for (const Result& x : r.regions[g].results) region.results.push_back(map(x));
    region_ids[g] = b.add_region(std::move(region));
  }
  for (const PendingBind& p : r.binds) {
    if (p.dead) continue;
    ir::Bind bind{p.bind.op,
                  {},
                  {},
                  p.bind.location,
                  p.bind.region >= 0 ? region_ids[p.bind.region] : -1,
                  p.bind.grad_mode};
    for (const Arg& a : p.bind.args) bind.args.push_back(map(a));
    for (const Result& x : p.bind.results) bind.results.push_back(map(x));
    b.add_bind(std::move(bind));
  }
  for (auto [leaf, grad] : grad_writes) {
    std::vector<Arg> args{Arg(map_value(leaf))};
    if (grad == kNoValue) {
      args.emplace_back(IValue());
    } else {
      args.emplace_back(map_value(grad));
    }
    b.add_bind(ir::Bind{prims::set_grad(), std::move(args), {}, -1, -1, true});
  }
  for (ValueId id : output_ids) t.outputs.push_back(map_value(id));
  t.output_template = std::move(output_template);
  t.epilogue = t.binds.size();
  recording.trace = b.finish();
  return recording;
}

void set_rule_hook(RuleHook hook) { rule_hook = hook; }

UnderRules::UnderRules(PositionProvider where) {
  if (!rules::any() || active != nullptr) return;
  recorder_ = std::make_unique<Recorder>("eager", where);
  recorder_->impl().rules_only = true;
  scope_ = std::make_unique<Recorder::Scope>(*recorder_);
}
UnderRules::~UnderRules() = default;

bool recording() { return active != nullptr && !active->impl().rules_only; }

Pause::Pause() : excluded_before_(c10::impl::tls_is_dispatch_key_excluded(kKey)) {
  c10::impl::tls_set_dispatch_key_excluded(kKey, true);
}
Pause::~Pause() { c10::impl::tls_set_dispatch_key_excluded(kKey, excluded_before_); }

void install() {
  static std::unique_ptr<torch::Library> library;
  if (library) return;
  try {
    auto lib = std::make_unique<torch::Library>(torch::Library::IMPL, "_", std::make_optional(kKey),
                                                __FILE__, __LINE__);
    lib->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
    library = std::move(lib);
  } catch (const c10::Error& e) {
    throw UserError(
        "FG-002", std::string("the dispatch key ") + key_name() +
                      " is taken by another library in this process, so fulgurite cannot record: " +
                      e.what_without_backtrace());
  }
}

const char* key_name() { return c10::toString(kKey); }

std::string self_test() {
  at::Tensor x = at::ones({2, 2});
  Recorder recorder("self_test");
  recorder.add_input(x, "x");
  at::Tensor y;
  {
    Recorder::Scope scope(recorder);
    y = x.add(1).mul_(2);
  }
  const Recording r = recorder.finish({y}, "");
  if (r.refusal) return r.refusal->what();
  if (r.trace->binds.size() != 2 || r.trace->binds[0].op.name() != "aten::add" ||
      r.trace->binds[1].op.name() != "aten::mul_")
    return "expected the operators aten::add, aten::mul_ in the recording of a two-operator "
           "program, found " +
           std::to_string(r.trace->binds.size()) + " operators";
  return "";
}

}  // namespace fulgurite::record
