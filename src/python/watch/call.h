// The model of one C call: what it is (calls.cpp) and what it reads and writes (call_effects.cpp).
#pragma once

#include "internals.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callees.h"
#include "events.h"

namespace fulgurite::python::watching {

class Call {
 public:
  Call(Recording& recording, Frame& frame, PyObject* callee, CallArguments& arguments);
  void model();

 private:
  // What is called.
  CalleeModel find();
  CalleeModel find_pybind_method();
  CalleeModel find_cython_function();
  CalleeModel construction(PyTypeObject* type);
  bool handle_objects();
  bool is_ours(PyTypeObject* type) const;
  bool call_partial();
  bool call_lru_cache();
  void numbers(const CalleeModel& model);
  bool looks_at_text(Callee callee) const;
  bool prints_numbers(size_t count) const;
  bool number_calculation(const std::string& called);
  bool number_choice(int operation);
  bool number_rounding();
  bool number_format(const std::string& called);
  bool text_of_numbers(const std::string& called, const std::vector<int>& nodes);
  bool number_extreme(int operation, PyObject* const* items, Py_ssize_t count);
  void number_use(std::vector<int> nodes);
  void tensor_use();
  void read_arguments(Callee callee);
  void read_callback(PyObject* callback);
  static bool harmless(Callee callee);
  // operator.attrgetter and methodcaller (getters.cpp).
  void call_attribute_getter();
  void call_method_caller();
  bool read_getter_over_items(PyObject* getter);

  // What it reads and writes.
  void apply(const CalleeModel& model);
  void apply_function(PyObject* function);
  void hook_node(PyObject* node, PyObject* hook);
  void read_values(bool deep, size_t from = 0, bool is_operator = false);
  bool is_called(const char* name) const;
  bool computes() const;
  void pin_arguments(Callee callee);
  PyObject* argument(size_t i) const { return i < a_.size() ? a_[i] : nullptr; }
  std::string name() const { return qualified_name(callee_); }
  std::string method_name() const;
  bool is_slot_wrapper() const;
  static bool is_python_iterator(PyObject* object);
  bool compares_items() const;
  static bool reads_fields(PyObject* format);
  void mutate_key();
  bool changes_nothing(PyObject* container, PyObject* item);
  void update();
  void drop_no_changes(PyObject* dict, PyObject* changes, std::vector<PyObject*>& keys);
  bool passes_items_to_python() const;
  void is_instance();
  void read_instance_checks(PyObject* object, PyObject* types);
  void read_base_classes(std::span<PyObject* const> bases);
  void take_id(PyObject* object);
  void mark_warning_registry();
  bool warn();
  bool prints();
  bool print_options(PyObject* (&options)[4]) const;
  void writes_text(PyObject* stream, const std::vector<PyRef>& pieces, PyObject* text, bool flush);
  bool warning_arguments(PyObject*& message, PyObject*& category, Py_ssize_t& stacklevel) const;
  void read_scope();
  void reduce();
  void read_state(PyObject* object);
  bool reads_elements();
  bool accumulates() const;
  static bool grad_mode();
  void unknown();

  Recording& r_;
  Frame& frame_;
  PyObject* callee_;
  std::vector<PyObject*>& a_;  // the arguments; for a bound method, the object comes first
  CallArguments& arguments_;
  size_t explicit_from_ = 0;  // where in a_ the arguments begin that the caller wrote
};

// What a Python function that C code has called gives back to it.
void on_result_for_c(Recording& recording, const Frame& caller, const Frame& frame,
                     PyObject* result);

// Whether the text of it is made by C code from what the guards fix.
bool has_fixed_text(PyObject* object, int depth = 0);

// A frame of Logger._log begins: true if it is an effect that is replayed.
bool logs(Recording& recording, const _PyInterpreterFrame* frame);

// Why a hook cannot be made again by each call that the program serves; "" if it can.
std::string why_no_hook(const Recording& recording, PyObject* hook);

// A new tuple of the items from `from` on.
PyRef tuple_of(const std::vector<PyObject*>& items, size_t from = 0);

}  // namespace fulgurite::python::watching
