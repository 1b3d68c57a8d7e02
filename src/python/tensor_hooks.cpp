// Hooks on tensors: while a call is recorded (functions.h), and when they are registered again
// (effects.h).
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "effects.h"
#include "functions.h"
#include "ir/errors.h"
#include "structure.h"

namespace fulgurite::python {
namespace {

// Whether the hook is gone again.
bool is_removed(PyObject* handle) {
  PyRef reference = PyRef::steal(PyObject_GetAttrString(handle, "hooks_dict_ref"));
  PyRef dict = reference ? PyRef::steal(PyObject_CallNoArgs(reference.get())) : PyRef();
  PyRef id = dict ? PyRef::steal(PyObject_GetAttrString(handle, "id")) : PyRef();
  const int found = id && dict.get() != Py_None ? PySequence_Contains(dict.get(), id.get()) : 0;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return found <= 0;
}

}  // namespace

std::string FunctionCalls::tensor_hooked(PyObject* tensor, PyObject* hook,
                                         const std::string& method) {
  const at::Tensor& t = tensor_of(tensor);
  const bool accumulated = method == "register_post_accumulate_grad_hook";
  TensorHook h{accumulated ? TensorHook::Kind::Accumulated : TensorHook::Kind::Gradient,
               PyRef::borrow(tensor), PyRef::borrow(hook)};
  if (!is_plain_tensor(tensor)) return "registers a hook on a tensor subclass";
  if (t.requires_grad() && !t.is_leaf()) {
    if (recorder_.is_made_here(t)) {
      h.boundary = recorder_.note_boundary(t);
    } else {
      h.history = t.grad_fn();
    }
  }
  hooks.push_back(std::move(h));
  return "";
}

void FunctionCalls::hook_registered(PyObject* handle) {
  if (handle == nullptr) {
    hooks.pop_back();
  } else {
    hooks.back().handle = PyRef::borrow(handle);
  }
}

void FunctionCalls::random_state_read(PyObject* state) {
  if (is_any_tensor(state)) recorder_.note_random_state(tensor_of(state));
}

void FunctionCalls::grad_retained(PyObject* tensor) {
  const at::Tensor& t = tensor_of(tensor);
  if (!t.requires_grad() || t.is_leaf()) return;
  for (const TensorHook& h : hooks)
    if (h.kind == TensorHook::Kind::Retain && h.tensor.get() == tensor) return;
  TensorHook h{TensorHook::Kind::Retain, PyRef::borrow(tensor), {}};
  if (!recorder_.is_made_here(t)) h.history = t.grad_fn();
  hooks.push_back(std::move(h));
}

void FunctionCalls::settle_hooks() {
  std::vector<int> removed;
  std::erase_if(hooks, [&](const TensorHook& h) {
    if (!h.handle || !is_removed(h.handle.get())) return false;
    removed.push_back(h.boundary);
    return true;
  });
  for (int number : removed)
    if (std::none_of(hooks.begin(), hooks.end(),
                     [&](const TensorHook& h) { return h.boundary == number; }))
      recorder_.drop_boundary(number);
  for (const TensorHook& h : hooks) {
    const at::Tensor& t = tensor_of(h.tensor.get());
    if (h.history && (h.history != t.grad_fn() || recorder_.is_written_with_grad(t)))
      throw fulgurite::Refusal(
          "FG-193", "hooks are registered on a tensor from outside that the call writes");
  }
}

void FunctionCalls::place_retained(TensorHook& hook) {
  const at::Tensor& t = tensor_of(hook.tensor.get());
  if (hook.kind == TensorHook::Kind::Retain && recorder_.is_made_here(t))
    hook.boundary = recorder_.note_boundary(t);
}

bool Effects::register_hooks(Recipe::Making& making, const std::vector<at::Tensor>& hooked) const {
  for (const HookStep& step : hooks_) {
    PyRef tensor;
    if (step.tensor >= 0) {
      tensor = PyRef::borrow(making.get(step.tensor));
      if (!tensor) return false;
    } else {
      const auto k = static_cast<size_t>(step.boundary);
      if (step.boundary >= 0 && k < hooked.size() && hooked[k].defined())
        tensor = PyRef::steal(wrap_tensor(hooked[k]));
    }
    if (!tensor) continue;  // nothing that is left depends on it
    if (step.kind == TensorHook::Kind::Retain) {
      PyRef none = PyRef::steal(PyObject_CallMethod(tensor.get(), "retain_grad", nullptr));
      if (!none) return false;
      continue;
    }
    PyObject* function = making.get(step.function);
    const char* method = step.kind == TensorHook::Kind::Gradient
                             ? "register_hook"
                             : "register_post_accumulate_grad_hook";
    PyRef handle = PyRef::steal(
        function != nullptr ? PyObject_CallMethod(tensor.get(), method, "O", function) : nullptr);
    if (!handle) return false;
    making.give(step.handle, std::move(handle));
  }
  return true;
}

}  // namespace fulgurite::python
