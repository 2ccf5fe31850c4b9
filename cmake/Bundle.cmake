# Copies the shared libraries that PROGRAM needs, except those of every Linux system, into lib/ next to it.
cmake_minimum_required(VERSION 3.22)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAM} RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR absent
     PRE_EXCLUDE_REGEXES "ld-linux" "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so")
get_filename_component(folder ${PROGRAM} DIRECTORY)
file(COPY ${libraries} DESTINATION ${folder}/lib FOLLOW_SYMLINK_CHAIN)
list(LENGTH libraries count)
message(STATUS "emblem: ${count} libraries bundled in ${folder}/lib")
if(absent)
  message(STATUS "emblem: not found and not bundled: ${absent}")
endif()
