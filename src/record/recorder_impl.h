// The recorder's inside, shared by the files that implement it: recorder.cpp (operators as they
// come), opened_leaves.cpp, finish.cpp (what was noted becomes a trace), dispatch.cpp (how they
// come).
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ops/memory.h"
#include "ops/prims.h"
#include "ops/rules.h"
#include "ops/traits.h"
#include "record/backward_numbers.h"
#include "record/fresh_memory.h"
#include "record/place_numbers.h"
#include "record/recorder.h"
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

constexpr DispatchKey kKey = DispatchKey::FULGURITE_RECORDER_KEY;
using ExcludeKey = c10::impl::ExcludeDispatchKeyGuard;

// The recorder of this thread, and the hook of users' rules (dispatch.cpp).
Recorder*& active();
RuleHook rule_hook();

// What is noted about a value while recording, beside its ir::Value.
struct Facts {
  c10::StorageImpl* storage = nullptr;
  const void* version_counter = nullptr;
  int32_t producer = -1;  // index into binds, -1: input or external
  bool is_marked_leaf = false;
  bool is_conj = false, is_neg = false;  // shows other values than its memory holds
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
  // What autograd knows of inputs and externals when the program comes upon them.
  struct Given {
    ValueId value;
    at::Tensor tensor;
    at::Tensor base;  // of which it is a view; itself if it is none
    bool is_restricted;
  };
  std::vector<Given> given_tensors;
  std::vector<External> externals;
  std::vector<PendingBind> binds;
  std::vector<ir::Region> regions;
  std::vector<bool> region_dead;
  std::vector<ir::SourceLocation> locations;
  std::unordered_map<std::string, int32_t> location_ids;
  Numbers numbers;
  BackwardNumbers backward_numbers;
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

  std::vector<int32_t> outside_checkpoints;  // by open checkpoint: the region around it
  int functions = 0;                         // calls of custom autograd.Functions
  int next_boundary = 0;
  std::unordered_map<ValueId, int> boundaries;  // values that have hooks

  std::unordered_set<const c10::StorageImpl*> written_with_grad;
  std::unordered_set<const c10::TensorImpl*> given;  // inputs and externals
  std::unordered_set<const c10::TensorImpl*> known_by_memory;
  bool ambient_inference = c10::InferenceMode::is_enabled();
  std::unordered_set<int32_t>
      in_inference;  // binds that ran in inference mode of the program's own
  FreshMemory fresh;
  bool contents_expected = false;  // in a composite whose integers are guarded
  int nesting = 0;                 // inside how many leaf operators that keep the key on
  int32_t region = -1;             // innermost open region
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
    f.is_marked_leaf = record::is_marked_leaf(t);
    f.is_conj = t.is_conj();
    f.is_neg = t.is_neg();
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

  void note_given(const at::Tensor& t, ValueId id) {
    given.insert(t.unsafeGetTensorImpl());
    const auto* meta = torch::autograd::impl::get_view_autograd_meta(t);
    const bool is_view = meta != nullptr && meta->has_bw_view();
    given_tensors.push_back(
        {id, t, is_view ? meta->get_backward_view().base_ : t,
         is_view && meta->get_creation_meta() != torch::autograd::CreationMeta::DEFAULT});
    note_leaf(t, id);
  }

