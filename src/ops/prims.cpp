#include "ops/prims.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided_scatter.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <bit>
#include <cstring>

#include "ir/errors.h"
#include "ops/open_leaf.h"
#include "ops/value_guard.h"

namespace fulgurite {
namespace {

// In compiled code (run/below_autograd.h), where inputs may require grad and nobody looks at it.
bool below_autograd() {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
}

bool is_differentiated(const at::Tensor& t) {
  return t.requires_grad() && c10::GradMode::is_enabled() && !below_autograd();
}

// A copy, as a result with a history, that has the strides of `like`.
at::Tensor copy_like(const at::Tensor& like, const at::Tensor& contents) {
  return at::empty_strided(like.sizes(), like.strides(), like.options().requires_grad(false))
      .copy_(contents);
}

// Below autograd nobody else bumps the version of what the caller can see.
at::Tensor& copy_impl(const at::Tensor& source, at::Tensor& destination) {
  const bool below = below_autograd();
  // A view whose base has been written looks like a leaf until somebody asks for its node.
  if (!below && destination.requires_grad() && destination.is_view()) destination.grad_fn();
  destination.copy_(source);
  if (below && !destination.is_inference()) destination.unsafeGetTensorImpl()->bump_version();
  return destination;
}

at::Tensor open_leaf_impl(const at::Tensor& leaf) { return ops::open_leaf(leaf); }

// The history is given by who runs the program (run/compiled.cpp).
std::vector<at::Tensor> function_impl(c10::string_view /*name*/, int64_t /*call*/,
                                      at::TensorList /*inputs*/, at::TensorList outputs,
                                      at::TensorList /*saved*/, at::IntArrayRef /*view_of*/,
                                      at::IntArrayRef /*written*/) {
  return outputs.vec();
}

// As for functions; in a trace that is run by itself, autograd knows the leaf.
at::Tensor leaf_impl(const at::Tensor& self, bool /*given*/) {
  return below_autograd() || !c10::GradMode::is_enabled() ? self
                                                          : self.detach().requires_grad_(true);
}
at::Tensor boundary_impl(const at::Tensor& self, int64_t /*number*/,
                         const std::optional<at::Tensor>& /*base*/) {
  return self;
}
at::Tensor argument_impl(const at::Tensor& self, const at::Tensor& /*given*/,
                         const std::optional<at::Tensor>& /*written*/) {
  return self;
}
void checkpoint_impl(bool /*preserves_random_state*/) {}

at::Tensor random_state_impl() { return at::detail::getDefaultCPUGenerator().get_state(); }
at::Tensor exchange_random_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  at::Tensor before = generator.get_state();
  generator.set_state(state);
  return before;
}
std::tuple<at::Tensor, at::Tensor> draw_again_impl(const at::Tensor& state,
                                                   const at::Tensor& self) {
  return {exchange_random_state(state), self};
}
at::Tensor end_draw_impl(const at::Tensor& before, const at::Tensor& drawn) {
  exchange_random_state(before);
  return drawn;
}

void keep_impl(at::TensorList /*values*/) {}
// Stands in traces that are only read: the user's Python, which needs its context.
std::vector<at::Tensor> function_backward_impl(c10::string_view name, int64_t /*call*/,
                                               const c10::List<std::optional<at::Tensor>>& /*g*/) {
  TORCH_CHECK(false, name, ".backward is Python, which this trace does not hold");
}

at::Tensor close_leaf_impl(const at::Tensor& open) { return open.clone(); }

at::Tensor set_data_impl(const at::Tensor& self, const at::Tensor& data) {
  if (!is_differentiated(self)) return data.detach();
  // Under autograd (create_graph): a copy has the identity as its gradient, and saves nothing.
  at::Tensor result = copy_like(data, self);
  result.detach().copy_(data);
  return result;
}

at::Tensor replace_impl(const at::Tensor& self, const at::Tensor& data) {
  if (!is_differentiated(self)) return data;
  // Under autograd (create_graph): an operator whose gradients are those.
  const at::Tensor always = at::ones({}, self.options().dtype(at::kBool).requires_grad(false));
  return copy_like(data, at::where(always, data, self));
}

at::Tensor data_impl(const at::Tensor& self) { return self.variable_data(); }

at::Tensor inference_impl(const at::Tensor& self) {
  if (self.is_inference()) return self;
  const c10::InferenceMode inside;
  at::Tensor out = at::empty({0}, self.options());
  out.set_(self.storage(), self.storage_offset(), self.sizes(), self.strides());
  out._set_conj(self.is_conj());
  out._set_neg(self.is_neg());
  return out;
}

at::Tensor conform_impl(const at::Tensor& self, at::ScalarType dtype, at::IntArrayRef strides) {
  if (self.scalar_type() == dtype && self.strides() == strides && self.storage_offset() == 0)
    return self;
  at::Tensor out = at::empty_strided(self.sizes(), strides, self.options().dtype(dtype));
  return out.copy_(self);
}

at::Tensor strided_view_impl(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
                             int64_t offset) {
  return self.as_strided(size, stride, self.storage_offset() + offset);
}

at::Tensor strided_scatter_impl(const at::Tensor& self, const at::Tensor& src, at::IntArrayRef size,
                                at::IntArrayRef stride, int64_t offset) {
  if (!self.requires_grad() && !is_differentiated(src))
    return at::as_strided_scatter(self, src, size, stride, self.storage_offset() + offset);
  // Under autograd (create_graph) the gradient of as_strided_scatter is wrong for self, and it
  // refuses one that requires grad below autograd as well.
  at::Tensor out = copy_like(self, self);
  out.as_strided(size, stride, offset).copy_(src);
  return out;
}

at::Tensor index_sum_impl(const at::Tensor& self,
                          const c10::List<std::optional<at::Tensor>>& indices,
                          at::IntArrayRef size) {
  return self.index(indices).sum_to_size(size).contiguous();
}

void set_grad_impl(at::Tensor& leaf, const std::optional<at::Tensor>& grad) {
  leaf.mutable_grad() = grad ? *grad : at::Tensor();
}

at::Tensor& set_requires_grad_impl(at::Tensor& self, bool requires_grad) {
  self.requires_grad_(requires_grad);
  return self;
}

at::Tensor overwritten_impl(const at::Tensor& /*cotangent*/, c10::string_view what) {
  TORCH_CHECK(false,
              "one of the variables needed for gradient computation has been modified by an "
              "inplace operation: ",
              what);
}

at::Tensor& resize_output_impl(at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride) {
  const at::AutoDispatchBelowADInplaceOrView inside_an_operator;
  if (self.sizes() != size) self.resize_(size);
  if (self.strides() != stride) self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return self;
}

void bump_version_impl(at::Tensor& self, int64_t by) {
  if (self.is_inference()) return;
  for (int64_t i = 0; i < by; ++i) self.unsafeGetTensorImpl()->bump_version();
}

thread_local uint64_t found_last = 0;

[[noreturn]] void abandon(uint64_t found) {
  found_last = found;
  throw prims::ValueGuardFailed();
}

uint64_t hash_of(bool found) { return found ? 1 : 2; }
uint64_t hash_of(int64_t found) { return static_cast<uint64_t>(found); }
uint64_t hash_of(double found) { return std::bit_cast<uint64_t>(found); }
uint64_t hash_of(at::IntArrayRef found) {
  uint64_t hash = 0;
  for (int64_t n : found) hash = hash * 1000003 + static_cast<uint64_t>(n);
  return hash;
}

void expect_int_impl(int64_t found, int64_t expected) {
  if (found != expected) abandon(hash_of(found));
}
void expect_float_impl(double found, double expected) {
  if (std::memcmp(&found, &expected, sizeof found) != 0) abandon(hash_of(found));
}
void expect_bool_impl(bool found, bool expected) {
  if (found != expected) abandon(hash_of(found));
}
void expect_sizes_impl(const at::Tensor& self, at::IntArrayRef sizes) {
  if (self.sizes() != sizes) abandon(hash_of(self.sizes()));
}
void expect_values_impl(const at::Tensor& self, at::IntArrayRef values) {
  const at::Tensor found = self.to(at::kLong).contiguous();
  const at::IntArrayRef numbers(found.const_data_ptr<int64_t>(),
                                static_cast<size_t>(found.numel()));
  if (numbers != values) abandon(hash_of(numbers));
}

}  // namespace

