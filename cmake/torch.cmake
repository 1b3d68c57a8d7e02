# Finds torch through the building Python: nobody sets a path, nothing of CUDA is looked up, and torch is
# not imported (find_spec). Imports c10, torch_cpu, torch, torch_python as torch::<name>. Nothing is cached:
# `pip install` builds in an environment that has another path every time.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import importlib.util, os; s = importlib.util.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE FULGURITE_TORCH_DIR COMMAND_ERROR_IS_FATAL ANY)
if(NOT FULGURITE_TORCH_DIR)
  message(FATAL_ERROR "fulgurite needs torch==2.13.0 in the Python that builds it (${Python_EXECUTABLE}), but that Python has no torch. "
    "Use `pip install .`, which brings it, or `pip install torch==2.13.0` first.")
endif()
file(STRINGS "${FULGURITE_TORCH_DIR}/version.py" version_line REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" FULGURITE_TORCH_VERSION "${version_line}")
if(NOT FULGURITE_TORCH_VERSION VERSION_EQUAL "2.13.0")
  message(WARNING "fulgurite is developed against torch 2.13.0; found ${FULGURITE_TORCH_VERSION} in ${FULGURITE_TORCH_DIR}")
endif()
message(STATUS "torch ${FULGURITE_TORCH_VERSION}: ${FULGURITE_TORCH_DIR}")

foreach(lib c10 torch_cpu torch torch_python)
  set(location "${FULGURITE_TORCH_DIR}/lib/lib${lib}.so")
  if(NOT EXISTS "${location}")
    message(FATAL_ERROR "torch ${FULGURITE_TORCH_VERSION} in ${FULGURITE_TORCH_DIR} has no lib/lib${lib}.so: reinstall it with `pip install --force-reinstall torch==2.13.0`")
  endif()
  add_library(torch::${lib} SHARED IMPORTED)
  set_target_properties(torch::${lib} PROPERTIES
    IMPORTED_LOCATION "${location}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${FULGURITE_TORCH_DIR}/include;${FULGURITE_TORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_INCLUDE_DIRECTORIES "${FULGURITE_TORCH_DIR}/include;${FULGURITE_TORCH_DIR}/include/torch/csrc/api/include")
endforeach()

# The dispatch key that the recorder listens on. It must exist, and lie above autograd.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES "${FULGURITE_TORCH_DIR}/include")
set(CMAKE_REQUIRED_FLAGS "-std=c++20")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
check_cxx_source_compiles("
#include <c10/core/DispatchKey.h>
static_assert(c10::DispatchKey::DeferredInit > c10::DispatchKey::AutogradFunctionality);
" FULGURITE_HAS_DEFERRED_INIT)
unset(CMAKE_TRY_COMPILE_TARGET_TYPE)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT FULGURITE_HAS_DEFERRED_INIT)
  message(FATAL_ERROR "torch ${FULGURITE_TORCH_VERSION} has no dispatch key DeferredInit above autograd: the recorder has no place to listen")
endif()
set(FULGURITE_RECORDER_KEY DeferredInit)
