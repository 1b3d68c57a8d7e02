// What each instruction is about to read and write, seen just before it runs.
//
// `frame.top[-1]` is the top of the stack. Results are not there yet; where one matters (C calls,
// iteration) the frame is marked pending and the next event looks at it.
#include "internals.h"

#include <array>
#include <initializer_list>

#include "callees.h"
#include "events.h"

namespace fulgurite::python::watching {
namespace {

std::string type_text(PyObject* object) { return Py_TYPE(object)->tp_name; }

void look_at_result(Recording& r, Frame& frame) {
  const Pending pending = std::exchange(frame.pending, Pending::Nothing);
  PyRef callee = std::exchange(frame.callee, PyRef());
  PyRef arguments = std::exchange(frame.arguments, PyRef());
  const bool function_call = std::exchange(frame.function_call, false);
  if (frame.top <= stack_of(frame.frame)) return;
  PyObject* result = frame.top[-1];
  if (!result) return;
  if (function_call) {
    const std::string why = r.functions.end(result);
    if (!why.empty()) r.refuse(why);
  }
  switch (pending) {
    case Pending::Query:
      return r.read_call_result(callee.get(), arguments.get(), result);
    case Pending::Call:
      if (PyWeakref_CheckRef(result)) return r.know(result, kNoParent);  // references are shared
      if (callee && Py_TYPE(callee.get()) == known_types().lru_cache) {
        return r.know(result, kNoParent);  // of an audited cache, else the call was refused
      }
      if (r.has_origin(result)) return;
      return r.require_origin(result, "a call of " + describe_object(callee.get()));
    case Pending::Iterator:
      return r.require_origin(result, "an iterator");
    case Pending::Attribute:
      return r.require_origin(result, "an attribute");
    default:
      return r.require_origin(result, "an item");
  }
}

class Step {
 public:
  Step(Recording& recording, Frame& frame)
      : r_(recording),
        frame_(frame),
        f_(frame.frame),
        top_(frame.top),
        operation_(frame.running.operation),
        argument_(frame.running.argument) {}

