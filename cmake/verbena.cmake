# What every target of the project shares: warnings, hardening, sanitizers; and how a room of src/ is built.

find_program(CCACHE ccache)
if(CCACHE)
  # What ccache wants to be told where headers are precompiled; with gcc, verbena_precompiled says more.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

include(CheckCXXCompilerFlag)

add_library(verbena_options INTERFACE)
target_include_directories(verbena_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(verbena_options INTERFACE
  -Wall -Wextra -Werror -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Wundef
  -Wno-invalid-offsetof  # of what has bases, too, our compilers tell
  -fvisibility=hidden -fno-strict-aliasing)
if(NOT VERBENA_UNITY)
  target_compile_options(verbena_options INTERFACE -Wshadow)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(verbena_options INTERFACE -Wshadow=local)  # not of what another file calls so
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # The libraries are loaded into other people's programs, perhaps by dlopen: nothing may pin them there.
  target_compile_options(verbena_options INTERFACE -fno-gnu-unique)
  # What follows a dozen checks gcc guesses to be rare, and compiles what it takes for rarer than this fraction
  # for size. Here it is what always happens.
  check_cxx_compiler_flag(--param=hot-bb-frequency-fraction=1000000 VERBENA_HAS_HOT_FRACTION)
  if(VERBENA_HAS_HOT_FRACTION)
    target_compile_options(verbena_options INTERFACE --param=hot-bb-frequency-fraction=1000000)
  endif()
  # gcc would guess which override a virtual call reaches, mostly the one that does nothing.
  target_compile_options(verbena_options INTERFACE -fno-devirtualize-speculatively)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    # What is a few lines long is set by stores: a string instruction, gcc's choice, takes longer to begin than
    # they last.
    set(BY_STORES vector_loop:512:noalign,libcall:-1:noalign)
    target_compile_options(verbena_options INTERFACE -mmemset-strategy=${BY_STORES} -mmemcpy-strategy=${BY_STORES})
  endif()
endif()
if(VERBENA_SANITIZE)
  target_compile_options(verbena_options INTERFACE -fsanitize=${VERBENA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
    -fno-sanitize=enum)  # a program of C may put any number into an enumeration; it is looked at, and refused
  target_link_options(verbena_options INTERFACE -fsanitize=${VERBENA_SANITIZE})
endif()
if(VERBENA_SANITIZE STREQUAL thread)  # which clang says by no macro
  target_compile_definitions(verbena_options INTERFACE VERBENA_THREAD_SANITIZER)
endif()
if(VERBENA_COVERAGE)
  # Threads count at once: without atomic counters some become negative, which gcovr takes for nonsense.
  target_compile_options(verbena_options INTERFACE --coverage -O0 -fprofile-update=atomic)
  target_link_options(verbena_options INTERFACE --coverage)
endif()
if(VERBENA_FUZZ)
  target_compile_options(verbena_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(verbena_options INTERFACE -fsanitize=address,undefined)
endif()

if(VERBENA_SANITIZE OR VERBENA_FUZZ)
  target_compile_definitions(verbena_options INTERFACE VERBENA_SANITIZED)
endif()

find_package(Threads REQUIRED)
if(CMAKE_CROSSCOMPILING)
  # Debian has GoogleTest's libraries for the machine's own architecture only, its sources for all (googletest).
  set(INSTALL_GTEST OFF CACHE BOOL "")
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
else()
  find_package(GTest REQUIRED)
endif()

# Tests are compiled in half the time without the optimizer, and stepped through more easily.
foreach(target GTest::gtest gtest)
  if(TARGET ${target} AND NOT VERBENA_COVERAGE)
    get_target_property(alias ${target} ALIASED_TARGET)
    if(NOT alias)
      set_property(TARGET ${target} APPEND PROPERTY INTERFACE_COMPILE_OPTIONS -O0)
    endif()
  endif()
endforeach()

if(VERBENA_FUZZ)
  add_custom_target(fuzzers)  # all of them
endif()

# A room with a CMakeLists.txt of its own says itself what it builds.
function(verbena_room name)
  set(dir ${CMAKE_SOURCE_DIR}/src/${name})
  if(name STREQUAL examples)
    set(dir ${CMAKE_SOURCE_DIR}/examples)
  endif()
  if(EXISTS ${dir}/CMakeLists.txt)
    add_subdirectory(${dir})
  endif()
endfunction()

# The library's headers that most files include.
set(usual_headers <algorithm> <array> <atomic> <cerrno> <chrono> <cstring> <functional> <map> <memory> <mutex> <optional> <span>
  <string> <thread> <vector>)

# verbena_precompile(NAME CODE HEADER...): a target whose precompiled headers others of the same CODE, -fPIC or -fPIE, take.
function(verbena_precompile name code)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "" @ONLY)
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cpp)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF COMPILE_OPTIONS ${code})
  target_link_libraries(${name} PRIVATE verbena_options Threads::Threads)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

