// Which Python objects are numbers that vary, and what the program does with them.
//
// A number is known by the identity of its object, which is owned while the run goes on. Where an
// object could be shared (small ints, a float in an attribute), the program is given a fresh one in
// its place. Only what is listed here may be done with such an object: moving it, arithmetic,
// comparisons, giving it to operators, and letting it out: what the call returns or stores is made
// again with the program's numbers in it (recipe.h). Everything else *fixes* it: then its value is
// guarded.
#pragma once

#include <Python.h>

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "number_sink.h"
#include "py_ref.h"

namespace fulgurite::python::watching {

class Recording;
struct Frame;

// What the next event of a frame has to look at: the result of the instruction that ran.
struct NumberStep {
  enum class Kind {
    Read,        // out of a tensor
    ReadAll,     // all of a tensor's, as a list
    Use,         // by an operator
    UseTensors,  // by an operator that may take the number in a tensor
    Calculate,   // arithmetic
    Same,        // a number that is known already
    Decide,      // a comparison
    Carry,       // an opaque object that holds numbers now
    Source,      // a number from outside, or a tuple of some
    Text,        // a str with numbers in it
  } kind;
  NumberMark since;
  std::vector<NumberInCall> places{};  // Use, UseTensors
  std::vector<int> nodes{};            // all that take part; of a tuple: one per item, or -1
  const char* what = nullptr;          // Calculate, Decide
  PyObject* source = nullptr;          // Source: the object that is expected
  bool delegated = false;              // a Python function was called in between
  std::vector<PyRef> tensors{};        // ReadAll, UseTensors
  std::vector<PyRef> pieces{};         // Text
};

class NumberWatch {
 public:
  void start(NumberSink* sink) { sink_ = sink; }
  NumberSink* sink() const { return sink_; }
  bool any() const { return !nodes_.empty(); }

  int find(PyObject* object) const;  // -1: none
  // The numbers in `object`, containers opened.
  void collect(PyObject* object, std::vector<int>& nodes, int depth = 0) const;
  bool holds(PyObject* object) const;
  void fix(const std::vector<int>& nodes);
  void fix_in(PyObject* object);
  // From now on `object` is this number. It is owned.
  void track(PyObject* object, int node);
  void carry(PyObject* object, std::vector<int> nodes);
  // From now on `text` is what its pieces give: a str, or a tuple of a number and how it is
  // formatted. It may be put together with others, moved and printed.
  void track_text(PyObject* text, std::vector<int> nodes, std::vector<PyRef> pieces);
  bool is_text(PyObject* object) const { return texts_.count(object) != 0; }
  // What the text of an object consists of; a number is one piece.
  std::vector<PyRef> pieces_of(PyObject* object) const;
  // The run is over: texts that somebody still has are fixed.
  void fix_escaped_texts();
  // A comparison that decides what the program does; false if it cannot be followed.
  bool decide(int operation, PyObject* left, PyObject* right, bool outcome);
  // A number that was read and cannot be followed: only its value is known.
  void note_lost() { lost_ = true; }
  // Whether the run may be another one for each value of some number.
  bool is_tied_to_values() const { return lost_ || (sink_ != nullptr && sink_->any_fixed()); }
  // The run is over: the objects that are numbers of the program.
  void hand_over(std::unordered_map<PyObject*, int>& objects, std::vector<PyRef>& owners);
  // The node of an operand: a number, or a constant. Converted to float if asked for; -1 if it is
  // neither.
  int operand(PyObject* object, bool as_float);

 private:
  NumberSink* sink_ = nullptr;
  bool lost_ = false;
  std::unordered_map<PyObject*, int> nodes_;
  std::unordered_map<PyObject*, std::vector<int>> carriers_;
  std::unordered_map<PyObject*, std::vector<PyRef>> texts_;
  std::vector<PyRef> owned_;
};

bool is_number_object(PyObject* object);  // exactly a float, or an int of 64 bits
// A new object of the same value that nobody else has.
PyRef fresh_number(PyObject* number);

PyRef fresh_text(PyObject* text);
// Whether the pieces of a text (NumberWatch::track_text) are this one now.
bool gives_text(const std::vector<PyRef>& pieces, PyObject* text);
// `"%.3f" % n` and the sum of two texts: false if what comes out cannot be followed.
bool binary_text(Recording& r, Frame& frame, bool adds, PyObject* left, PyObject* right);

// Before the instruction runs; `top` is one past the top of the stack. Calls are seen by Call.
void number_instruction(Recording& r, Frame& frame);
// Before a Python frame returns (or yields) `value`.
void number_return(Recording& r, PyObject* value);
// The result of the instruction before is on the stack.
void number_result(Recording& r, Frame& frame);
// It raised instead.
void number_raise(Recording& r, Frame& frame);

}  // namespace fulgurite::python::watching
