# emblem_precompile(TARGET [TESTS|QUICK])
#
# Nearly every source includes the same large headers, and parsing them again is much of a build without a compiler cache.
# Here they are parsed once for the libraries, once for QUICK ones and once for the tests. Only headers that are not
# ours: after a change of ours just what includes it is compiled. Not nlohmann/json.hpp: its templates would cost half a
# second in every file that does without them. Sources include what they use all the same: -DEMBLEM_PCH=OFF compiles them
# without, as make lint does.
set(precompiled <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream>
  <stdexcept> <string> <string_view> <thread> <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector>
  <google/protobuf/generated_message_reflection.h> <google/protobuf/map.h> <google/protobuf/message.h>
  <google/protobuf/repeated_field.h> <google/protobuf/unknown_field_set.h>)

# A precompiled header serves only what is compiled with the same flags: those that some modules have go to all.
function(emblem_precompile_flags target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-pthread>)
endfunction()

function(emblem_precompiled name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK;OPTIONS" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(${name} PRIVATE emblem_options fmt::fmt spdlog::spdlog protobuf::libprotobuf ${ARG_LINK})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  emblem_precompile_flags(${name})
  target_precompile_headers(${name} PRIVATE ${precompiled} ${ARG_HEADERS})
  # The configuration's messages, 100,000 generated lines, are part of most interfaces.
  target_include_directories(${name} SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_precompile_headers(${name} PRIVATE <config/proto/pipeline.pb.h>)
  add_dependencies(${name} emblem_config_protos)
endfunction()

if(EMBLEM_PCH)
  emblem_precompiled(emblem_headers HEADERS <fmt/format.h>)
  emblem_precompiled(emblem_quick_headers HEADERS <fmt/format.h> OPTIONS ${emblem_quick_options})
  if(EMBLEM_TESTS)
    emblem_precompiled(emblem_test_headers HEADERS <gmock/gmock.h> LINK GTest::gmock OPTIONS ${emblem_quick_options} -fPIE)
    set_target_properties(emblem_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF) # -fPIE, as programs have it
  endif()
endif()

function(emblem_precompile target)
  if(NOT EMBLEM_PCH)
    return()
  endif()
  cmake_parse_arguments(ARG "TESTS;QUICK" "" "" ${ARGN})
  emblem_precompile_flags(${target})
  if(ARG_TESTS)
    target_precompile_headers(${target} REUSE_FROM emblem_test_headers)
  elseif(ARG_QUICK)
    target_precompile_headers(${target} REUSE_FROM emblem_quick_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM emblem_headers)
  endif()
endfunction()
