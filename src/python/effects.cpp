#include "effects.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>

#include "ir/errors.h"
#include "output_effect.h"
#include "structure.h"
#include "warning_effect.h"
#include "watch/streams.h"
#include "watch/values.h"

namespace fulgurite::python {
namespace {

std::string text_of(PyObject* unicode) {
  const char* text =
      unicode != nullptr && PyUnicode_Check(unicode) ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (text == nullptr) PyErr_Clear();
  return text != nullptr ? text : "";
}

[[noreturn]] void refuse(const Effect& e, const std::string& why) {
  std::string where =
      e.where.file.empty() ? "" : e.where.file + ":" + std::to_string(e.where.line) + " ";
  throw fulgurite::Refusal("FG-201", where + e.text + ": " + why);
}

// The stream that is printed to: borrowed, null if there is none, None if printing does nothing.
PyObject* stream_of(const Locator& where) {
  return where.kind == Locator::Kind::Fixed ? where.object.get() : PySys_GetObject("stdout");
}

bool will_print(const Locator& where, PyObject* text) {
  PyObject* stream = stream_of(where);
  if (stream == nullptr) return false;
  return stream == Py_None || (is_plain_stream(stream) && can_write(stream, text));
}

bool call_method(PyObject* object, const char* name, PyObject* argument = nullptr) {
  const PyRef method = PyRef::steal(PyUnicode_FromString(name));
  return method &&
         PyRef::steal(PyObject_CallMethodObjArgs(object, method.get(), argument, nullptr));
}

// How often a container is found among the arguments.
size_t places(PyObject* object, PyObject* in, int depth = 0) {
  const bool list = PyList_CheckExact(in), dict = PyDict_CheckExact(in), tuple = PyTuple_Check(in);
  if ((!list && !dict && !tuple) || depth > 16) return 0;
  size_t n = in == object ? 1 : 0;
  if (dict) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(in, &position, &key, &value)) n += places(object, value, depth + 1);
    return n;
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(in); ++i)
    n += places(object, PySequence_Fast_GET_ITEM(in, i), depth + 1);
  return n;
}

}  // namespace

// Turns observed effects into steps.
struct Effects::Maker {
  Effects& out;
  const Observation& seen;
  ObjectFinder finder;
  std::vector<PyObject*>& outputs;
  PyObject* const* args;
  size_t nargs;
  std::map<PyObject*, size_t> last_whole;  // of containers that are written as a whole

  int value(const Effect& e, PyObject* object) {
    std::string refusal;
    const int node = out.recipe_.add(object, finder, outputs, refusal);
    if (node < 0) refuse(e, "the stored value " + refusal);
    return node;
  }

  Locator holder(const Effect& e) {
    Locator where = finder.locate(e.holder.get());
    if (where.kind == Locator::Kind::None)
      refuse(e, "what it changes could not be found again in the next call");
    return where;
  }

  PyRef key(const Effect& e, PyObject* object) {
    std::vector<PyObject*> none;
    Recipe probe;
    std::string refusal;
    if (finder.locate(object).kind == Locator::Kind::Fixed && is_plain_tensor(object))
      return PyRef::borrow(object);
    const bool moves = seen.slots.count(object) != 0;
    if (moves || is_any_tensor(object) || probe.add(object, finder, none, refusal) < 0 ||
        !none.empty())
      refuse(e, "its key cannot be found again in the next call");
    return PyRef::borrow(object);
  }

  void add(Step::Kind kind, const Effect& e, PyRef step_key, int node) {
    out.steps_.push_back({kind, holder(e), std::move(step_key), node, e.text});
    Step& step = out.steps_.back();
    if (step.holder.kind == Locator::Kind::Argument) {
      size_t n = 0;
      for (size_t i = 0; i < nargs; ++i) n += places(e.holder.get(), args[i]);
      if (n != 1) refuse(e, "the container is found more than once among the arguments");
    }
  }

