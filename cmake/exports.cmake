# cmake -D NM=nm -D INTERFACE=exports.map -D OUT=PREFIX -P exports.cmake PART...
#
# Writes what libemblem.so exports: INTERFACE, and the symbols of Emblem that parts (cmake/Parts.cmake) leave undefined.
# PREFIX.map is for the linker, PREFIX.options makes it take these from the static libraries.
set(ours "6emblem|9inference|4grpc6health") # namespaces of Emblem and of its messages
set(symbols "")
set(is_part OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE ${last})
  set(argument "${CMAKE_ARGV${index}}")
  if(is_part)
    execute_process(COMMAND ${NM} -D -u --format=posix ${argument} OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "[^\n]*(${ours})[^\n ]* U" found "${listed}")
    list(APPEND symbols ${found})
  elseif(argument MATCHES "exports.cmake$")
    set(is_part ON)
  endif()
endforeach()
list(TRANSFORM symbols REPLACE " U$" "")
list(SORT symbols)
list(REMOVE_DUPLICATES symbols)

set(parts "")
set(options "")
foreach(symbol ${symbols})
  string(APPEND parts "      ${symbol};\n")
  string(APPEND options "-Wl,--undefined=${symbol}\n")
endforeach()
configure_file(${INTERFACE} ${OUT}.map @ONLY)
file(CONFIGURE OUTPUT ${OUT}.options CONTENT "${options}")
