#include "functions.h"

#include <ATen/core/Tensor.h>

#include <stdexcept>

#include "ir/errors.h"
#include "structure.h"
#include "without_gil.h"

namespace fulgurite::python {
namespace {

std::string class_name(PyObject* function) {
  return reinterpret_cast<PyTypeObject*>(function)->tp_name;
}

// The items of a tuple, or the one object that is none.
std::vector<PyObject*> items_of(PyObject* object) {
  if (!PyTuple_Check(object)) return {object};
  std::vector<PyObject*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
    items.push_back(PyTuple_GET_ITEM(object, i));
  return items;
}

// Numbers the tensors among objects; -1 for others.
std::vector<int> number_tensors(const std::vector<PyObject*>& objects,
                                std::vector<at::Tensor>& tensors) {
  std::vector<int> numbers;
  for (PyObject* o : objects) {
    numbers.push_back(is_any_tensor(o) ? static_cast<int>(tensors.size()) : -1);
    if (is_any_tensor(o)) tensors.push_back(tensor_of(o));
  }
  return numbers;
}

PyRef grad_fn(PyObject* tensor) {
  PyRef node = PyRef::steal(PyObject_GetAttrString(tensor, "grad_fn"));
  if (!node) PyErr_Clear();
  return node;
}

// The context of the call that gave these outputs: null if it gave none a history.
PyRef context_of(PyObject* function, const std::vector<PyObject*>& outputs) {
  PyRef type = PyRef::steal(PyObject_GetAttrString(function, "_backward_cls"));
  if (!type) PyErr_Clear();
  for (PyObject* o : outputs) {
    if (!is_any_tensor(o)) continue;
    PyRef node = grad_fn(o);
    if (node && reinterpret_cast<PyObject*>(Py_TYPE(node.get())) == type.get()) return node;
  }
  return {};
}

bool any_requires_grad(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& t : tensors)
    if (t.requires_grad()) return true;
  return false;
}

// ---- one call, again
struct Pending {
  const FunctionSite* site;
  const run::FunctionTensors* tensors;
  PyRef context;
};
thread_local Pending* pending = nullptr;
thread_local StepsOfRun* steps_of_run = nullptr;

// A tuple of tensors; None for numbers that are -1.
PyRef tuple_of(const std::vector<int>& numbers, const std::vector<at::Tensor>& tensors) {
  PyRef tuple = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; tuple && i < numbers.size(); ++i) {
    PyObject* item =
        numbers[i] < 0 ? Py_NewRef(Py_None) : wrap_tensor(tensors[static_cast<size_t>(numbers[i])]);
    if (item == nullptr) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
  }
  return tuple;
}

bool set(PyObject* context, const char* name, const PyRef& value) {
  return value && PyObject_SetAttrString(context, name, value.get()) == 0;
}

// forward(ctx, *args) of the derived class.
PyObject* replay_forward(PyObject* /*self*/, PyObject* args) {
  if (pending == nullptr || PyTuple_GET_SIZE(args) < 1) {
    PyErr_SetString(PyExc_RuntimeError, "a compiled autograd.Function is called from outside");
    return nullptr;
  }
  const FunctionSite& site = *pending->site;
  const run::FunctionTensors& tensors = *pending->tensors;
  PyObject* context = PyTuple_GET_ITEM(args, 0);
  pending->context = PyRef::borrow(context);
  std::vector<int> constant;
  for (size_t k = 0; k < site.differentiable.size(); ++k)
    if (!site.differentiable[k]) constant.push_back(static_cast<int>(k));
  if (!constant.empty() && !set(context, "non_differentiable", tuple_of(constant, tensors.outputs)))
    return nullptr;
  if (!site.saved.empty() && !set(context, "to_save", tuple_of(site.saved, tensors.saved)))
    return nullptr;
  for (const auto& [name, value] : site.flags)
    if (!set(context, name.c_str(), value)) return nullptr;
  return tuple_of(site.outputs, tensors.outputs).release();
}

PyMethodDef replay_method = {"forward", replay_forward, METH_VARARGS,
                             "Hands over what the compiled program computed."};