  void add_whole(const Effect& e, size_t index) {
    PyObject* o = e.holder.get();
    if (last_whole.at(o) != index) return;  // a later step writes what it is in the end
    if (!PyList_CheckExact(o) && !PyDict_CheckExact(o) && !watching::is_deque(o))
      refuse(e,
             std::string("changes of a ") + Py_TYPE(o)->tp_name + " as a whole are not replayed");
    PyRef copy = PyRef::steal(PyDict_CheckExact(o) ? PyDict_Copy(o) : PySequence_List(o));
    add(Step::Kind::WriteAll, e, {}, value(e, copy.get()));
  }

  void add_mutation(const Effect& e) {
    PyObject* o = e.holder.get();
    PyObject* arguments = e.value.get();
    const std::string how = text_of(e.key.get());
    const Py_ssize_t n =
        arguments != nullptr && PyTuple_Check(arguments) ? PyTuple_GET_SIZE(arguments) : 0;
    auto argument = [&](Py_ssize_t i) { return PyTuple_GET_ITEM(arguments, i); };
    if ((PyList_CheckExact(o) || watching::is_deque(o)) && how == "append" && n == 1)
      return add(Step::Kind::Append, e, {}, value(e, argument(0)));
    if (PySet_CheckExact(o) && n == 1 && (how == "add" || how == "discard" || how == "remove"))
      return add(how == "add" ? Step::Kind::SetAdd : Step::Kind::SetDiscard, e, {},
                 value(e, argument(0)));
    if (PyDict_Check(o) && n >= 1) {
      if (how == "setdefault") {
        return add(Step::Kind::SetItem, e, key(e, argument(0)),
                   value(e, n > 1 ? argument(1) : Py_None));
      }
      if (how == "pop") return add(Step::Kind::DeleteItem, e, key(e, argument(0)), -1);
      if (how == "__missing__") {
        // What the factory made; if it was replaced or deleted since, later steps do that.
        PyObject* made = PyDict_GetItemWithError(o, argument(0));
        if (made == nullptr) refuse(e, "the item was deleted again");
        return add(Step::Kind::SetItem, e, key(e, argument(0)), value(e, made));
      }
      if (how == "update" && PyDict_CheckExact(argument(0))) {
        PyObject *k, *v;
        Py_ssize_t position = 0;
        while (PyDict_Next(argument(0), &position, &k, &v))
          add(Step::Kind::SetItem, e, key(e, k), value(e, v));
        return;
      }
    }
    refuse(e, "this kind of change is not replayed; assign items, or return the value");
  }