  void run() {
    using enum Operation;
    if (r_.numbers.any()) number_instruction(r_, frame_);
    switch (operation_) {
      case Moves:
      case UsesTop:
      case Resume:
      case BuildString:
        return;
      case Unknown:
        return r_.refuse("runs an instruction that the watcher does not know");
      case LoadGlobal:
        if (!r_.read_dict(f_->f_globals, name())) r_.read_dict(f_->f_builtins, name());
        return;
      case LoadName:
        return load_name(f_->f_locals);
      case LoadFromDictOrGlobals:
        return load_name(peek(1));
      case LoadFromDictOrDeref:
        if (PyDict_Check(peek(1)) && r_.read_dict(peek(1), local_name())) return;
        [[fallthrough]];
      case LoadDeref:
        if (PyObject* cell = f_->localsplus[argument_]; cell && PyCell_Check(cell)) {
          r_.read_cell(cell, local_name());
        }
        return;
      case LoadAttr:
        frame_.pending = Pending::Attribute;
        [[fallthrough]];
      case LoadMethod:
      case ImportFrom:
        return r_.read_attribute(peek(1), name());
      case LoadSuperAttr:
        frame_.pending = Pending::Attribute;
        [[fallthrough]];
      case LoadSuperMethod:
        return super_attribute();
      case LoadConst:
      case ReturnConst:
        if (PyObject* constant = PyTuple_GET_ITEM(code_of(f_)->co_consts, argument_);
            !is_simple(constant)) {
          r_.know(constant, kNoParent);
        }
        return;
      case ImportName:
        return import_name();
      case ImportStar:
        return r_.refuse("imports all names of a module");
      case BinarySubscr:
        return subscript(peek(2), peek(1));
      case BinarySlice:
        return subscript(peek(3), slice_on_top().get());
      case ContainsOp:
        return contains();
      case CompareOp:
        return compare();
      case IsOp:
        if (is_replaceable(peek(1)) && is_replaceable(peek(2)) && !frame_.copies) {
          r_.refuse("compares two values by identity (`is`)");
        }
        return identity(peek(1), peek(2));
      case BinaryOp:
        return binary();
      case UnaryPositive:
      case UnaryNegative:
      case UnaryInvert:
        return unary();
      case Truth:
        return r_.read_truth(peek(1));
      case GetIter:
        return get_iterator();
      case ForIter:
        frame_.pending = Pending::Iterator;
        frame_.iterator = peek(1);
        return advance(peek(1));
      case Send:
        return advance(peek(2));
      case GetAwaitable:
        r_.read_protocol(Py_TYPE(peek(1)));
        return;
      case Unpack:
      case Extend:
      case Update:
      case Merge:
      case ListToTuple:
        return take_all(peek(1));
      case MatchContainer:  // which registering a class with an abstract one decides
        if (is_heap_type(Py_TYPE(peek(1)))) r_.read_abc_token();
        return take_all(peek(1));
      case GetLen:
        return r_.read_length(peek(1));
      case MatchKeys:
        r_.read_type_of(peek(2));
        return r_.read_all(peek(2));
      case MatchClass:
        return match_class();
      case CheckExcMatch:
      case CheckEgMatch:
        return r_.read_mro(Py_TYPE(peek(2)));
      case LoadBuildClass:
        r_.read_dict(f_->f_builtins, names().build_class);
        return;
      case BuildSet:
        for (int i = 1; i <= argument_; ++i) r_.read_key(peek(i));
        return;
      case BuildMap:
        for (int i = 1; i <= argument_; ++i) r_.read_key(peek(2 * i));
        return;
      case SetAdd:
        return r_.read_key(peek(1));
      case MapAdd:
        return r_.read_key(peek(2));
      case FormatValue:
        return format(argument_ & kWithSpecification ? peek(2) : peek(1));
      case BeforeWith:
      case BeforeAsyncWith:
        return enter_context(peek(1));
      case KwNames:
        frame_.keyword_names = PyTuple_GET_ITEM(code_of(f_)->co_consts, argument_);
        return;
      case Operation::Call:
        return call(top_);
      case CallNamed:
        frame_.keyword_names = peek(1);
        return call(top_ - 1);
      case CallFunctionEx:
        return call_with_collections();
      case StoreAttr:
        return r_.write_attribute(peek(1), name(), peek(2));
      case DeleteAttr:
        return r_.write_attribute(peek(1), name(), nullptr);
      case StoreGlobal:
        return r_.write_global(f_->f_globals, name(), peek(1));
      case DeleteGlobal:
        return r_.write_global(f_->f_globals, name(), nullptr);
      case StoreName:
        if (f_->f_locals) r_.write_global(f_->f_locals, name(), peek(1));
        return;
      case DeleteName:
        if (f_->f_locals) r_.write_global(f_->f_locals, name(), nullptr);
        return;
      case StoreDeref:
      case DeleteDeref:
        if (PyObject* cell = f_->localsplus[argument_]; cell && PyCell_Check(cell)) {
          r_.write_cell(cell, local_name(), operation_ == StoreDeref ? peek(1) : nullptr);
        }
        return;
      case StoreSubscr:
        return store_item(peek(2), peek(1), peek(3));
      case DeleteSubscr:
        return store_item(peek(2), peek(1), nullptr);
      case StoreSlice:
        return store_item(peek(3), slice_on_top().get(), peek(4));
    }
  }

 private:
  PyObject* peek(int depth) const { return top_[-depth]; }
  PyObject* name() const { return PyTuple_GET_ITEM(code_of(f_)->co_names, argument_); }
  PyObject* local_name() const {
    return PyTuple_GET_ITEM(code_of(f_)->co_localsplusnames, argument_);
  }

  // A tensor: what happens is an operator, unless the hooks of its class say otherwise.
  bool takes_over(PyObject* object, std::initializer_list<PyObject*> hooks) {
    if (!is_tensor(object)) return false;
    for (PyObject* hook : hooks) r_.read_type(Py_TYPE(object), hook);
    return true;
  }

  void load_name(PyObject* scope) {
    PyObject* found = nullptr;
    if (scope && PyDict_Check(scope)) found = r_.read_dict(scope, name());
    if (!found) found = r_.read_dict(f_->f_globals, name());
    if (!found) r_.read_dict(f_->f_builtins, name());
  }

