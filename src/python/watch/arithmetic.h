// Arithmetic that differ from call to call, and what a program computed from them: `self.n += 1` is
// "slot 3, plus 1". The arithmetic is Python's own, done again for each call.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "py_ref.h"

namespace fulgurite::python {

class Arithmetic {
 public:
  struct Node {
    enum class Kind : uint8_t { Slot, Constant, Binary, Unary, Compare, Truth } kind;
    int operation = 0;  // Binary: an NB_* of BINARY_OP; Unary: the opcode; Compare: Py_LT ...
    int left = -1;      // a node, or the slot
    int right = -1;
    PyRef recorded;  // what it was in the recorded run
  };
  // The recorded run depended on what the node is in another way than by arithmetic.
  struct Guard {
    int node;
    std::string text;
  };

  int add(Node node) {
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }
  // Computes all nodes from the slots. False if the arithmetic raises, gives another type than it
  // did, or a guard fails.
  bool compute(const std::vector<PyRef>& slots, std::vector<PyRef>& values) const;
  // The first guard that fails, in words; "" if all hold.
  std::string explain_failure(const std::vector<PyRef>& slots) const;
  std::string text(int node) const;
  bool empty() const { return nodes.empty(); }

  std::vector<Node> nodes;
  std::vector<Guard> guards;
  std::vector<std::string> slot_names;  // by slot; may be shorter

 private:
  PyRef value(const Node& node, const std::vector<PyRef>& slots,
              const std::vector<PyRef>& values) const;
};

}  // namespace fulgurite::python
