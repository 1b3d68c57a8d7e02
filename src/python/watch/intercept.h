// Parts of a program that are compiled on their own while the program around them runs eagerly.
//
// A function of ours evaluates Python frames (PEP 523) for the length of a scope, on one thread:
// where a frame of a known part begins, the part's substitute is called with the frame's arguments
// instead. Nothing that the program can see is changed: no class, no instance, no code object.
#pragma once

#include <Python.h>

#include <vector>

#include "py_ref.h"

namespace fulgurite::python {

struct Part {
  PyRef callable;    // a Python function, or an nn.Module
  PyRef substitute;  // what is called instead
};

// The parts replace calls on this thread while the scope lives; scopes nest, the innermost counts.
class InterceptScope {
 public:
  explicit InterceptScope(const std::vector<Part>* parts);
  ~InterceptScope();
  InterceptScope(const InterceptScope&) = delete;
  InterceptScope& operator=(const InterceptScope&) = delete;

 private:
  const std::vector<Part>* outer_;
  bool installed_;
};

}  // namespace fulgurite::python
