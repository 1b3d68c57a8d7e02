// Leaves that the program writes in place (ops/open_leaf.h).
#include "ops/open_leaf.h"

#include "record/recorder_impl.h"

namespace fulgurite::record {

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
    if (rule_hook() != nullptr && rules::find(prims::copy_()) &&
        rule_hook()(prims::copy_(), call, r.leaf_writes.front())) {
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

}  // namespace fulgurite::record
