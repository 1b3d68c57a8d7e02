// How to make Python values again that a recorded call made: its result, and what it stored in
// objects that outlive it.
//
// A recipe is one directed graph for all of a call's values, so that what was one object in the
// recorded run is one object again, however often it was stored. Tensors are outputs of the
// program, inputs, or objects that the guards fix; older objects are named by where they are found;
// numbers that the program computes are outputs as well; everything that the call made itself is
// built anew, without running any of its class's code.
#pragma once

#include <Python.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "watch/watcher.h"

namespace at {
class Tensor;
}

namespace fulgurite::python {

// Where an object of the present call is found.
struct Locator {
  enum class Kind : uint8_t { Fixed, Slot, Argument, None } kind = Kind::None;
  PyRef object;              // Fixed
  int index = -1;            // Slot: which; Argument: which of the call's arguments
  std::vector<PyRef> steps;  // Argument: keys and indices on the way inwards
  // A new reference, or nullptr with an exception set.
  PyObject* find(PyObject* const* args, const std::vector<PyRef>& slots) const;
};

// What is known about the objects of a recorded call.
class ObjectFinder {
 public:
  ObjectFinder(const Observation& seen, PyObject* const* args, size_t nargs);
  // kind None if the object is not older than the call.
  Locator locate(PyObject* object) const;
  bool is_older(PyObject* object) const;
  bool is_older_type(PyTypeObject* type) const;
  bool is_number(PyObject* object) const { return seen_.number_objects.count(object) != 0; }

 private:
  void add_argument(PyObject* object, size_t index, std::vector<PyRef>& steps, int depth);
  const Observation& seen_;
  std::unordered_map<PyObject*, Locator> arguments_;
  std::unordered_set<PyTypeObject*> types_;  // of the arguments
};

struct RecipeNode {
  enum class Kind : uint8_t {
    Output,    // tensor number `index` of the program's outputs, made an nn.Parameter (`type`);
               // `object` and children: Python attributes that the call gave it
    Number,    // the number in that output, a float64 or int64 without dimensions
    Constant,  // `object`
    Located,   // locators[index]
    Tuple,     // `children`, made as a `type`
    List,
    Dict,      // children: values; `object`: the tuple of keys
    Set,       // a copy of `object`, or else of the children; a set or frozenset by `type`
    Instance,  // of class `type`: children are the values of the attributes named in `object`, then
               // `contents`, a node with what the builtin base class holds
    Method,    // children: function, self
    Function,  // code `object`, globals `type`; children: eight attributes (-1: none), the cells
    Cell,      // children: its content, or nothing
    Given,     // made by somebody else (Making::give)
    Call,      // of `type` with the children, and the keywords in node `contents`
  } kind;
  int index = -1;
  std::vector<int> children{};
  PyRef object{};
  PyRef type{};
  int contents = -1;
};

class Recipe {
 public:
  // Adds what is needed for `object`; the node's number, or -1 with `refusal` set. What the program
  // has to give is appended to `outputs` (borrowed): tensors, and numbers of
  // Observation::number_objects.
  int add(PyObject* object, const ObjectFinder& finder, std::vector<PyObject*>& outputs,
          std::string& refusal);
  // An object that will be made by somebody else.
  int reserve(PyObject* object) { return push({RecipeNode::Kind::Given}, object); }
  // Nothing is added any more: lets go of the recorded call's objects.
  void finish();
  // As Python with $0, $1, ... for tensors; "" if it has no literal form.
  std::string expression(int node) const;
  int traverse(visitproc visit, void* arg) const;

  // The values of one call.
  class Making {
   public:
    Making(const Recipe& recipe, const std::vector<at::Tensor>& outputs, PyObject* const* args,
           const std::vector<PyRef>& slots);
    // Borrowed, kept by this; nullptr with an exception set.
    PyObject* get(int node);
    void give(int node, PyRef object) { made_[static_cast<size_t>(node)] = std::move(object); }

   private:
    PyRef make(int node);
    PyRef call(const RecipeNode& node);
    PyRef make_frozen_set(const RecipeNode& node);
    bool fill_function(const RecipeNode& node, PyObject* object);
    bool fill(const RecipeNode& node, PyObject* object);
    bool fill_contents(const RecipeNode& contents, PyObject* object);
    const Recipe& recipe_;
    const std::vector<at::Tensor>& outputs_;
    PyObject* const* args_;
    const std::vector<PyRef>& slots_;
    std::vector<PyRef> made_;
  };

 private:
  struct Adding {
    const ObjectFinder& finder;
    std::vector<PyObject*>& outputs;
    std::string& refusal;
    int refuse(std::string why) {
      refusal = std::move(why);
      return -1;
    }
  };
  std::string text(int node, size_t& left) const;
  int push(RecipeNode node, PyObject* object);
  int add_constant(PyObject* o);
  int add_at(PyObject* object, Adding& adding, int depth);
  int add_output(PyObject* object, RecipeNode::Kind kind, Adding& adding);
  int add_tensor(PyObject* tensor, bool is_made, Adding& adding, int depth);
  int add_made(PyObject* object, Adding& adding, int depth);
  int add_dict(PyObject* dict, Adding& adding, int depth);
  int add_set(PyObject* set, Adding& adding, int depth);
  int add_function(PyObject* function, Adding& adding, int depth);
  int add_cell(PyObject* cell, Adding& adding, int depth);
  int add_builtin_object(PyObject* object, Adding& adding, int depth);
  int add_instance(PyObject* object, Adding& adding, int depth);
  bool add_children(int node, const std::vector<PyRef>& objects, Adding& adding, int depth);

  std::vector<RecipeNode> nodes_;
  std::vector<Locator> locators_;
  std::unordered_map<PyObject*, int> numbers_of_;  // only while it is being made
  std::vector<PyRef> keep_;
};

}  // namespace fulgurite::python