// A class derived from the user's, made without running code of it.
PyRef derived_class(PyObject* function) {
  PyRef forward = PyRef::steal(PyCFunction_New(&replay_method, nullptr));
  PyRef module = PyRef::steal(PyImport_ImportModule("torch.autograd.function"));
  PyRef base =
      module ? PyRef::steal(PyObject_GetAttrString(module.get(), "_SingleLevelFunction")) : PyRef();
  PyRef setup = base ? PyRef::steal(PyObject_GetAttrString(base.get(), "setup_context")) : PyRef();
  PyRef static_setup = setup ? PyRef::steal(PyStaticMethod_New(setup.get())) : PyRef();
  PyRef hook = PyRef::steal(PyObject_GetAttrString(function, "__init_subclass__"));
  if (!forward || !static_setup || !hook) return {};
  if (!PyCFunction_Check(hook.get())) {
    PyErr_SetString(PyExc_TypeError, "its class has an __init_subclass__ of its own");
    return {};
  }
  PyRef arguments =
      PyRef::steal(Py_BuildValue("s(O){sOsO}", class_name(function).c_str(), function, "forward",
                                 forward.get(), "setup_context", static_setup.get()));
  if (!arguments) return {};
  return PyRef::steal(PyType_Type.tp_new(Py_TYPE(function), arguments.get(), nullptr));
}

// torch._C._FunctionBase.apply, bound to the class: past an `apply` of the user's.
PyRef bound_apply(PyObject* derived) {
  PyRef module = PyRef::steal(PyImport_ImportModule("torch._C"));
  PyRef base =
      module ? PyRef::steal(PyObject_GetAttrString(module.get(), "_FunctionBase")) : PyRef();
  if (!base) return {};
  PyObject* descriptor =
      PyDict_GetItemString(reinterpret_cast<PyTypeObject*>(base.get())->tp_dict, "apply");
  if (descriptor == nullptr || Py_TYPE(descriptor)->tp_descr_get == nullptr) return {};
  return PyRef::steal(Py_TYPE(descriptor)->tp_descr_get(descriptor, nullptr, derived));
}

[[noreturn]] void throw_python_error(const FunctionSite& site) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyRef text = PyRef::steal(value != nullptr ? PyObject_Str(value) : nullptr);
  const char* what = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  const std::string message = class_name(site.function.get()) + ": " +
                              (what != nullptr ? what : "its history could not be made");
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  PyErr_Clear();
  throw std::runtime_error(message);
}

}  // namespace

// ---- while recording
std::string FunctionCalls::called(const FunctionSeen& seen) {
  const std::vector<PyObject*> outputs = items_of(seen.result.get());
  FunctionSite site;
  record::FunctionCall call;
  call.name = class_name(seen.function.get());
  site.function = seen.function;
  site.arguments = number_tensors(items_of(seen.arguments.get()), call.inputs);
  site.outputs = number_tensors(outputs, call.outputs);
  if (!seen.grad_mode || !any_requires_grad(call.inputs) || !any_requires_grad(call.outputs)) {
    count_dirty(seen);
    return "";
  }
  site.context = context_of(seen.function.get(), outputs);
  if (!site.context)
    return "applies " + call.name + ", which writes a view in place: its history is not the view's";
  for (PyObject* o : outputs)
    if (is_any_tensor(o) && !is_plain_tensor(o)) return call.name + " returns a tensor subclass";
  for (const ContextNote& note : seen.notes) {
    if (note.context.get() != site.context.get()) continue;
    if (note.name == "to_save" && note.value && PyTuple_Check(note.value.get())) {
      call.saved.clear();
      site.saved = number_tensors(items_of(note.value.get()), call.saved);
    } else if (note.name == "dirty_tensors" && note.value && PyTuple_Check(note.value.get())) {
      call.dirty.clear();
      number_tensors(items_of(note.value.get()), call.dirty);
    } else if (note.name == "non_differentiable" || note.name == "saved_for_forward") {
      continue;  // its outputs show it; the other is for forward-mode differentiation
    } else if (note.value && PyBool_Check(note.value.get())) {
      site.flags.emplace_back(note.name, note.value);
    } else {
      return "sets " + note.name + " of the context of " + call.name;
    }
  }
  for (size_t k = 0, i = 0; i < outputs.size(); ++i) {
    if (site.outputs[i] < 0) continue;
    const at::Tensor& t = call.outputs[k++];
    bool dirty = false;
    for (const at::Tensor& d : call.dirty) dirty = dirty || d.is_same(t);
    const bool can = t.is_floating_point() || t.is_complex();
    site.differentiable.push_back(!can || dirty || grad_fn(outputs[i]).get() == site.context.get());
  }
  if (recorder_.note_function(call) == static_cast<int>(sites.size()))
    sites.push_back(std::move(site));
  return "";
}

