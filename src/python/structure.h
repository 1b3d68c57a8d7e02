// The structure of arguments around tensors. (How results are put together: recipe.h.)
#pragma once

#include <Python.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "tensor_objects.h"
#include "watch/py_ref.h"

namespace fulgurite::python {

// A tree in prefix order. Containers are followed by their children.
struct StructureNode {
  enum class Kind : uint8_t {
    Tensor,    // a torch.Tensor or Parameter, index `count` among the tensors
    Value,     // an immutable value, compared by type and value (floats bitwise)
    Number,    // a float or int, compared by exact type
    Identity,  // any other object, compared by identity
    Tuple,     // exact type `type` (tuple, torch.Size or a named tuple); `count` children
    List,      // `count` children
    Dict,      // `count` children; `object` is the tuple of keys, in order
    Followed,  // an object of exact type `type`; what is inside is guarded by path
  };
  Kind kind;
  int32_t count = 0;
  PyRef object;
  PyRef type;
};

// Arguments of a call.
class ArgumentStructure {
 public:
  // Appends the tensors found. Keyword names are part of the structure. Sets `refusal` if an
  // argument cannot be handled (a tensor subclass).
  static ArgumentStructure of(PyObject* const* args, size_t nargs, PyObject* kwnames,
                              std::vector<PyObject*>& tensors, std::vector<PyObject*>& containers,
                              std::string& refusal);
  // Objects at these places ("args[0]['config']") are followed instead of compared by identity.
  void follow(const std::unordered_set<std::string>& places, std::vector<PyObject*>& followed);
  // True if the call has this structure; `tensors` and `followed` are filled (borrowed).
  bool match(PyObject* const* args, size_t nargs, PyObject* kwnames,
             std::vector<PyObject*>& tensors, std::vector<PyObject*>& followed) const;
  // The first place where another object of the same class is given; "" if there is none.
  std::string place_to_follow(PyObject* const* args, size_t nargs, PyObject* kwnames) const;
  // The first difference, in words.
  std::string difference(PyObject* const* args, size_t nargs, PyObject* kwnames) const;
  // One line per leaf that is no tensor: "args[1] == 2".
  std::vector<std::string> describe() const;
  // A name for each tensor: parameter names of the callable where they are known.
  std::vector<std::string> tensor_names(PyObject* callable) const;
  int traverse(visitproc visit, void* arg) const;
  // "args[1]" if argument i (keywords after positional ones) is a float or int; "" else.
  std::string number_path(size_t i) const;
  // From now on argument i may be any number of its type.
  void let_number_vary(size_t i);
  // The paths of arguments that are numbers of the same type and another value.
  std::vector<std::string> varied(PyObject* const* args, size_t nargs, PyObject* kwnames) const;

 private:
  size_t node_of(size_t argument) const;
  size_t nargs_ = 0;
  PyRef kwnames_;
  std::vector<StructureNode> nodes_;
  std::vector<uint32_t> first_places_;  // of lists, dicts and other objects: the first that is it
};

}  // namespace fulgurite::python
