#include "record/backward_numbers.h"

#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "ir/literal.h"
#include "ir/schema_args.h"
#include "record/tensors.h"

namespace fulgurite::record {

using c10::IValue;
using ir::Arg;
using ir::Bind;

void BackwardNumbers::add_tensor(const at::Tensor& number, size_t bind, size_t argument) {
  const auto [it, is_new] = tensors_.emplace(number.unsafeGetTensorImpl(), Place{bind, argument});
  if (is_new) {
    held_.push_back(number);
  } else {
    same_.push_back({{bind, argument}, it->second});
  }
}

bool BackwardNumbers::knows(const at::Tensor& number) const {
  return tensors_.count(number.unsafeGetTensorImpl()) > 0;
}

void BackwardNumbers::add_saved(int number, const std::vector<at::Tensor>& results,
                                VaryingNumber formula) {
  Saved saved{number, {}, std::move(formula)};
  bool one = true;
  for (const at::Tensor& t : results) {
    const auto* view = torch::autograd::impl::get_view_autograd_meta(t);
    const auto* meta = torch::autograd::impl::get_autograd_meta(t);
    // A view's node may be out of date, or wrapped into that of a write.
    one = one && (view == nullptr || !view->has_bw_view());
    if (meta == nullptr || meta->grad_fn_ == nullptr) continue;
    one = one && (saved.node == nullptr || saved.node == meta->grad_fn_);
    saved.node = meta->grad_fn_;
  }
  if (!one) saved.node.reset();
  if (saved.node != nullptr) by_node_[saved.node.get()].push_back(saved_.size());
  saved_.push_back(std::move(saved));
}

void BackwardNumbers::add_bind(size_t bind) {
  if (!in_backward()) return;
  any_backward_ = true;
  if (saved_.empty()) return;
  const auto node = torch::autograd::get_current_node();
  if (const auto it = by_node_.find(node.get()); it != by_node_.end())
    for (size_t k : it->second) saved_[k].binds.push_back(bind);
}

bool BackwardNumbers::in_formula() const {
  return !saved_.empty() && by_node_.count(torch::autograd::get_current_node().get()) > 0;
}

namespace {

// The engine adds up the gradients of what several operators took, as part of the node that ran
// last.
bool adds_up(const Bind& b) {
  static const ir::Op add = ir::Op::get("aten::add", "Tensor");
  static const ir::Op add_in_place = ir::Op::get("aten::add_", "Tensor");
  const auto* alpha = b.args.size() == 3 ? std::get_if<IValue>(&b.args[2]) : nullptr;
  return (b.op == add || b.op == add_in_place) && std::holds_alternative<ir::ValueId>(b.args[0]) &&
         std::holds_alternative<ir::ValueId>(b.args[1]) && alpha != nullptr && alpha->isInt() &&
         alpha->toInt() == 1;
}

}  // namespace

// Whether `found` is that step of the formula; `places` gets where the number stands in it.
bool BackwardNumbers::is_step(const Saved& saved, size_t step, const PendingBind& pending,
                              const Numbers& numbers, const std::vector<ir::Value>& values,
                              std::vector<size_t>& places) {
  const Bind &found = pending.bind, &want = (*saved.formula.steps)[step];
  if (!(found.op == want.op) || found.args.size() != want.args.size()) return false;
  for (size_t a = 0; a < found.args.size(); ++a) {
    const auto *x = std::get_if<IValue>(&found.args[a]), *y = std::get_if<IValue>(&want.args[a]);
    if ((x == nullptr) != (y == nullptr)) return false;
    if (x == nullptr) continue;
    bool is_number = false;
    for (const auto& [s, argument] : saved.formula.places)
      is_number = is_number || (s == step && argument == a);
    if (!is_number) {
      if (!ir::same_constant(*x, *y)) return false;
      continue;
    }
    const auto& type = ir::full_type(found.op.schema().arguments()[a]);
    if (!same_number(*x, numbers.value(saved.number)) ||
        (has_gradient(found, values) && !ir::is_tensor_type(type)))
      return false;
    places.push_back(a);
  }
  return true;
}

// The formula, as often as the node ran, and sums of gradients between. (Which sums are those does
// not matter: no number stands in them.)
bool BackwardNumbers::match(const Saved& saved, Numbers& numbers,
                            const std::vector<PendingBind>& pending,
                            const std::vector<ir::Value>& values) {
  if (saved.formula.steps == nullptr || saved.formula.steps->empty()) return false;
  const size_t count = saved.formula.steps->size();
  std::vector<Place> places;
  size_t step = 0, begin = 0;  // of the run that goes on: the next step, and its first bind
  std::vector<size_t> binds;
  for (size_t i : saved.binds)
    if (!pending[i].dead) binds.push_back(i);
  for (size_t k = 0; k < binds.size(); ++k) {
    std::vector<size_t> here;
    if (step == 0) begin = k;
    if (is_step(saved, step, pending[binds[k]], numbers, values, here)) {
      for (size_t a : here) places.push_back({binds[k], a});
      step = (step + 1) % count;
      continue;
    }
    // What looked like the beginning of a run was a sum.
    if (!adds_up(pending[binds[begin]].bind) || step > 1 || begin == 0) return false;
    if (!places.empty() && places.back().bind == binds[begin]) return false;
    if (step == 1) k = begin;
    step = 0;
  }
  if (step == 1 && begin > 0 && adds_up(pending[binds[begin]].bind)) step = 0;
  if (step != 0) return false;
  for (const Place& p : places) numbers.use(p.bind, p.argument, -1, saved.number);
  return true;
}

void BackwardNumbers::resolve(Numbers& numbers, const std::vector<PendingBind>& binds,
                              const std::vector<ir::Value>& values) const {
  for (const Saved& s : saved_) {
    // Of a node that is not known it is not known either whether it ran.
    const bool unknown = s.node == nullptr && any_backward_;
    if (unknown || (!s.binds.empty() && !match(s, numbers, binds, values))) numbers.fix(s.number);
  }
  const std::vector<Numbers::Use> uses = numbers.uses();
  for (const Same& s : same_)
    for (const Numbers::Use& u : uses)
      if (u.bind == s.first.bind && u.argument == s.first.argument && u.element < 0)
        numbers.use(s.place.bind, s.place.argument, -1, u.node);
}

}  // namespace fulgurite::record