  ValueId external(const at::Tensor& t) {
    int32_t grad_of = -1;
    for (const Leaf& leaf : leaves)
      if (leaf.grad.defined() && leaf.grad.is_same(t)) grad_of = leaf.value;
    const ValueId id =
        new_value(t, -1, "external" + std::to_string(externals.size()), ir::ValueKind::Input);
    externals.push_back({t, id, grad_of});
    note_given(t, id);
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
          if (!same_geometry(values[*i], impl) || facts[*i].is_conj != t.is_conj() ||
              facts[*i].is_neg != t.is_neg())
            continue;
          const bool same_history = values[*i].tensor().requires_grad == t.requires_grad() ||
                                    written_with_grad.count(storage) > 0;
          // Tensors of inference mode have no counter to tell them apart by.
          if (counter != nullptr && facts[*i].version_counter == counter && same_history) {
            by_impl[impl] = *i;
            known_by_memory.insert(impl);
            weak_tensors.emplace_back(t.getIntrusivePtr());
            return *i;
          }
          // Tensor.data: the same memory under another version counter and outside autograd.
          if (!t.requires_grad() || record::is_marked_leaf(t)) {
            known_by_memory.insert(impl);
            const ValueId data = alias(t, *i);
            if (data == kNoValue || !t.requires_grad()) return data;
            std::get<ir::TensorType>(values[data].type).requires_grad = false;
            facts[data].is_marked_leaf = false;
            return with_requires_grad_of(t, data);
          }
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
    if (t.requires_grad() == values[id].tensor().requires_grad) {
      if (is_marked_leaf(t) && !facts[id].is_marked_leaf)
        refuse("FG-187",
               "requires_grad_() was called on a view that had been made without grad mode");
      return id;
    }
    if (t.requires_grad() && !is_marked_leaf(t)) {
      // A write through a view gave its base a history: passes see that from the write itself.
      if (written_with_grad.count(facts[id].storage) > 0) return id;
      if (has_node(t)) {
        refuse("FG-120",
               "a tensor got its history from something that is no operator, such as a C++ "
               "autograd Function");
      } else {
        refuse("FG-187", "requires_grad_() was called on a tensor of which there are views");
      }
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
        IValue number(t.item());
        // A number that varies, in the hands of a node: nobody says which one it is.
        if (in_backward() && !backward_numbers.knows(t) && !backward_numbers.in_formula())
          numbers.fix_all_like(number);
        return Arg(std::move(number));
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
    backward_numbers.resolve(numbers, binds, values);
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

  // Inputs that share memory which the program writes; their base becomes an external if it is
  // none.
  std::vector<SharedInput> shared_inputs(const std::vector<ValueId>& outputs);
  bool uses_older_views(const Given& g, const std::vector<ValueId>& outputs) const;

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
    if (where == nullptr || !rules::any() || rule_hook() == nullptr || nesting > 0) return false;
    update_position();
    const std::string place =
        position.file.empty() ? "" : position.file + ":" + std::to_string(position.line);
    ExcludeKey off(kKey);
    return rule_hook()(op, *stack, place);
  }

  // Memory that nobody has written may hold anything: zeros, in the trace.
  void zero_unwritten(const Op& op, const Stack& stack) {
    if (fresh.empty() || ops::ignores_contents(op)) return;
    const size_t count = op.schema().arguments().size();
    auto one = [&](const at::Tensor& t, size_t argument) {
      if (!fresh.has(t)) return;
      const bool unwritten = fresh.take(t);
      if (ops::overwrites_argument(op, argument)) return;
      // C++ code wrote it, out of numbers that are guarded.
      if (!unwritten && contents_expected) fill_with_constant(t);
      if (!unwritten) return;
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

  bool is_written_after(ValueId id) const;
  void leaf(const c10::OperatorHandle& handle, DispatchKeySet below, Stack* stack);
  bool fill_literal(size_t first, size_t& index, const IValue& number);
  bool may_vary_in_gradient(size_t index, size_t argument, int node);
  std::vector<at::Tensor> results_of(const ir::Bind& bind) const;
  bool hand_on_numbers(Mark since, const std::vector<NumberPlace>& places);
  void leave_inference(const std::vector<at::Tensor>& outputs, std::vector<ValueId>& ids);
  void composite(const c10::OperatorHandle& handle, DispatchKeySet below, Stack* stack);
  // composite.cpp
  bool filled_behind_our_back(const at::Tensor& t, size_t first_bind);
  bool takes(const ir::Bind& bind, const c10::StorageImpl* storage) const;
  bool keeps_whole(const Op& op, const Stack& stack, size_t first_bind);
  void expect_contents(const Op& op, const Stack& arguments);
  void drop_needless_guards(size_t first_guard, size_t first_part);
  void fill_with_constants(const Op& op, const Stack& stack, size_t first_part);
  void fill_with_constant(const at::Tensor& t);
  ValueId constant(const at::Tensor& t);
};

}  // namespace fulgurite::record
