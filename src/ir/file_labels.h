// Short names of source files: the shortest end of the path that no other file of the trace has.
#pragma once

#include <string>
#include <vector>

#include "ir/trace.h"

namespace fulgurite::ir {

struct FileLabel {
  std::string file;
  std::string label;
};

// The files of the locations that binds and regions name, in the order in which they occur.
std::vector<FileLabel> file_labels(const Trace& trace);

}  // namespace fulgurite::ir
