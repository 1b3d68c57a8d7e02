// A code object as the watcher needs it where the interpreter does not say how far the stack goes
// (CPython 3.12 and later): each instruction, the depth of the stack before it, and where it may
// lead.
#pragma once

#include "internals.h"

#if FULGURITE_MONITORING

#include <vector>

#include "operations.h"

namespace fulgurite::python::watching {

class CodeMap {
 public:
  explicit CodeMap(PyCodeObject* code);

  struct Place {
    Instruction instruction;
    int depth = kUnknownDepth;
    int jump = -1;             // where it may go on instead of after itself
    uint8_t length = 1;        // with what the interpreter keeps beside it
    uint8_t skips_target = 0;  // ... or so many after the one that is there
    bool is_handler = false;   // of exceptions
    bool is_prefix = false;    // the instruction is that of the next place
    bool reraises = false;     // passes an exception on, of which no event tells
  };
  static constexpr int kUnknownDepth = -1;
  // Whether the instruction at `next` may run when that at `last` has.
  bool may_follow(int last, int next, bool raised) const;
  // Where the instruction is that begins here, with prefixes that extend its argument.
  int behind_prefixes(int unit) const;
  int after(int unit) const { return unit + at(unit).length; }
  int size() const { return static_cast<int>(places_.size()); }
  // By code unit. Of what no path leads to, the depth is unknown; of everything, if two paths
  // disagree.
  const Place& at(int unit) const { return places_[static_cast<size_t>(unit)]; }

 private:
  struct Raw {
    int opcode = 0;
    int argument = 0;
  };
  void find_depths(PyCodeObject* code, const std::vector<Raw>& raw);

  std::vector<Place> places_;
};

// Made once, and kept with the code; null without memory.
const CodeMap* code_map(PyCodeObject* code);

}  // namespace fulgurite::python::watching

#endif