  void import_name() {
    PyRef import = PyRef::steal(PyUnicode_InternFromString("__import__"));
    r_.read_dict(f_->f_builtins, import.get());
    PyObject* modules = PyImport_GetModuleDict();
    PyObject* wanted = name();
    PyObject* level = peek(2);
    if (PyLong_Check(level) && PyLong_AsLong(level) > 0) {
      // A relative import: the absolute name follows from the package, which is a global.
      PyRef key = PyRef::steal(PyUnicode_InternFromString("__package__"));
      PyObject* package = r_.read_dict(f_->f_globals, key.get());
      PyRef absolute = package && PyUnicode_Check(package)
                           ? PyRef::steal(resolve_relative(package, PyLong_AsLong(level), wanted))
                           : PyRef();
      if (!absolute) return r_.refuse("imports a module by a relative name");
      return read_module(modules, absolute.get());
    }
    read_module(modules, wanted);
    Py_ssize_t dot = PyUnicode_FindChar(wanted, '.', 0, PyUnicode_GET_LENGTH(wanted), 1);
    if (dot > 0) read_module(modules, PyRef::steal(PyUnicode_Substring(wanted, 0, dot)).get());
  }

  static PyObject* resolve_relative(PyObject* package, long level, PyObject* wanted) {
    std::string base = text_of(package);
    for (long i = 1; i < level; ++i) {
      size_t dot = base.rfind('.');
      if (dot == std::string::npos) return nullptr;
      base.resize(dot);
    }
    std::string rest = text_of(wanted);
    if (!rest.empty()) base += "." + rest;
    return PyUnicode_FromString(base.c_str());
  }

  void read_module(PyObject* modules, PyObject* module_name) {
    if (!r_.read_dict(modules, module_name)) {
      r_.refuse("imports " + text_of(module_name) + " for the first time");
    }
  }

  // `super().name`, which makes no object.
  void super_attribute() {
    PyObject* start = peek(2);
    PyObject* object = peek(1);
    if (peek(3) != reinterpret_cast<PyObject*>(&PySuper_Type) || !PyType_Check(start))
      return r_.refuse("looks up an attribute by a super() that is not Python's");
    if (!PyType_Check(object)) r_.read_type_of(object);
    r_.read_inherited(reinterpret_cast<PyTypeObject*>(start), object, name());
  }

  // What `[start:stop]` asks for.
  PyRef slice_on_top() const { return PyRef::steal(PySlice_New(peek(2), peek(1), nullptr)); }

  void subscript(PyObject* container, PyObject* key) {
    container = behind_proxy(container);
    PyTypeObject* type = Py_TYPE(container);
    frame_.pending = Pending::Item;
    if (takes_over(container, {names().getitem})) return;
    if (PyTuple_Check(container) && !is_heap_type(type)) return;  // structseqs included
    r_.read_type(type, names().getitem);
    r_.read_type_of(container);
    if (PyDict_Check(container)) {
      r_.read_key(key);
      PyObject* found = r_.read_dict(container, key);
      if (!found && !PyDict_CheckExact(container)) missing(container, key);
    } else if (has_items(container)) {
      r_.read_list_item(container, key);
    } else if (is_heap_type(type) || PyType_Check(container)) {
      if (PyTuple_Check(container)) return;
      PyObject* method = _PyType_Lookup(type, names().getitem);
      if (!method && PyType_Check(container)) {
        return r_.read_attribute(container, names().class_getitem);
      }
      if (method && !PyFunction_Check(method)) r_.read_all(container);
    } else if (!is_value(container)) {
      if (is_ndarray(container)) {
        r_.read_all(container);
      } else {
        r_.refuse("reads an item of a " + type_text(container) + ", which is not watched");
      }
    }
  }

  // Whether the factory of a defaultdict gives a new value each time: a builtin class, or Python
  // code (which is watched).
  bool makes_new_values(PyObject* dict) {
    PyRef name = PyRef::steal(PyUnicode_InternFromString("default_factory"));
    r_.read_attribute(dict, name.get());
    PyRef factory = PyRef::steal(PyObject_GetAttr(dict, name.get()));
    if (!factory) PyErr_Clear();
    if (!factory || factory.get() == Py_None || PyFunction_Check(factory.get())) return true;
    if (!PyType_Check(factory.get())) return false;
    const Callee made = find_callee(factory.get()).callee;
    return made == Callee::Pure || made == Callee::Deep || made == Callee::Free;
  }

