// Traces as text, and back. `print_python` gives Python that runs with torch alone (with `import
// fulgurite` where prims occur); `parse_python` reads exactly what it prints. `print_cpp` gives a
// C++ function against ATen that compiles.
//
//     # f, after functionalize: 2 ops                     name, stage; ", not functional" if it is
//     not import torch
//
//     c0 = torch.tensor([1.0], dtype=torch.float32)       # f32[1]                 constants
//
//     @torch.no_grad()
//     def computation(x: "f32[2, 3]", w: "f32[3, 3]+g"):
//         # region t1 = torch.nn.functional.linear(x, w)  in head    model.py:4    ... until "#
//         end" t0 = torch.t(w)                                 # f32[3, 3; 1, 3]+g    model.py:4 t1
//         = torch.mm(x, t0)                            # f32[2, 3]+g          model.py:4 # end
//         return {'output': t1, 'flat_args': [x, w], 'flat_output': (t1,)}
//
// Grad mode: functional traces run as a whole under no_grad (autograd is the caller's), so that
// binds recorded without grad say `no_grad` in their comment; a trace recorded without grad as a
// whole says
// `# as recorded` after the decorator. Other traces have `with torch.no_grad():` around such binds.
// Storage: in a trace with views and in-place ops each value has a storage of its own, unless its
// type says `@s0+4` (storage 0, shared, at offset 4) or `@?` (unknown). What text cannot say
// elsewhere is in comments after the function ("# storage:", "# result:", "# saved:").
#pragma once

#include <string>

#include "ir/trace.h"

namespace fulgurite::ir {

struct PrintOptions {
  // How far regions are opened. 0: all the way, with comments that keep the regions; 1: outermost
  // regions are single calls of their composite op; n: n - 1 levels are opened. A region whose
  // inner values are used outside is opened in any case.
  int depth = 0;
  bool locations = true;  // file:line in the comment of a line
  bool types = true;      // "f32[2, 3]" in the comment of a line
  // Everything that is needed to read back the identical trace: full paths of files, and the
  // storages of a functional trace's values.
  bool full_paths = false;
  bool elide_constants = false;  // large constants as `...`: cannot be read back
};

std::string print_python(const Trace& trace, const PrintOptions& options = {});
std::string print_cpp(const Trace& trace);

// Throws UserError FG-301 with line and column, what was found and what was expected.
TracePtr parse_python(const std::string& text);

// True if the traces are the same program, with the same names, types, constants, regions,
// locations and storages. Numbering of values, regions, locations and storages does not count, nor
// does what no bind uses. `difference` says where they differ first.
bool identical(const Trace& a, const Trace& b, std::string* difference = nullptr);

// "f32[2, 3]", with strides if they are not the default ones: "f32[2, 3; 1, 2]", "@cuda:0" if not
// on the CPU, "+g" at the end if it requires grad. A number is "int", "float", "bool" or "complex".
std::string type_text(const Value& value);
// A constant argument as a Python expression ("2", "torch.float32", "[0, 1]", "None", "'mean'").
std::string constant_text(const c10::IValue& value, const c10::TypePtr& schema_type);

}  // namespace fulgurite::ir