  void add_print(const Effect& e) {
    Locator stream;
    if (e.holder) stream = finder.locate(e.holder.get());
    if (e.holder && stream.kind != Locator::Kind::Fixed)
      refuse(e, "the stream could not be found again in the next call");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(e.value.get()); ++i) {
      PyObject* piece = PyTuple_GET_ITEM(e.value.get(), i);
      if (PyTuple_Check(piece) && !finder.is_number(PyTuple_GET_ITEM(piece, 0)))
        refuse(e, "it prints a number of which the program uses more than its value as a number");
    }
    out.steps_.push_back(
        {Step::Kind::Print, std::move(stream), e.key, value(e, e.value.get()), e.text});
  }

  void add(const Effect& e, size_t index) {
    PyObject* o = e.holder.get();
    const bool container =
        o != nullptr && (PyList_Check(o) || PyDict_Check(o) || watching::is_deque(o));
    switch (e.kind) {
      case EffectKind::SetAttr:
        return add(Step::Kind::SetAttribute, e, e.key, value(e, e.value.get()));
      case EffectKind::DelAttr:
        return add(Step::Kind::DeleteAttribute, e, e.key, -1);
      case EffectKind::SetItem:
      case EffectKind::SetGlobal:
        if (container && e.whole) return add_whole(e, index);
        return add(Step::Kind::SetItem, e, key(e, e.key.get()), value(e, e.value.get()));
      case EffectKind::DelItem:
      case EffectKind::DelGlobal:
        if (container && e.whole) return add_whole(e, index);
        return add(Step::Kind::DeleteItem, e, key(e, e.key.get()), -1);
      case EffectKind::SetCell:
        return add(Step::Kind::SetCell, e, {}, e.value ? value(e, e.value.get()) : -1);
      case EffectKind::Mutate:
        if (container && e.whole) return add_whole(e, index);
        return add_mutation(e);
      case EffectKind::TensorAttr: {
        PyObject* found = _PyType_Lookup(Py_TYPE(o), e.key.get());
        if (!is_plain_tensor(o) || (found != nullptr && Py_TYPE(found)->tp_descr_set != nullptr))
          refuse(e, "it changes more than a Python attribute");
        if (e.fresh) return;  // it comes with the tensor, wherever that goes
        if (finder.locate(o).kind == Locator::Kind::Argument)
          refuse(e, "a Python attribute of an argument");
        if (!e.value) return add(Step::Kind::DeleteAttribute, e, e.key, -1);
        return add(Step::Kind::SetAttribute, e, e.key, value(e, e.value.get()));
      }
      case EffectKind::Warn: {
        Locator globals;
        globals.kind = Locator::Kind::Fixed;
        globals.object = PyRef::borrow(o);
        out.steps_.push_back(
            {Step::Kind::Warn, std::move(globals), e.key, value(e, e.value.get()), e.text});
        return;
      }
      case EffectKind::Print:
        return add_print(e);
      case EffectKind::Log: {
        const Locator logger = finder.locate(o);
        if (logger.kind != Locator::Kind::Fixed)
          refuse(e, "the logger could not be found again in the next call");
        return add(Step::Kind::Log, e, e.key, value(e, e.value.get()));
      }
      case EffectKind::Io:
        refuse(e, "output cannot be replayed; move it out of the function");
      default:
        refuse(e, "an effect that cannot be replayed; move it out of the function");
    }
  }
};

void Effects::add_contexts(const std::vector<FunctionSite>& functions, Maker& maker) {
  for (const FunctionSite& site : functions) {
    contexts_.emplace_back();
    Effect e{EffectKind::SetAttr, {}, {}, {}, "", {}};
    PyObject** attributes = _PyObject_GetDictPtr(site.context.get());
    if (attributes != nullptr && *attributes != nullptr && PyDict_GET_SIZE(*attributes) > 0) {
      e.text = std::string("fills the context of ") +
               reinterpret_cast<PyTypeObject*>(site.function.get())->tp_name;
      PyRef copy = PyRef::steal(PyDict_Copy(*attributes));
      contexts_.back().attributes = maker.value(e, copy.get());
    }
    for (const PyRef& hook : site.hooks) {
      e.text = "registers a hook";
      std::string refusal;
      const int node = recipe_.add(hook.get(), maker.finder, maker.outputs, refusal);
      if (node < 0) refuse(e, "the hook " + refusal);
      contexts_.back().hooks.push_back(node);
    }
  }
}

Effects Effects::of(Observation& seen, PyObject* result, PyObject* const* args, size_t nargs,
                    FunctionCalls& functions, std::vector<PyObject*>& outputs) {
  Effects out;
  Maker maker{out, seen, ObjectFinder(seen, args, nargs), outputs, args, nargs, {}};
  std::string refusal;
  out.reserve_handles(functions);
  out.result_ = out.recipe_.add(result, maker.finder, outputs, refusal);
  if (out.result_ < 0) throw fulgurite::Refusal("FG-202", "the result " + refusal);
  for (size_t i = 0; i < seen.effects.size(); ++i)
    if (seen.effects[i].whole) maker.last_whole[seen.effects[i].holder.get()] = i;
  for (size_t i = 0; i < seen.effects.size(); ++i) {
    const Effect& e = seen.effects[i];
    // The program's own.
    const bool of_program =
        e.kind == EffectKind::TensorAttr &&
        (text_of(e.key.get()) == "grad" || text_of(e.key.get()) == "requires_grad" ||
         text_of(e.key.get()) == "retains_grad");
    if (e.kind == EffectKind::Backward || of_program) continue;
    maker.add(e, i);
  }
  out.add_contexts(functions.sites, maker);
  out.add_hooks(functions, maker);
  out.recipe_.finish();
  return out;
}