  void missing(PyObject* dict, PyObject* key) {
    r_.read_type(Py_TYPE(dict), names().missing);
    PyObject* hook = _PyType_Lookup(Py_TYPE(dict), names().missing);
    if (!hook || PyFunction_Check(hook) || r_.is_born(dict)) return;
    // collections.defaultdict stores what its factory makes.
    if (!is_safe_key(key) || !makes_new_values(dict))
      return r_.refuse("fills in a missing key of a defaultdict");
    r_.mark_written(dict, key);
    PyRef how = PyRef::steal(PyUnicode_FromString("__missing__"));
    PyRef arguments = PyRef::steal(PyTuple_Pack(1, key));
    r_.effect(EffectKind::Mutate, dict, how.get(), arguments.get(),
              "fills in " + r_.path(dict) + "[" + describe_object(key, 40) + "]");
  }

  void contains() {
    PyObject* container = peek(1);
    if (takes_over(container, {names().contains})) return;
    r_.pin(peek(2));
    if (!PyDict_Check(container)) r_.pin(container);
    r_.read_type(Py_TYPE(container), names().contains);
    r_.read_protocol(Py_TYPE(peek(2)));
    r_.read_key(peek(2));
    r_.read_type_of(container);
    r_.read_contains(container, peek(2));
  }

  // Values are guarded by equality, so which of the equal objects it is may change.
  static bool is_replaceable(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (type == &PyLong_Type) {
      int overflow = 0;
      long value = PyLong_AsLongAndOverflow(object, &overflow);
      return overflow != 0 || value < -5 || value > 256;  // the rest exist once
    }
    if (type == &PyUnicode_Type) return !PyUnicode_CHECK_INTERNED(object);
    if (PyTuple_Check(object) && PyTuple_GET_SIZE(object) == 0) return false;
    return is_value(object) &&
           (type == &PyFloat_Type || type == &PyBytes_Type || type == &PyComplex_Type ||
            type == &PyRange_Type || type == &PySlice_Type || PyTuple_Check(object));
  }

  void identity(PyObject* a, PyObject* b) {
    if (a == Py_None || b == Py_None || frame_.copies) return;
    for (PyObject* one : {a, b})
      if (r_.is_followed(one)) r_.pin(one);
  }

  void unary() {
    PyObject* operand = peek(1);
    require_audited_type(operand);
    const char* method = operation_ == Operation::UnaryNegative   ? "__neg__"
                         : operation_ == Operation::UnaryPositive ? "__pos__"
                                                                  : "__invert__";
    r_.read_type(Py_TYPE(operand), method);
    r_.read_type_of(operand);
  }

  void compare() {
    static const std::array<PyObject*, 6> methods = {
        PyUnicode_InternFromString("__lt__"), PyUnicode_InternFromString("__le__"),
        PyUnicode_InternFromString("__eq__"), PyUnicode_InternFromString("__ne__"),
        PyUnicode_InternFromString("__gt__"), PyUnicode_InternFromString("__ge__")};
    static constexpr std::array<size_t, 6> reflected = {4, 5, 2, 3, 0, 1};
    const auto how = static_cast<size_t>(argument_ & ~kAsTruth) % methods.size();
    for (int i = 1; i <= 2; ++i) {
      PyObject* operand = peek(i);
      if (!is_tensor(operand)) r_.pin(operand);
      if (is_value(operand) || takes_over(operand, {methods[i == 2 ? how : reflected[how]]}))
        continue;
      r_.read_protocol(Py_TYPE(operand));
      r_.read_type_of(operand);
      if (!is_simple(operand)) r_.read_all(operand, true);
    }
    // Of what Python functions return: on_result_for_c.
    if ((argument_ & kAsTruth) == 0) return;
    for (PyObject* operand : {peek(1), peek(2)}) {
      if (!is_tensor(operand)) continue;
      r_.read_truth(operand);
      r_.read_type(known_types().tensor, names().bool_);
    }
  }