TORCH_LIBRARY(fulgurite, m) {
  m.def("copy_(Tensor source, Tensor(a!) destination) -> Tensor(a!)");
  m.def("set_data(Tensor self, Tensor data) -> Tensor");
  m.def("replace(Tensor self, Tensor(a) data) -> Tensor(a)");
  m.def("data(Tensor(a) self) -> Tensor(a)");
  m.def("inference(Tensor(a) self) -> Tensor(a)");
  m.def("conform(Tensor self, ScalarType dtype, int[] strides) -> Tensor");
  m.def("strided_view(Tensor(a) self, int[] size, int[] stride, int offset) -> Tensor(a)");
  m.def("strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int offset) -> Tensor");
  m.def("index_sum(Tensor self, Tensor?[] indices, int[] size) -> Tensor");
  m.def("set_grad(Tensor(a!) leaf, Tensor? grad) -> ()");
  m.def("set_requires_grad(Tensor(a!) self, bool requires_grad) -> Tensor(a!)");
  m.def("overwritten(Tensor cotangent, str what) -> Tensor");
  m.def("resize_output(Tensor(a!) self, int[] size, int[] stride) -> Tensor(a!)");
  m.def("bump_version_(Tensor(a!) self, int by) -> ()");
  m.def("open_leaf(Tensor(a) leaf) -> Tensor(a)");
  m.def("close_leaf(Tensor open) -> Tensor");
  m.def(
      "function(str name, int call, Tensor[] inputs, Tensor[] outputs, Tensor[] saved, int[] "
      "view_of, int[] written) -> Tensor[]");
  m.def("function_backward(str name, int call, Tensor?[] cotangents) -> Tensor[]");
  m.def("leaf(Tensor self, bool given) -> Tensor");
  m.def("boundary(Tensor self, int number, Tensor? base) -> Tensor");
  m.def("argument(Tensor self, Tensor given, Tensor? written) -> Tensor");
  m.def("checkpoint(bool preserves_random_state) -> ()");
  m.def("random_state() -> Tensor");
  m.def("draw_again(Tensor state, Tensor self) -> (Tensor, Tensor)");
  m.def("end_draw(Tensor before, Tensor drawn) -> Tensor");
  m.def("keep(Tensor[] values) -> ()");
  m.def("expect_int(int found, int expected) -> ()");
  m.def("expect_float(float found, float expected) -> ()");
  m.def("expect_bool(bool found, bool expected) -> ()");
  m.def("expect_sizes(Tensor self, int[] sizes) -> ()");
  m.def("expect_values(Tensor self, int[] values) -> ()");
}