bool Effects::prepare(const GuardProgram& guards, PyObject* const* args, size_t nargs,
                      const std::vector<PyRef>& slots) const {
  // No two ways to one object where one of them writes: the recorded run saw different objects.
  for (const Step& step : steps_) {
    const Locator& where = step.holder;
    if (step.kind == Step::Kind::Warn) {
      if (warning_may_raise(PyTuple_GET_ITEM(step.key.get(), 0))) return false;
      continue;
    }
    if (step.kind == Step::Kind::Log && !logs_plainly(where.object.get())) return false;
    if (step.kind == Step::Kind::Print) {
      if (!will_print(where, PyTuple_GET_ITEM(step.key.get(), 1))) return false;
      continue;
    }
    PyRef object = PyRef::steal(where.find(args, slots));
    if (!object) {
      PyErr_Clear();
      return false;
    }
    if (PyList_Check(object.get()) || PyDict_Check(object.get())) {
      size_t n = 0;
      for (size_t i = 0; i < nargs; ++i) n += places(object.get(), args[i]);
      if (n != (where.kind == Locator::Kind::Argument ? 1u : 0u)) return false;
    }
    if (where.kind != Locator::Kind::Fixed && guards.holds_facts_about(object.get())) return false;
    for (size_t i = 0; i < slots.size(); ++i) {
      const bool same_place =
          where.kind == Locator::Kind::Slot && where.index == static_cast<int>(i);
      if (!same_place && slots[i].get() == object.get()) return false;
    }
    if (where.kind != Locator::Kind::Fixed) {
      for (const Step& other : steps_) {
        if (other.holder.kind == Locator::Kind::Fixed && other.holder.object.get() == object.get())
          return false;
      }
    }
  }
  return true;
}

bool Effects::write(const Step& step, PyObject* o, PyObject* value) const {
  switch (step.kind) {
    case Step::Kind::SetAttribute:
    case Step::Kind::DeleteAttribute:
      if (PyType_Check(o)) return PyType_Type.tp_setattro(o, step.key.get(), value) == 0;
      return PyObject_GenericSetAttr(o, step.key.get(), value) == 0;
    case Step::Kind::SetItem:
      if (PyODict_Check(o)) return PyODict_SetItem(o, step.key.get(), value) == 0;
      return PyDict_SetItem(o, step.key.get(), value) == 0;
    case Step::Kind::DeleteItem:
      if (PyODict_Check(o)) return PyODict_DelItem(o, step.key.get()) == 0;
      return PyDict_DelItem(o, step.key.get()) == 0;
    case Step::Kind::SetCell:
      return PyCell_Set(o, value) == 0;
    case Step::Kind::Append:
      return PyList_Check(o) ? PyList_Append(o, value) == 0 : call_method(o, "append", value);
    case Step::Kind::SetAdd:
      return PySet_Add(o, value) == 0;
    case Step::Kind::SetDiscard:
      return PySet_Discard(o, value) >= 0;
    case Step::Kind::Warn:
      return give_warning(o, step.key.get(), value);
    case Step::Kind::Log:
      return log_again(o, step.key.get(), value);
    case Step::Kind::Print:
      return print_pieces(o, value, PyTuple_GET_ITEM(step.key.get(), 0) == Py_True);
    case Step::Kind::WriteAll:
      if (PyList_Check(o)) return PyList_SetSlice(o, 0, PyList_GET_SIZE(o), value) == 0;
      if (!PyDict_Check(o)) return call_method(o, "clear") && call_method(o, "extend", value);
      PyDict_Clear(o);
      return PyDict_Update(o, value) == 0;
  }
  return false;
}