  void binary() {
    static PyObject* methods[13][3];
    if (!methods[0][0]) {
      const char* stems[] = {"add", "and", "floordiv", "lshift", "matmul",  "mul", "mod",
                             "or",  "pow", "rshift",   "sub",    "truediv", "xor"};
      for (int i = 0; i < 13; ++i) {
        const char* prefixes[] = {"__", "__r", "__i"};
        for (int j = 0; j < 3; ++j) {
          methods[i][j] =
              PyUnicode_InternFromString((std::string(prefixes[j]) + stems[i] + "__").c_str());
        }
      }
    }
    bool in_place = argument_ >= 13;
    if (PyUnicode_Check(peek(2)) || PyBytes_Check(peek(2))) format(peek(1));  // "%s" % value
    for (int i = 1; i <= 2; ++i) {
      PyObject* operand = peek(i);
      if (is_value(operand)) continue;
      PyTypeObject* type = Py_TYPE(operand);
      if (is_tensor(operand)) {
        r_.read_type(type, methods[argument_ % 13][i == 2 ? 0 : 1]);
        if (in_place && i == 2) r_.read_type(type, methods[argument_ % 13][2]);
        continue;
      }
      if (is_heap_type(type)) {
        r_.read_type(type, methods[argument_ % 13][i == 2 ? 0 : 1]);
        if (in_place && i == 2) r_.read_type(type, methods[argument_ % 13][2]);
        r_.read_type_of(operand);
      }
      require_audited_type(operand);
      r_.read_all(operand);
    }
    PyObject* left = peek(2);
    if (in_place && (PyList_Check(left) || PyDict_Check(left) || PyAnySet_Check(left)) &&
        Py_TYPE(left) != &PyFrozenSet_Type && !r_.is_born(left)) {
      PyRef arguments = PyRef::steal(PyTuple_Pack(1, peek(1)));
      r_.mutate(left, text_of(methods[argument_ % 13][2]), arguments.get());
    } else if (in_place && !is_simple(left) && !is_tensor(left) && !PyTuple_Check(left) &&
               Py_TYPE(left) != &PyFrozenSet_Type && !r_.is_born(left)) {
      PyObject* method = _PyType_Lookup(Py_TYPE(left), methods[argument_ % 13][2]);
      if (method && !PyFunction_Check(method))
        r_.refuse("changes a " + type_text(left) + " in place");
    }
  }

  // The arithmetic of a C type may depend on more than its operands: that of decimals does.
  void require_audited_type(PyObject* operand) {
    PyTypeObject* type = Py_TYPE(operand);
    if (is_heap_type(type) || PyTuple_Check(operand) || PyList_Check(operand) ||
        PyDict_Check(operand) || PyAnySet_Check(operand) || is_simple(operand) ||
        PyDictViewSet_Check(operand) || PyDictValues_Check(operand))
      return;
    if (find_callee_by_name(qualified_type_name(type)).callee == Callee::Unknown) {
      r_.refuse("computes with a " + type_text(operand) + ", a C type that is not audited");
    }
  }

  void get_iterator() {
    PyObject* object = peek(1);
    if (is_value(object) || takes_over(object, {names().iter})) return;
    r_.read_type(Py_TYPE(object), names().iter);
    r_.read_type(Py_TYPE(object), names().getitem);
    r_.read_type_of(object);
    if (!PyGen_Check(object) && !PyCoro_CheckExact(object) && !PyIter_Check(object)) {
      r_.read_all(object);
    }
  }

  void advance(PyObject* iterator) {
    if (r_.is_born(iterator) || PyGen_Check(iterator) || PyCoro_CheckExact(iterator)) return;
    r_.read_type(Py_TYPE(iterator), names().next);
    PyObject* next = _PyType_Lookup(Py_TYPE(iterator), names().next);
    if (next && PyFunction_Check(next)) return;
    r_.refuse("advances an iterator that was made before the call");
  }

  void take_all(PyObject* object) {
    if (is_value(object) || takes_over(object, {names().iter})) return;
    r_.read_type(Py_TYPE(object), names().iter);
    r_.read_type_of(object);
    r_.read_all(object);
  }

  // Context managers written in C are called without a CALL instruction.
  void enter_context(PyObject* manager) {
    PyTypeObject* type = Py_TYPE(manager);
    r_.read_type_of(manager);
    for (PyObject* name : {names().enter, names().exit}) {
      r_.read_type(type, name);
      PyObject* method = _PyType_Lookup(type, name);
      if (!method || PyFunction_Check(method)) continue;
      Callee callee = find_callee_by_name(qualified_type_name(type) + "." + text_of(name)).callee;
      if (callee == Callee::Unknown) callee = find_callee(method).callee;
      if (callee != Callee::Free && callee != Callee::Pure) {
        return r_.refuse("enters a " + type_text(manager) +
                         ", a C context manager that is not audited");
      }
    }
  }

