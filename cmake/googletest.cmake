# GoogleTest as the target fulgurite::gtest_main (docs/decisions/0004-googletest-from-pypi.md). First choice: its
# sources, which the `test` extra brings from PyPI (ros-gtest-vendor) and which are then built with our own flags,
# AddressSanitizer included. Second: an installed GoogleTest (Debian's libgtest-dev).
execute_process(COMMAND "${Python_EXECUTABLE}" -c "import sys; print(sys.prefix)"
  OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE prefix COMMAND_ERROR_IS_FATAL ANY)
set(FULGURITE_GTEST_SOURCES "${prefix}/src/gtest_vendor" CACHE PATH "Sources of GoogleTest")
add_library(fulgurite_gtest_main INTERFACE)
add_library(fulgurite::gtest_main ALIAS fulgurite_gtest_main)
if(EXISTS "${FULGURITE_GTEST_SOURCES}/src/gtest-all.cc")
  find_package(Threads REQUIRED)
  add_library(fulgurite_gtest STATIC "${FULGURITE_GTEST_SOURCES}/src/gtest-all.cc" "${FULGURITE_GTEST_SOURCES}/src/gtest_main.cc")
  target_include_directories(fulgurite_gtest SYSTEM PUBLIC "${FULGURITE_GTEST_SOURCES}/include" PRIVATE "${FULGURITE_GTEST_SOURCES}")
  target_link_libraries(fulgurite_gtest PUBLIC Threads::Threads)
  if(FULGURITE_ASAN)
    target_compile_options(fulgurite_gtest PRIVATE -fsanitize=address -fno-omit-frame-pointer)
  endif()
  target_link_libraries(fulgurite_gtest_main INTERFACE fulgurite_gtest)
else()
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest_main)
    message(FATAL_ERROR "The C++ tests need GoogleTest: `pip install ros-gtest-vendor==1.15.1` into ${Python_EXECUTABLE} "
      "(the `test` extra has it), or install Debian's libgtest-dev, or build with -DFULGURITE_BUILD_TESTS=OFF")
  endif()
  target_link_libraries(fulgurite_gtest_main INTERFACE GTest::gtest_main)
endif()
