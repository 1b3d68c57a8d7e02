// Frames inside of what is taken as a whole, such as the Python kernel of an operator: their reads
// and writes are not recorded. But a program that also reads what they write has to be refused.
// Dicts have a version tag that tells, if attributes are in a dict of their own; other objects that
// change are noted.
#include "internals.h"

#include "callees.h"
#include "events.h"

namespace fulgurite::python::watching {
namespace {

bool may_change(Callee callee) {
  switch (callee) {
    case Callee::Pure:
    case Callee::Deep:
    case Callee::Format:
    case Callee::Free:
    case Callee::Op:
    case Callee::Query:
    case Callee::Get:
    case Callee::Contains:
    case Callee::GetAttr:
    case Callee::Length:
    case Callee::IsInstance:
    case Callee::AbcCheck:
    case Callee::Id:
    case Callee::Super:
      return false;
    default:
      return true;
  }
}

// Which object a C function changes, if it is one that changes its first argument.
PyObject* changed_by_call(PyObject* callee, PyObject* first) {
  if (callee == nullptr || first == nullptr || PyFunction_Check(callee) || PyMethod_Check(callee) ||
      PyType_Check(callee))
    return nullptr;
  return may_change(find_callee(callee).callee) ? first : nullptr;
}

PyObject* about_to_change(const Frame& frame) {
  const auto [operation, argument] = frame.running;
  PyObject** end = frame.top;
  switch (operation) {
    case Operation::StoreAttr:
    case Operation::DeleteAttr:
      return end[-1];
    case Operation::StoreSubscr:
    case Operation::DeleteSubscr:
      return end[-2];
    case Operation::StoreSlice:
      return end[-3];
    case Operation::BinaryOp:
      return argument >= 13 ? end[-2] : nullptr;  // in place
    case Operation::StoreDeref:
    case Operation::DeleteDeref:
      return frame.frame->localsplus[argument];
    case Operation::LoadAttr:
      return PyTuple_GET_ITEM(code_of(frame.frame)->co_names, argument) == names().dict ? end[-1]
                                                                                        : nullptr;
    case Operation::CallNamed:
      --end;
      [[fallthrough]];
    case Operation::Call: {
      PyObject** begin = end - argument;
      PyObject* callee = begin[-2] ? begin[-2] : begin[-1];
      PyObject* self = begin[-2] ? begin[-1] : nullptr;
      PyObject* bound =
          callee != nullptr && PyCFunction_Check(callee) ? PyCFunction_GET_SELF(callee) : nullptr;
      if (self == nullptr && bound != nullptr && !PyModule_Check(bound)) self = bound;
      return changed_by_call(callee, self || begin == end ? self : *begin);
    }
    case Operation::CallFunctionEx: {
      PyObject* positional = end[-1 - (argument & 1)];
      PyObject* callee = end[-2 - (argument & 1)];
      if (callee == nullptr) callee = end[-3 - (argument & 1)];
      const bool some = PyTuple_Check(positional) && PyTuple_GET_SIZE(positional) > 0;
      return some ? changed_by_call(callee, PyTuple_GET_ITEM(positional, 0)) : nullptr;
    }
    default:
      return nullptr;
  }
}

}  // namespace

void Recording::expect_unseen_change(PyObject* object) {
  if (is_simple(object) || is_tensor(object) || is_born(object)) return;
  if (PyDict_CheckExact(object)) return;  // its tag moves
  if (changed_unseen_.insert(object).second) keep(object);
  if (Py_TYPE(object)->tp_dictoffset == 0) return;
  const PyRef made = PyRef::steal(PyObject_GenericGetDict(object, nullptr));
  if (!made) PyErr_Clear();
  PyObject* dict = instance_dict(object);
  if (dict && PyDict_Check(dict) && !owns_values(dict))
    refuse("changes attributes without memory to watch them");
}

bool Recording::is_about_unseen_change(const Fact& fact) const {
  if (changed_unseen_.empty()) return false;
  switch (fact.kind) {
    // Of these tags tell, or what they find is looked up again when the run is over.
    case FactKind::DictItem:
    case FactKind::DictAll:
    case FactKind::DictLength:
    case FactKind::CachedCall:
    case FactKind::InstanceDict:
    case FactKind::TypeAttribute:
    case FactKind::Mro:
    case FactKind::Protocol:
    case FactKind::TypeOf:
    case FactKind::FunctionCode:
    case FactKind::CallResult:
    case FactKind::Getset:
    case FactKind::TupleItem:
    case FactKind::WeakReference:
    case FactKind::ContextVariable:
    case FactKind::ThreadLocal:
      return false;
    default: {
      const auto slot = static_cast<size_t>(fact.holder_slot);
      PyObject* holder = fact.holder_slot < 0 ? fact.holder.get() : slot_objects_[slot].get();
      return changed_unseen_.count(holder) != 0;
    }
  }
}

void run_muted_instruction(Recording& r, Frame& frame) {
  PyObject* object = about_to_change(frame);
  if (object == nullptr) return;
  ErrorAside aside;
  r.expect_unseen_change(object);
}

}  // namespace fulgurite::python::watching
