# emblem_fuzz(NAME SOURCES file... [LINK target...])
#
# With -DEMBLEM_FUZZ=ON and Clang: a program that feeds what libFuzzer finds to src/MODULE/fuzz/NAME.cc, with
# AddressSanitizer and UndefinedBehaviorSanitizer. It compiles its SOURCES (below src/) itself, so that they are
# instrumented; src/core is compiled once for all.
#   build/fuzz/NAME -dict=src/MODULE/fuzz/X.dict -max_total_time=600 CORPUS_FOLDER
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(STATUS "emblem: no fuzzers are built: they need -DCMAKE_CXX_COMPILER=clang++")
  return()
endif()

function(emblem_instrument name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_include_directories(${name} SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_compile_options(${name} PRIVATE -g -O1 -fsanitize=fuzzer-no-link,address,undefined
                                         -fno-sanitize-recover=undefined)
endfunction()

file(GLOB core CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/core/*/*.cc)
list(FILTER core EXCLUDE REGEX "_test\\.cc$")
add_library(emblem_fuzz_core STATIC EXCLUDE_FROM_ALL ${core})
emblem_instrument(emblem_fuzz_core)
target_link_libraries(emblem_fuzz_core PUBLIC spdlog::spdlog fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})

function(emblem_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/src/ REGEX "^[a-z]")
  add_executable(${name} ${ARG_SOURCES})
  emblem_instrument(${name})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE emblem_fuzz_core ${ARG_LINK})
endfunction()

# Generated messages are not what is fuzzed: sanitizers would make them take minutes to compile.
foreach(messages grpc/health grpc/service protocol/model_config)
  set_source_files_properties(${PROJECT_BINARY_DIR}/generated/serve/${messages}.pb.cc
                              PROPERTIES COMPILE_OPTIONS "-O0;-fno-sanitize=address,undefined")
endforeach()

emblem_fuzz(http_request_fuzz
  SOURCES serve/fuzz/http_request_fuzz.cc serve/fuzz/memory_limit.cc serve/http/message/body.cc serve/http/api/infer.cc serve/http/api/json_tensor.cc
          serve/http/message/request_head.cc serve/http/message/target.cc serve/protocol/encoding/json_reader.cc serve/protocol/encoding/json_writer.cc
          serve/protocol/memory_budget.cc serve/protocol/shared_memory.cc serve/protocol/tensor.cc
          ${PROJECT_BINARY_DIR}/generated/serve/protocol/model_config.pb.cc
  LINK protobuf::libprotobuf ZLIB::ZLIB)
emblem_fuzz(http_stream_fuzz
  SOURCES serve/fuzz/http_stream_fuzz.cc serve/fuzz/memory_limit.cc serve/http/message/body.cc serve/http/message/chunked_reader.cc
          serve/http/message/request_head.cc serve/http/message/request_reader.cc serve/protocol/memory_budget.cc serve/protocol/status.cc
  LINK ZLIB::ZLIB)
if(EMBLEM_GRPC)
  emblem_fuzz(http2_frames_fuzz
    SOURCES serve/fuzz/http2_frames_fuzz.cc serve/fuzz/memory_limit.cc serve/grpc/compression.cc serve/grpc/framing.cc
            serve/grpc/status.cc serve/http2/session.cc serve/protocol/memory_budget.cc serve/protocol/status.cc
    LINK emblem_http2 ZLIB::ZLIB)
  emblem_fuzz(grpc_message_fuzz
    SOURCES serve/fuzz/grpc_message_fuzz.cc serve/fuzz/memory_limit.cc serve/grpc/messages.cc serve/grpc/wire_cost.cc
            serve/protocol/memory_budget.cc serve/protocol/model_statistics.cc serve/protocol/shared_memory.cc
            serve/protocol/tensor.cc ${PROJECT_BINARY_DIR}/generated/serve/grpc/health.pb.cc
            ${PROJECT_BINARY_DIR}/generated/serve/grpc/service.pb.cc
            ${PROJECT_BINARY_DIR}/generated/serve/protocol/model_config.pb.cc
    LINK protobuf::libprotobuf)
endif()
emblem_fuzz(ps_config_fuzz
  SOURCES ps/fuzz/ps_config_fuzz.cc ps/config/ps_config.cc
  LINK nlohmann_json::nlohmann_json)
if(EMBLEM_ARROW)
  file(GLOB_RECURSE columnar CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/data/format/*.cc)
  list(FILTER columnar EXCLUDE REGEX "_test\\.cc$")
  emblem_fuzz(columnar_fuzz SOURCES data/fuzz/columnar_fuzz.cc ${columnar}
    LINK emblem_config emblem_arrow emblem_compression)
endif()
