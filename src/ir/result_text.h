// The value that a trace returns, as text: the user's structure (`Trace::output_template`) with the
// names of the outputs filled in.
#pragma once

#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

std::string name_or_none(const Trace& trace, ValueId id);
// "(a, b)", "(a,)", "()".
std::string tuple_text(const std::vector<std::string>& items);
std::vector<std::string> output_names(const Trace& trace);

std::string fill_template(const std::string& output_template,
                          const std::vector<std::string>& names);
// The template from which `text` was filled, where that can be told; the printer notes it
// otherwise.
std::string guess_template(const std::string& text, const std::vector<std::string>& names);

}  // namespace fulgurite::ir
