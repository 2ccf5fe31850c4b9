# emblem_module(NAME [USES module...] [LINK target...] [PROTOS] [QUICK])
#
# A folder src/NAME, or a sub-folder such as serve/http, becomes the library emblem_NAME (emblem_serve_http): every *.cc and,
# with CUDA, every *.cu in it. emblem_tests() makes the *_test.cc files of a module and of its sub-folders one program,
# MODULE_test, run by ctest case by case. QUICK modules hold no inner loops: they are compiled for little time, not for speed.
include(GoogleTest)

# Tests, and what only reads options, are compiled more often than they run long. Multiplications and additions are fused as
# in what they test, which builds for sanitizers do not.
set(emblem_quick_options -O1)
if(NOT EMBLEM_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND emblem_quick_options -fexpensive-optimizations)
endif()
include(PrecompiledHeaders)

function(emblem_module name)
  cmake_parse_arguments(ARG "PROTOS;QUICK" "" "USES;LINK" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  string(REPLACE "/" "_" library emblem_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${folder}/*_test.cc)
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${folder}/*.cu)
  file(GLOB protos CONFIGURE_DEPENDS ${folder}/*.proto)
  list(REMOVE_ITEM sources ${tests} "")
  # Of the command line: what needs the libraries of a server, and what replaces it without them.
  if(EMBLEM_SERVE)
    list(FILTER sources EXCLUDE REGEX "/cli/.*_absent\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "/cli/(bench_freshness|bench_serve|serve)\\.cc$")
  endif()
  if(EMBLEM_GRPC)
    list(FILTER sources EXCLUDE REGEX "/serve/grpc_absent\\.cc$")
  endif()
  if(EMBLEM_GRPC_CLIENT)
    list(FILTER sources EXCLUDE REGEX "/load/target_grpc_absent\\.cc$")
  else()
    list(FILTER sources EXCLUDE REGEX "/load/(target_grpc|grpc_process)\\.cc$")
    foreach(test ${tests})
      file(STRINGS ${test} uses REGEX "grpcpp/|serve/grpc/(server|test_server_test)\\.h")
      if(uses)
        list(REMOVE_ITEM tests ${test})
      endif()
    endforeach()
  endif()
  if(EMBLEM_CUDA)
    list(APPEND sources ${cuda_sources})
  endif()
  if(NOT sources)
    list(APPEND sources ${CMAKE_SOURCE_DIR}/cmake/empty.cc) # without CUDA
  endif()

  add_library(${library} STATIC ${sources})
  target_include_directories(${library} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(${library} PUBLIC emblem_options ${ARG_LINK})
  foreach(used ${ARG_USES})
    string(REPLACE "/" "_" used emblem_${used})
    target_link_libraries(${library} PUBLIC ${used})
  endforeach()
  if(ARG_PROTOS)
    emblem_protos(${library} ${name} ${protos})
  endif()
  if(ARG_QUICK)
    target_compile_options(${library} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${emblem_quick_options}>")
    emblem_precompile(${library} QUICK)
  else()
    emblem_precompile(${library})
  endif()

  string(REGEX REPLACE "/.*" "" module ${name})
  set_property(GLOBAL APPEND PROPERTY emblem_modules ${module})
  set_property(GLOBAL APPEND PROPERTY emblem_${module}_libraries ${library})
  set_property(GLOBAL APPEND PROPERTY emblem_${module}_tests ${tests})
endfunction()

function(emblem_tests)
  if(NOT EMBLEM_TESTS)
    return()
  endif()
  get_property(modules GLOBAL PROPERTY emblem_modules)
  list(REMOVE_DUPLICATES modules)
  foreach(module ${modules})
    get_property(libraries GLOBAL PROPERTY emblem_${module}_libraries)
    get_property(tests GLOBAL PROPERTY emblem_${module}_tests)
    if(NOT tests)
      continue()
    endif()
    add_executable(${module}_test ${tests})
    set_source_files_properties(${tests} PROPERTIES COMPILE_OPTIONS "${emblem_quick_options}")
    target_link_libraries(${module}_test PRIVATE ${libraries} GTest::gmock_main)
    emblem_precompile(${module}_test TESTS)
    gtest_discover_tests(${module}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${module})
  endforeach()
  # A served model is trained first.
  target_link_libraries(serve_test PRIVATE emblem_train)
  if(EMBLEM_GRPC_CLIENT)
    target_link_libraries(serve_test PRIVATE emblem_grpc_client)
  endif()
endfunction()

# Generates C++ from the .proto files of a module; they are included as "config/x.pb.h". The clients of those with a service
# are in the library emblem_grpc_client, where there is gRPC, as "serve/grpc/x.grpc.pb.h".
function(emblem_protos target module)
  set(out ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${out}/${module})
  foreach(proto ${ARGN})
    get_filename_component(stem ${proto} NAME_WE)
    add_custom_command(
      OUTPUT ${out}/${module}/${stem}.pb.cc ${out}/${module}/${stem}.pb.h
      COMMAND protobuf::protoc --cpp_out=${out} -I ${CMAKE_SOURCE_DIR}/src ${proto}
      DEPENDS ${ARGN})
    set(generated ${out}/${module}/${stem}.pb.cc)
    file(STRINGS ${proto} services REGEX "^service ")
    if(services AND EMBLEM_GRPC_CLIENT)
      add_custom_command(
        OUTPUT ${out}/${module}/${stem}.grpc.pb.cc ${out}/${module}/${stem}.grpc.pb.h
        COMMAND protobuf::protoc --grpc_out=${out} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>
                -I ${CMAKE_SOURCE_DIR}/src ${proto}
        DEPENDS ${ARGN})
      # Calls alone, no message is read or written here: not worth the compiler's time.
      set_source_files_properties(${out}/${module}/${stem}.grpc.pb.cc PROPERTIES
        COMPILE_OPTIONS "-w;${emblem_quick_options}" SKIP_PRECOMPILE_HEADERS ON)
      list(APPEND clients ${out}/${module}/${stem}.grpc.pb.cc)
    endif()
    target_sources(${target} PRIVATE ${generated})
    # Generated code is not held to our warnings; only that of a service is on the way of requests.
    set(options -w)
    if(NOT services)
      list(APPEND options ${emblem_quick_options})
    endif()
    set_source_files_properties(${generated} PROPERTIES COMPILE_OPTIONS "${options}")
  endforeach()
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  if(clients)
    add_custom_target(emblem_grpc_client_sources DEPENDS ${clients})
    add_library(emblem_grpc_client STATIC ${clients})
    add_dependencies(emblem_grpc_client emblem_grpc_client_sources)
    target_link_libraries(emblem_grpc_client PUBLIC ${target} gRPC::grpc++)
  endif()
endfunction()
