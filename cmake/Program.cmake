# The library, the program, and what is installed:
#   bin/emblem
#   include/emblem/, lib/cmake/emblem/, lib/pkgconfig/   headers of the library, and what finds it (docs/cpp.md)
#   lib/emblem/                      libemblem.so for the oldest CPU, parts (cmake/Parts.cmake); with EMBLEM_BUNDLE what they need
#   lib/emblem/glibc-hwcaps/LEVEL/   libemblem.so for newer CPUs (cmake/Levels.cmake)
#   share/emblem/                    pipelines, reference figures of benchmarks
# The folder may be moved as a whole. With EMBLEM_NATIVE it runs only on CPUs like this machine's.
add_library(emblem_library SHARED $<TARGET_OBJECTS:emblem_api> $<TARGET_OBJECTS:emblem_cli>)
add_library(emblem::emblem ALIAS emblem_library)
if(EMBLEM_CUDA)
  emblem_device_code()
  # Before the static libraries, which have the same symbols.
  target_link_libraries(emblem_library PRIVATE -Wl,--push-state,--no-as-needed emblem_cuda -Wl,--pop-state)
endif()
target_link_libraries(emblem_library PRIVATE emblem_api emblem_cli)
target_include_directories(emblem_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
target_compile_features(emblem_library INTERFACE cxx_std_20)
set_target_properties(emblem_library PROPERTIES OUTPUT_NAME emblem EXPORT_NAME emblem LINKER_LANGUAGE CXX)
emblem_export(emblem_library)

# What libstdc++ and protobuf allocate for a server counts by the program's operator new, too: the library's is its own.
add_executable(emblem src/main.cc src/serve/engine/counted_new.cc)
target_include_directories(emblem PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(emblem PRIVATE emblem_options emblem_library)

set(installed lib/emblem)
set(up "")
if(EMBLEM_PARTS)
  set(installed lib/emblem/glibc-hwcaps/${EMBLEM_LEVEL})
  set(up /../..)
endif()
get_property(parts GLOBAL PROPERTY emblem_parts)
set_target_properties(emblem_library ${parts} PROPERTIES INSTALL_RPATH "$ORIGIN${up}")
set_target_properties(emblem PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/emblem")
install(TARGETS emblem_library EXPORT emblem DESTINATION ${installed} COMPONENT library)
foreach(part ${parts})
  set(export "")
  if(part STREQUAL "emblem_cuda")
    set(export EXPORT emblem) # linkers look for it
  endif()
  install(TARGETS ${part} ${export} DESTINATION lib/emblem COMPONENT library)
endforeach()
if(EMBLEM_NATIVE)
  install(CODE "message(NOTICE \"emblem: compiled with EMBLEM_NATIVE: it runs only on CPUs like this machine's\")")
elseif(NOT EMBLEM_PARTS)
  emblem_build_levels()
endif()
install(DIRECTORY include/emblem DESTINATION include COMPONENT development)
install(EXPORT emblem NAMESPACE emblem:: FILE emblemConfig.cmake DESTINATION lib/cmake/emblem COMPONENT development)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/emblemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/emblem.pc.in emblem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/emblemConfigVersion.cmake DESTINATION lib/cmake/emblem COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/emblem.pc DESTINATION lib/pkgconfig COMPONENT development)
install(TARGETS emblem DESTINATION bin COMPONENT program)
install(DIRECTORY configs DESTINATION share/emblem COMPONENT program)
install(DIRECTORY bench/reference DESTINATION share/emblem/bench COMPONENT program)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION share/doc/emblem COMPONENT program)

# DT_RPATH, not DT_RUNPATH: libraries that are installed with the program find theirs by it, too.
foreach(target emblem emblem_library ${parts})
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
endforeach()
if(EMBLEM_BUNDLE)
  # All except those of every Linux system, and MPI's, which are those of its mpirun.
  set(modules ${parts})
  list(REMOVE_ITEM modules emblem_mpi_module)
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  list(PREPEND files $<TARGET_FILE:emblem_library>)
  list(JOIN files " " files)
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${files}
         RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR absent
         PRE_EXCLUDE_REGEXES ld-linux ^libemblem \"^lib(c|m|dl|rt|pthread|stdc\\\\+\\\\+|gcc_s)\\\\.so\")
    file(INSTALL \${libraries} DESTINATION \${CMAKE_INSTALL_PREFIX}/lib/emblem FOLLOW_SYMLINK_CHAIN)
    if(absent)
      message(WARNING \"emblem: not found, so not installed: \${absent}\")
    endif()" COMPONENT library)
else()
  set_target_properties(emblem emblem_library ${parts} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  # What the build has fetched is nowhere else.
  foreach(name arrow parquet arrow_s3)
    if(TARGET Arrow::${name})
      get_target_property(location Arrow::${name} IMPORTED_LOCATION)
      if("${location}" MATCHES "^${EMBLEM_DEPS}/")
        install(FILES ${location} DESTINATION lib/emblem COMPONENT bundled)
      endif()
    endif()
  endforeach()
endif()

if(PROJECT_IS_TOP_LEVEL)
  include(Package)
endif()