bool Effects::fill_contexts(Recipe::Making& making, const std::vector<PyRef>& contexts) const {
  for (size_t k = 0; k < contexts_.size() && k < contexts.size(); ++k) {
    PyObject* context = contexts[k].get();
    if (context == nullptr) continue;  // no result depends on it
    if (contexts_[k].attributes >= 0) {
      PyObject* attributes = making.get(contexts_[k].attributes);
      if (attributes == nullptr) return false;
      PyObject *name, *value;
      Py_ssize_t position = 0;
      while (PyDict_Next(attributes, &position, &name, &value))
        if (PyObject_GenericSetAttr(context, name, value) < 0) return false;
    }
    for (int hook : contexts_[k].hooks) {
      PyObject* function = making.get(hook);
      if (function == nullptr) return false;
      PyRef handle = PyRef::steal(PyObject_CallMethod(context, "register_hook", "O", function));
      if (!handle) return false;
    }
  }
  return true;
}

PyObject* Effects::commit(const std::vector<at::Tensor>& outputs, PyObject* const* args,
                          const std::vector<PyRef>& slots, const StepsOfRun& steps) const {
  Recipe::Making making(recipe_, outputs, args, slots);
  if (!register_hooks(making, steps.hooked)) return nullptr;
  PyRef result = PyRef::borrow(making.get(result_));
  if (!result) return nullptr;
  std::vector<PyRef> holders;
  std::vector<PyObject*> values;
  for (const Step& step : steps_) {
    holders.push_back(step.kind == Step::Kind::Print ? PyRef::borrow(stream_of(step.holder))
                                                     : PyRef::steal(step.holder.find(args, slots)));
    values.push_back(step.value >= 0 ? making.get(step.value) : nullptr);
    if (!holders.back() || (step.value >= 0 && values.back() == nullptr)) return nullptr;
  }
  if (!fill_contexts(making, steps.contexts)) return nullptr;
  for (size_t i = 0; i < steps_.size(); ++i)
    if (!write(steps_[i], holders[i].get(), values[i])) return nullptr;
  return result.release();
}

// A handle may be among what is stored or returned.
void Effects::reserve_handles(const FunctionCalls& functions) {
  for (const TensorHook& h : functions.hooks) {
    hooks_.push_back({h.kind, h.boundary});
    if (h.handle) hooks_.back().handle = recipe_.reserve(h.handle.get());
  }
}

void Effects::add_hooks(FunctionCalls& functions, Maker& maker) {
  Effect e{EffectKind::TensorAttr, {}, {}, {}, "registers a hook on a tensor", {}};
  for (size_t k = 0; k < hooks_.size(); ++k) {
    TensorHook& h = functions.hooks[k];
    HookStep& step = hooks_[k];
    std::string refusal;
    if (h.function) {
      step.function = recipe_.add(h.function.get(), maker.finder, maker.outputs, refusal);
      if (step.function < 0) refuse(e, "the hook " + refusal);
    }
    // What only the call had, and is gone, retains nothing.
    const bool is_gone = h.kind == TensorHook::Kind::Retain && !h.history &&
                         std::find(maker.outputs.begin(), maker.outputs.end(), h.tensor.get()) ==
                             maker.outputs.end();
    if (is_gone) continue;
    functions.place_retained(h);
    step.boundary = h.boundary;
    if (h.boundary < 0 || h.kind == TensorHook::Kind::Retain)
      step.tensor = maker.value(e, h.tensor.get());
  }
}

std::vector<std::string> Effects::describe() const {
  std::vector<std::string> lines;
  for (const Step& s : steps_) lines.push_back(s.text);
  return lines;
}

int Effects::traverse(visitproc visit, void* arg) const {
  for (const Step& s : steps_) {
    Py_VISIT(s.holder.object.get());
    Py_VISIT(s.key.get());
  }
  return recipe_.traverse(visit, arg);
}

}  // namespace fulgurite::python
