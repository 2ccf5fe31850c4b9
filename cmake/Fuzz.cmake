# emblem_fuzz(NAME SOURCES file... [LINK target...])
#
# With -DEMBLEM_FUZZ=ON and Clang: a program that feeds what libFuzzer finds to src/MODULE/fuzz/NAME.cc, with
# AddressSanitizer and UndefinedBehaviorSanitizer. It compiles its SOURCES itself, so that they are instrumented.
#   build/fuzz/NAME -dict=src/MODULE/fuzz/X.dict -max_total_time=600 CORPUS_FOLDER
function(emblem_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(STATUS "emblem: ${name} is not built; fuzzing needs -DCMAKE_CXX_COMPILER=clang++")
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
  target_compile_options(${name} PRIVATE -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} Threads::Threads)
endfunction()

set(serve ${CMAKE_SOURCE_DIR}/src/serve)
emblem_fuzz(http_request_fuzz
  SOURCES ${serve}/fuzz/http_request_fuzz.cc ${serve}/http/body.cc ${serve}/http/infer.cc ${serve}/http/target.cc
          ${serve}/http/request_head.cc ${serve}/protocol/memory_budget.cc
          ${serve}/http/json_tensor.cc ${serve}/protocol/json_reader.cc ${serve}/protocol/json_writer.cc
          ${serve}/protocol/shared_memory.cc ${serve}/protocol/tensor.cc ${CMAKE_SOURCE_DIR}/src/core/text.cc ${CMAKE_SOURCE_DIR}/src/core/utf8.cc
          ${CMAKE_BINARY_DIR}/generated/serve/protocol/model_config.pb.cc
  LINK protobuf::libprotobuf fmt::fmt ZLIB::ZLIB)
emblem_fuzz(http_stream_fuzz
  SOURCES ${serve}/fuzz/http_stream_fuzz.cc ${serve}/http/request_reader.cc ${serve}/http/request_head.cc
          ${serve}/http/chunked_reader.cc ${serve}/http/body.cc ${serve}/protocol/memory_budget.cc
          ${serve}/protocol/status.cc ${CMAKE_SOURCE_DIR}/src/core/text.cc
          ${CMAKE_SOURCE_DIR}/src/core/utf8.cc ${CMAKE_SOURCE_DIR}/src/core/caught_error.cc ${CMAKE_SOURCE_DIR}/src/core/log.cc
  LINK spdlog::spdlog fmt::fmt ZLIB::ZLIB)
if(EMBLEM_GRPC)
  emblem_fuzz(http2_frames_fuzz
    SOURCES ${serve}/fuzz/http2_frames_fuzz.cc ${serve}/http2/session.cc ${serve}/http2/stream_state.cc
            ${serve}/grpc/framing.cc ${serve}/grpc/compression.cc ${serve}/grpc/status.cc
            ${serve}/protocol/memory_budget.cc ${serve}/protocol/status.cc ${CMAKE_SOURCE_DIR}/src/core/text.cc
            ${CMAKE_SOURCE_DIR}/src/core/utf8.cc ${CMAKE_SOURCE_DIR}/src/core/caught_error.cc ${CMAKE_SOURCE_DIR}/src/core/log.cc
    LINK emblem_http2 spdlog::spdlog fmt::fmt ZLIB::ZLIB)
endif()

set(core ${CMAKE_SOURCE_DIR}/src/core)
set(ps ${CMAKE_SOURCE_DIR}/src/ps)
emblem_fuzz(ps_config_fuzz
  SOURCES ${ps}/fuzz/ps_config_fuzz.cc ${ps}/config/ps_config.cc ${ps}/config/json_object.cc ${core}/checksum.cc ${core}/file.cc
          ${core}/log.cc ${core}/text.cc ${CMAKE_SOURCE_DIR}/src/config/name.cc
  LINK nlohmann_json::nlohmann_json spdlog::spdlog fmt::fmt)