  void match_class() {
    PyObject* subject = peek(3);
    PyObject* type = peek(2);
    PyObject* keywords = peek(1);
    if (!PyType_Check(type)) return;
    r_.read_instance_check(subject, type);
    PyRef match_args = PyRef::steal(PyUnicode_InternFromString("__match_args__"));
    r_.read_attribute(type, match_args.get());
    auto read_names = [&](PyObject* attributes) {
      if (!attributes || !PyTuple_Check(attributes)) return;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(attributes); ++i) {
        PyObject* attribute = PyTuple_GET_ITEM(attributes, i);
        if (PyUnicode_Check(attribute)) r_.read_attribute(subject, attribute);
      }
    };
    read_names(keywords);
    read_names(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), match_args.get()));
  }

  void format(PyObject* object) {
    r_.pin(object);  // whose text may be its address
    if (is_value(object) || takes_over(object, {names().format})) return;
    r_.read_protocol(Py_TYPE(object));
    r_.read_type_of(object);
    if (!is_simple(object)) r_.read_all(object, true);
  }

  // (Without a self, null is before the callee up to 3.12 and after it from 3.13 on.)
  void call(PyObject** end) {
    PyObject** begin = end - argument_;
    PyObject* callee = begin[-2] ? begin[-2] : begin[-1];
    PyObject* self = begin[-2] ? begin[-1] : nullptr;
    if (!callee) return;
    CallArguments arguments{{begin, end}, frame_.keyword_names, nullptr};
    if (self) arguments.values.insert(arguments.values.begin(), self);
    frame_.keyword_names = nullptr;
    if (r_.numbers.any()) hand_out_copies(callee, begin, end);
    on_call(r_, frame_, callee, std::move(arguments));
  }

  // Streams may keep what is printed; a text with numbers that somebody has when the call is over
  // is one that was stored.
  void hand_out_copies(PyObject* callee, PyObject** begin, PyObject** end) {
    if (!PyCFunction_Check(callee) || qualified_name(callee) != "builtins.print") return;
    for (PyObject** place = begin; place != end; ++place) {
      PyRef copy = r_.numbers.is_text(*place) ? fresh_text(*place) : PyRef();
      if (copy) Py_SETREF(*place, copy.release());
    }
  }

  void call_with_collections() {
    int has_keywords = argument_ & 1;
    PyObject* keywords = has_keywords ? peek(1) : nullptr;
    PyObject* positional = peek(1 + has_keywords);
    PyObject* callee = peek(2 + has_keywords);
    if (!callee) callee = peek(3 + has_keywords);
    if (keywords && PyDict_Check(keywords)) {
      r_.read_all(keywords);
    } else {
      keywords = nullptr;
    }
    CallArguments arguments;
    arguments.keywords = keywords;
    if (!PyTuple_Check(positional)) r_.read_all(positional);
    if (PyTuple_Check(positional) || PyList_Check(positional)) {
      PyObject** items = PySequence_Fast_ITEMS(positional);
      arguments.values.assign(items, items + PySequence_Fast_GET_SIZE(positional));
    } else if (is_deque(positional)) {  // which keeps them
      for (Py_ssize_t i = 0; i < count_items(positional); ++i)
        arguments.values.push_back(item_at(positional, i).get());
    } else if (!r_.is_born(positional)) {
      r_.refuse("calls with *arguments from a " + type_text(positional));
    }
    on_call(r_, frame_, callee, std::move(arguments));
  }

  void store_item(PyObject* container, PyObject* key, PyObject* value) {
    if (takes_over(container, {value ? names().setitem : names().delitem})) return;
    PyTypeObject* type = Py_TYPE(container);
    r_.read_key(key);
    PyObject* hook = value ? names().setitem : names().delitem;
    r_.read_type(type, hook);
    if (is_heap_type(type)) {
      PyObject* method = _PyType_Lookup(type, hook);
      if (method && PyFunction_Check(method)) return r_.read_type_of(container);
    }
    if (r_.is_born(container)) return;
    if (is_ndarray(container)) return r_.refuse("writes into a numpy array");
    if (!PyDict_Check(container) && !PyList_Check(container)) {
      return r_.refuse("writes into a " + type_text(container) + ", which is not watched");
    }
    r_.write_item(container, key, value);
  }

  Recording& r_;
  Frame& frame_;
  _PyInterpreterFrame* f_;
  PyObject** top_;
  Operation operation_;
  int argument_;
};

}  // namespace

void on_instruction(Recording& recording, Frame& frame) {
  recording.given = {};
  if (frame.pending != Pending::Nothing) look_at_result(recording, frame);
  if (frame.number_step) number_result(recording, frame);
  Step(recording, frame).run();
  recording.follow_number_reads(frame);
}

}  // namespace fulgurite::python::watching