TORCH_LIBRARY_IMPL(fulgurite, CompositeImplicitAutograd, m) {
  m.impl("copy_", copy_impl);
  m.impl("set_data", set_data_impl);
  m.impl("replace", replace_impl);
  m.impl("data", data_impl);
  m.impl("inference", inference_impl);
  m.impl("conform", conform_impl);
  m.impl("strided_view", strided_view_impl);
  m.impl("strided_scatter", strided_scatter_impl);
  m.impl("index_sum", index_sum_impl);
  m.impl("set_grad", set_grad_impl);
  m.impl("set_requires_grad", set_requires_grad_impl);
  m.impl("overwritten", overwritten_impl);
  m.impl("resize_output", resize_output_impl);
  m.impl("bump_version_", bump_version_impl);
  m.impl("open_leaf", open_leaf_impl);
  m.impl("close_leaf", close_leaf_impl);
  m.impl("function", function_impl);
  m.impl("leaf", leaf_impl);
  m.impl("boundary", boundary_impl);
  m.impl("argument", argument_impl);
  m.impl("draw_again", draw_again_impl);
  m.impl("end_draw", end_draw_impl);
  m.impl("expect_sizes", expect_sizes_impl);
  m.impl("expect_values", expect_values_impl);
}

TORCH_LIBRARY_IMPL(fulgurite, CatchAll, m) {
  m.impl("keep", keep_impl);
  m.impl("checkpoint", checkpoint_impl);
  m.impl("random_state", random_state_impl);
  m.impl("function_backward", function_backward_impl);
  m.impl("expect_int", expect_int_impl);
  m.impl("expect_float", expect_float_impl);
  m.impl("expect_bool", expect_bool_impl);
}

namespace prims {

uint64_t last_found() { return found_last; }

uint64_t hash_of_found(const c10::IValue& value) {
  if (value.isBool()) return hash_of(value.toBool());
  if (value.isInt()) return hash_of(value.toInt());
  if (value.isDouble()) return hash_of(value.toDouble());
  return hash_of(at::IntArrayRef(value.toIntVector()));
}

#define FULGURITE_PRIM(name)                                   \
  const ir::Op& name() {                                       \
    static const ir::Op op = ir::Op::get("fulgurite::" #name); \
    return op;                                                 \
  }
FULGURITE_PRIM(copy_)
FULGURITE_PRIM(set_data)
FULGURITE_PRIM(replace)
FULGURITE_PRIM(data)
FULGURITE_PRIM(inference)
FULGURITE_PRIM(conform)
FULGURITE_PRIM(strided_view)
FULGURITE_PRIM(strided_scatter)
FULGURITE_PRIM(index_sum)
FULGURITE_PRIM(set_grad)
FULGURITE_PRIM(set_requires_grad)
FULGURITE_PRIM(open_leaf)
FULGURITE_PRIM(close_leaf)
FULGURITE_PRIM(resize_output)
FULGURITE_PRIM(bump_version_)
FULGURITE_PRIM(function)
FULGURITE_PRIM(leaf)
FULGURITE_PRIM(boundary)
FULGURITE_PRIM(argument)
FULGURITE_PRIM(checkpoint)
FULGURITE_PRIM(random_state)
FULGURITE_PRIM(draw_again)
FULGURITE_PRIM(end_draw)
FULGURITE_PRIM(keep)
FULGURITE_PRIM(expect_int)
FULGURITE_PRIM(expect_float)
FULGURITE_PRIM(expect_bool)
FULGURITE_PRIM(expect_sizes)
FULGURITE_PRIM(expect_values)
#undef FULGURITE_PRIM

}  // namespace prims
}  // namespace fulgurite
