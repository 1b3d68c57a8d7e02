// The modes under which a call is made; they know no Python (run/modes.h).
#pragma once

#include "run/modes.h"

namespace fulgurite::python {

using run::Modes;
using run::unsupported_mode;

}  // namespace fulgurite::python