// Without a history all that is left of mark_dirty is that versions are bumped.
void FunctionCalls::count_dirty(const FunctionSeen& seen) {
  std::vector<at::Tensor> dirty;
  for (const ContextNote& note : seen.notes) {
    if (note.name != "dirty_tensors" || !note.value) continue;
    dirty.clear();
    number_tensors(items_of(note.value.get()), dirty);
  }
  for (const at::Tensor& t : dirty) recorder_.note_version_bump(t);
}

std::string FunctionCalls::hooked(PyObject* context, PyObject* hook) {
  for (FunctionSite& site : sites) {
    if (site.context.get() != context) continue;
    site.hooks.push_back(PyRef::borrow(hook));
    return "";
  }
  return "registers a hook on the autograd graph";
}

// ---- in compiled calls
PythonFunctions::PythonFunctions(std::vector<FunctionSite> sites) : sites_(std::move(sites)) {
  for (FunctionSite& site : sites_) {
    site.context = PyRef();
    site.hooks.clear();
    site.replay = derived_class(site.function.get());
    if (site.replay) continue;
    PyErr_Clear();
    throw fulgurite::Refusal("FG-190", "applies " + class_name(site.function.get()) +
                                           ", from which no class can be derived unseen");
  }
}

PythonFunctions::~PythonFunctions() {
  if (!Py_IsInitialized()) {  // nobody can release them any more
    new std::vector<FunctionSite>(std::move(sites_));
    return;
  }
  const WithGil gil;
  sites_.clear();
}

std::vector<at::Tensor> PythonFunctions::give_history(int64_t call,
                                                      const run::FunctionTensors& tensors) const {
  const WithGil gil;
  const FunctionSite& site = sites_.at(static_cast<size_t>(call));
  Pending now{&site, &tensors, {}};
  PyRef apply = bound_apply(site.replay.get());
  PyRef arguments = tuple_of(site.arguments, tensors.inputs);
  if (!apply || !arguments) throw_python_error(site);
  Pending* outer = std::exchange(pending, &now);
  PyRef result = PyRef::steal(PyObject_CallObject(apply.get(), arguments.get()));
  pending = outer;
  if (!result) throw_python_error(site);
  if (steps_of_run != nullptr) {
    steps_of_run->contexts.resize(sites_.size());
    steps_of_run->contexts[static_cast<size_t>(call)] = now.context;
  }
  std::vector<at::Tensor> results;
  for (PyObject* o : items_of(result.get()))
    if (is_any_tensor(o)) results.push_back(tensor_of(o));
  return results;
}

int PythonFunctions::traverse(visitproc visit, void* arg) const {
  for (const FunctionSite& site : sites_) {
    Py_VISIT(site.function.get());
    Py_VISIT(site.replay.get());
    for (const auto& flag : site.flags) Py_VISIT(flag.second.get());
  }
  return 0;
}

void PythonFunctions::hooked(int64_t number, const at::Tensor& tensor) const {
  if (steps_of_run == nullptr) return;
  const auto k = static_cast<size_t>(number);
  if (steps_of_run->hooked.size() <= k) steps_of_run->hooked.resize(k + 1);
  steps_of_run->hooked[k] = tensor;
}

CollectSteps::CollectSteps(StepsOfRun& steps) : outer_(std::exchange(steps_of_run, &steps)) {}

CollectSteps::~CollectSteps() { steps_of_run = outer_; }

}  // namespace fulgurite::python
