# The two libraries that programs load: what both share, which is the version script, stubs and aliases generated from
# the folder's abi/symbols.txt, and the hygiene of a library that lives in other people's programs. It needs the GNU
# linker (version aliases are assignments of its script language).

find_package(Python3 REQUIRED COMPONENTS Interpreter)

# verbena_shared_library(STEM SOURCES...): STEM_objects (an object library, for unit tests too), and STEM with the stubs,
# which is lib/libSTEM.so.1 with its development link in the build directory.
function(verbena_shared_library target)
  set(sources ${ARGN})
  set(table ${CMAKE_CURRENT_SOURCE_DIR}/abi/symbols.txt)
  set(directory ${CMAKE_CURRENT_BINARY_DIR}/abi)
  set(stem ${directory}/lib${target})
  set(generated ${stem}.map ${stem}_stubs.cpp ${stem}_aliases.ld ${stem}.list)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/gen-abi ${table} lib${target} ${directory}
    DEPENDS ${table} ${CMAKE_SOURCE_DIR}/scripts/gen-abi
    COMMENT "Symbols of lib${target}.so.1" VERBATIM)

  add_library(${target}_objects OBJECT ${sources})
  target_link_libraries(${target}_objects PUBLIC verbena_options)
  target_compile_definitions(${target}_objects PRIVATE VERBENA_BUILD_ID="${PROJECT_VERSION}")
  # Public names are visible because this header declares them so; all else is hidden.
  set(public ${CMAKE_CURRENT_SOURCE_DIR}/abi/public.h)
  target_compile_options(${target}_objects PRIVATE "SHELL:-include ${public}")

  add_library(${target} SHARED $<TARGET_OBJECTS:${target}_objects> ${stem}_stubs.cpp)
  set_target_properties(${target} PROPERTIES
    SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    LINK_DEPENDS "${stem}.map;${stem}_aliases.ld"
    INTERPROCEDURAL_OPTIMIZATION OFF
    # librdmacm finds the libibverbs beside it.
    BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN"
    LINKER_LANGUAGE CXX)
  target_link_options(${target} PRIVATE
    ${stem}_aliases.ld
    -Wl,--version-script=${stem}.map
    -Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a  # the version script hides them too
    -Wl,-Bsymbolic-functions  # a program's own function of a verbs name must not replace ours inside
    -Wl,--as-needed
    -Wl,-z,relro)
  if(NOT VERBENA_SANITIZE)
    # clang leaves a sanitizer's runtime to the program, and it must see libstdc++'s synchronization.
    # The unwinder must be the one by which the C library ends a cancelled thread: another does not know its frames.
    target_link_options(${target} PRIVATE -Wl,-z,defs -static-libstdc++ -shared-libgcc)
  endif()
  target_link_libraries(${target} PRIVATE verbena_options)
endfunction()
