# emblem_module(NAME [USES module...] [LINK target...] [PROTOS])
#
# A folder src/NAME becomes the library emblem_NAME: every *.cc and, with CUDA, every *.cu in it.
# *_test.cc files become the one program NAME_test, run by ctest case by case.
include(GoogleTest)

# Tests, and what only reads options, are compiled more often than they run long. Multiplications and additions are fused as
# in what they test, which builds for sanitizers do not.
set(emblem_quick_options -O1)
if(NOT EMBLEM_SANITIZE)
  list(APPEND emblem_quick_options -fexpensive-optimizations)
endif()
include(PrecompiledHeaders)

function(emblem_module name)
  cmake_parse_arguments(ARG "PROTOS" "" "USES;LINK" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cc)
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${folder}/*.cu)
  file(GLOB protos CONFIGURE_DEPENDS ${folder}/*.proto)
  list(REMOVE_ITEM sources ${tests} "")
  # What needs the libraries of a server, and what stands in its place without them.
  set(server "/(http_|grpc_|serving|serve_bench|bench_serve|load_(input|loop|memory|target)|metrics_text|serve\\.)[^/]*$")
  if(EMBLEM_SERVE)
    list(FILTER sources EXCLUDE REGEX "_absent\\.cc$")
  else()
    foreach(list sources tests protos)
      list(FILTER ${list} EXCLUDE REGEX ${server})
    endforeach()
  endif()
  if(EMBLEM_CUDA)
    list(APPEND sources ${cuda_sources})
  endif()

  add_library(emblem_${name} STATIC ${sources})
  target_include_directories(emblem_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(emblem_${name} PUBLIC emblem_options ${ARG_LINK})
  foreach(used ${ARG_USES})
    target_link_libraries(emblem_${name} PUBLIC emblem_${used})
  endforeach()
  if(ARG_PROTOS)
    emblem_protos(emblem_${name} ${folder} ${protos})
  endif()
  if(name STREQUAL "cli")
    target_compile_options(emblem_cli PRIVATE ${emblem_quick_options})
    emblem_precompile(emblem_cli CLI)
  else()
    emblem_precompile(emblem_${name})
  endif()

  if(EMBLEM_TESTS AND tests)
    add_executable(${name}_test ${tests})
    set_source_files_properties(${tests} PROPERTIES COMPILE_OPTIONS "${emblem_quick_options}")
    target_link_libraries(${name}_test PRIVATE emblem_${name} GTest::gmock_main)
    emblem_precompile(${name}_test TESTS)
    gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS ${name})
  endif()
endfunction()

# Generates C++ from the .proto files of a module; they are included as "config/x.pb.h", and those with a service as
# "serve/x.grpc.pb.h" too.
function(emblem_protos target folder)
  set(out ${CMAKE_BINARY_DIR}/generated)
  get_filename_component(module ${folder} NAME)
  file(MAKE_DIRECTORY ${out}/${module})
  foreach(proto ${ARGN})
    get_filename_component(stem ${proto} NAME_WE)
    add_custom_command(
      OUTPUT ${out}/${module}/${stem}.pb.cc ${out}/${module}/${stem}.pb.h
      COMMAND protobuf::protoc --cpp_out=${out} -I ${CMAKE_SOURCE_DIR}/src ${proto}
      DEPENDS ${ARGN})
    set(generated ${out}/${module}/${stem}.pb.cc)
    file(STRINGS ${proto} services REGEX "^service ")
    if(services)
      add_custom_command(
        OUTPUT ${out}/${module}/${stem}.grpc.pb.cc ${out}/${module}/${stem}.grpc.pb.h
        COMMAND protobuf::protoc --grpc_out=${out} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>
                -I ${CMAKE_SOURCE_DIR}/src ${proto}
        DEPENDS ${ARGN})
      # Calls alone, no message is read or written here: not worth the compiler's time.
      set_source_files_properties(${out}/${module}/${stem}.grpc.pb.cc PROPERTIES
        COMPILE_OPTIONS "-w;${emblem_quick_options}" SKIP_PRECOMPILE_HEADERS ON)
      target_sources(${target} PRIVATE ${out}/${module}/${stem}.grpc.pb.cc)
    endif()
    target_sources(${target} PRIVATE ${generated})
    # Generated code is not held to our warnings.
    set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "-w")
  endforeach()
  target_include_directories(${target} SYSTEM PUBLIC ${out})
endfunction()
