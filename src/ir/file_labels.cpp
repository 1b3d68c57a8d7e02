#include "ir/file_labels.h"

#include <algorithm>

namespace fulgurite::ir {
namespace {

// The last `parts` parts of the path.
std::string path_end(const std::string& path, size_t parts) {
  size_t at = path.size();
  for (size_t i = 0; i < parts && at != std::string::npos && at > 0; ++i)
    at = path.find_last_of("/\\", at - 1);
  return at == std::string::npos || at == 0 ? path : path.substr(at + 1);
}

// Fields of a comment are separated by two blanks or more.
bool is_plain(const std::string& label) {
  return !label.empty() && label.find("  ") == std::string::npos && label.front() != ' ' &&
         label.back() != ' ' && label.find(" is ") == std::string::npos &&
         label.find('\n') == std::string::npos;
}

}  // namespace

std::vector<FileLabel> file_labels(const Trace& trace) {
  std::vector<FileLabel> files;
  auto add = [&](int32_t location) {
    if (location < 0) return;
    const std::string& file = trace.locations[static_cast<size_t>(location)].file;
    for (const FileLabel& known : files)
      if (known.file == file) return;
    files.push_back({file, ""});
  };
  int32_t previous = -1;
  for (const Bind& bind : trace.binds) {
    for (int32_t r = bind.region; r >= 0; r = trace.regions[static_cast<size_t>(r)].parent)
      add(trace.regions[static_cast<size_t>(r)].location);
    if (bind.location != previous) add(bind.location);
    previous = bind.location;
  }
  for (size_t i = 0; i < files.size(); ++i) {
    FileLabel& one = files[i];
    for (size_t parts = 1;; ++parts) {
      one.label = path_end(one.file, parts);
      const bool taken = std::any_of(files.begin(), files.end(), [&](const FileLabel& other) {
        return other.file != one.file &&
               (path_end(other.file, parts) == one.label || other.label == one.label);
      });
      if (!taken || one.label == one.file) break;
    }
    if (!is_plain(one.label)) one.label = "file" + std::to_string(i);
  }
  return files;
}

}  // namespace fulgurite::ir
