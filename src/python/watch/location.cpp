// Where in the user's program we are: the innermost frame outside torch, fulgurite and the standard
// library. Everything here reads the frames of its own thread only and touches no reference counts,
// so that it may run while the GIL is released, as torch does around operators.
#include "internals.h"

#include <string_view>

#include "events.h"

namespace fulgurite::python {
namespace watching {

namespace {

struct LibraryRoots {
  std::string torch, fulgurite, standard;
};
LibraryRoots roots;

std::string package_directory(const char* module_name) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), module_name);
  if (!module || !PyModule_Check(module)) return "";
  PyObject* file = PyDict_GetItemString(PyModule_GetDict(module), "__file__");
  if (!file || !PyUnicode_Check(file)) return "";
  std::string path = text_of(file);
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// The text of an ASCII str, which needs no allocation; others give nothing.
std::string_view ascii(PyObject* text) {
  if (!text || !PyUnicode_IS_COMPACT_ASCII(text)) return {};
  return {reinterpret_cast<const char*>(reinterpret_cast<PyASCIIObject*>(text) + 1),
          static_cast<size_t>(PyUnicode_GET_LENGTH(text))};
}

SourceLocation location_of(_PyInterpreterFrame* frame) {
  PyCodeObject* code = code_of(frame);
  std::string_view file = ascii(code->co_filename);
  return {file.empty() ? "<file>" : std::string(file), PyCode_Addr2Line(code, offset_of(frame))};
}

bool is_module_instance(PyObject* object) {
  PyTypeObject* module = known_types().module;
  return object && module && PyType_IsSubtype(Py_TYPE(object), module);
}

}  // namespace

void load_library_roots() {
  if (roots.standard.empty()) roots.standard = package_directory("os");
  if (roots.torch.empty()) roots.torch = package_directory("torch");
  if (roots.fulgurite.empty()) roots.fulgurite = package_directory("fulgurite");
}

bool is_library_file(std::string_view file) {
  auto inside = [&](const std::string& root) { return !root.empty() && file.starts_with(root); };
  if (file.starts_with("<frozen ") || inside(roots.torch) || inside(roots.fulgurite)) return true;
  return inside(roots.standard) && file.find("site-packages") == std::string_view::npos;
}

}  // namespace watching

SourceLocation current_location(std::string* module_path) {
  using namespace watching;
  if (module_path) module_path->clear();
  PyThreadState* thread = PyGILState_GetThisThreadState();
  if (!thread) return {"<native>", 0};
  _PyInterpreterFrame* innermost = nullptr;
  _PyInterpreterFrame* user = nullptr;
  bool want_module = module_path != nullptr;
  for (_PyInterpreterFrame* f = innermost_frame(thread); f; f = f->previous) {
    if (_PyFrame_IsIncomplete(f)) continue;
    if (!innermost) innermost = f;
    if (want_module && code_of(f)->co_argcount > 0 && is_module_instance(f->localsplus[0])) {
      PyObject* module = f->localsplus[0];
      const Recording* recording = active_recording();
      if (recording && recording->is_known(module) && PyGILState_Check()) {
        *module_path = recording->path(module);
      } else {
        *module_path = Py_TYPE(module)->tp_name;
      }
      want_module = false;
    }
    std::string_view file = ascii(code_of(f)->co_filename);
    if (!user && !is_library_file(file)) user = f;
    if (user && !want_module) break;
  }
  if (!innermost) return {"<native>", 0};
  return location_of(user ? user : innermost);
}

}  // namespace fulgurite::python
