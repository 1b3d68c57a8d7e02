// What the interpreter tells the recording: a frame begins, an instruction is about to run, a call
// is about to be made, a frame ends.
#pragma once

#include "internals.h"

#include <string>

#include "recording.h"

namespace fulgurite::python::watching {

// Hears the interpreter for the length of one watched call: through a trace function in
// CPython 3.11 (listen_trace.cpp), sys.monitoring later (listen_monitoring.cpp). Whoever listens
// already goes on to. What it hears it hands to the functions below.
class Listener {
 public:
  Listener();
  // Why not everything may have been heard; "" if it was.
  std::string end();

 private:
#if FULGURITE_MONITORING
  friend void leave_monitoring();
  int tool_ = -1;
  uint64_t version_ = 0;  // of what anybody listens to
  std::string why_not_;
#else
  PyRef outer_;
#endif
};

// The recording that goes on in this thread, or null.
Recording* active_recording();

void begin_frame(Recording& recording, _PyInterpreterFrame* frame);
// The frame says which instruction it is.
void run_instruction(Recording& recording, Frame& frame);
// The same in a frame that is taken as a whole.
void run_muted_instruction(Recording& recording, Frame& frame);
void raise_in_frame(Recording& recording, Frame& frame);
// The innermost one; without a result an exception ends it.
void end_frame(Recording& recording, PyObject* result);

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
// A call of a C function from the interpreter or through another C function.
void on_c_call(Recording& recording, Frame& frame, PyObject* callee, CallArguments& arguments);

}  // namespace fulgurite::python::watching
