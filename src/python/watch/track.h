// Arithmetic in followed places (track.cpp): called around each instruction while there are any.
#pragma once

#include "recording.h"

namespace fulgurite::python::watching {

void take_number_result(Recording& recording, Frame& frame);  // of the instruction before
void track_operands(Recording& recording, Frame& frame);      // before the instruction runs
void track_results(Recording& recording, Frame& frame);       // after it was looked at
void track_arguments(Recording& recording, Frame& frame);     // a frame begins
void lose_numbers(Recording& recording, Frame& frame);        // the instruction raised

}  // namespace fulgurite::python::watching