function(verbena_take_precompiled target from)
  target_precompile_headers(${target} REUSE_FROM ${from})
  if(CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endfunction()

# verbena_precompiled(TEST): a test program of several files takes GoogleTest's headers and the library's precompiled.
function(verbena_precompiled test)
  if(NOT VERBENA_PCH OR VERBENA_COVERAGE)
    return()
  endif()
  if(NOT TARGET precompiled_tests)
    verbena_precompile(precompiled_tests -fPIE <gmock/gmock.h> <gtest/gtest.h> ${usual_headers})
    target_link_libraries(precompiled_tests PRIVATE GTest::gmock GTest::gtest)
  endif()
  verbena_take_precompiled(${test} precompiled_tests)
endfunction()

# verbena_precompiled_rooms(FOLDER...): the product's own files there take the library's, in the sanitizers' builds only:
# without, which the ordinary build does, each file must include what it uses.
function(verbena_precompiled_rooms)
  if(NOT VERBENA_PCH OR NOT VERBENA_SANITIZE)
    return()
  endif()
  verbena_precompile(precompiled_rooms -fPIC ${usual_headers})
  foreach(folder ${ARGN})
    get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
    foreach(target ${targets})
      get_target_property(type ${target} TYPE)
      if(type MATCHES "^(STATIC|OBJECT)_LIBRARY$" AND NOT target MATCHES "^precompiled_")
        verbena_take_precompiled(${target} precompiled_rooms)
      endif()
    endforeach()
  endforeach()
endfunction()

# verbena_fuzzer(NAME SOURCES file... LIBS library...): one of the fuzzers/.
function(verbena_fuzzer name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
  add_dependencies(fuzzers ${name})
endfunction()

# verbena_library(NAME [USES other...]): a static library verbena_NAME of this folder's *.cpp, a test program
# NAME_test of its *_test.cpp, and a fuzzer NAME_FILE of each FILE_fuzz.cpp.
function(verbena_library name)
  cmake_parse_arguments(arg "" "" "USES;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cpp)
  file(GLOB fuzzers CONFIGURE_DEPENDS *_fuzz.cpp)
  if(tests)
    list(REMOVE_ITEM sources ${tests})
  endif()
  if(fuzzers)
    list(REMOVE_ITEM sources ${fuzzers})
  endif()
  if(sources)
    add_library(verbena_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(verbena_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  set(uses verbena_options)
  foreach(other ${arg_USES})
    list(APPEND uses verbena_${other})
  endforeach()
  target_link_libraries(verbena_${name} ${scope} ${uses} ${arg_LIBS} Threads::Threads)
  if(tests AND NOT VERBENA_FUZZ)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE verbena_${name} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE VERBENA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    verbena_precompiled(${name}_test)
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
  if(VERBENA_FUZZ)
    foreach(file ${fuzzers})
      get_filename_component(stem ${file} NAME_WE)
      verbena_fuzzer(${name}_${stem} SOURCES ${file} LIBS verbena_${name})
    endforeach()
  endif()
endfunction()

# The tests `name`, over packets, and `name`_local, over the memory that processes of one host share.
#   verbena_test_over_links(name TIMEOUT seconds [LABELS label] COMMAND ...)
function(verbena_test_over_links name)
  cmake_parse_arguments(PARSE_ARGV 1 given "" "TIMEOUT;LABELS" "COMMAND")
  foreach(link wire local)
    string(REGEX REPLACE "^_wire$" "" suffix "_${link}")
    add_test(NAME ${name}${suffix} COMMAND ${given_COMMAND})
    set_tests_properties(${name}${suffix} PROPERTIES TIMEOUT ${given_TIMEOUT} LABELS "${given_LABELS}" ENVIRONMENT
      "VERBENA_DAEMON=$<TARGET_FILE:verbenad>;LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/lib;VERBENA_LINK=${link}")
  endforeach()
endfunction()
