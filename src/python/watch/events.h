// What the tracer tells the recording: an instruction is about to run, a call is about to be made,
// a frame begins.
#pragma once

#include "recording.h"

namespace fulgurite::python::watching {

constexpr int kPendingQuery = -1;  // Frame::pending: the result of an audited query follows

// The arguments of a call as the caller laid them out. With `keywords` (a dict) or `names` (a tuple
// of the last arguments' names) some of them are named.
struct CallArguments {
  std::vector<PyObject*> values;
  PyObject* names = nullptr;
  PyObject* keywords = nullptr;
  bool has_keywords() const {
    return names != nullptr || (keywords && PyDict_GET_SIZE(keywords) > 0);
  }
};

void on_instruction(Recording& recording, Frame& frame);
void on_call(Recording& recording, Frame& frame, PyObject* callee, CallArguments arguments);
// Pushes the frame.
void on_frame(Recording& recording, PyFrameObject* frame);
// A call of a C function from the interpreter or through another C function.
void on_c_call(Recording& recording, Frame& frame, PyObject* callee, CallArguments& arguments);

}  // namespace fulgurite::python::watching
