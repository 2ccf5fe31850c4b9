# The program and the library, and what is installed:
#   bin/emblem
#   include/emblem/, lib/cmake/emblem/, lib/pkgconfig/   headers of the library, and what finds it (docs/cpp.md)
#   lib/emblem/                      libemblem.so for the oldest CPU, libemblem_mpi.so; with EMBLEM_BUNDLE what they need
#   lib/emblem/glibc-hwcaps/LEVEL/   libemblem.so for newer CPUs (cmake/Levels.cmake)
#   share/emblem/                    pipelines, reference figures of benchmarks
# The folder may be moved as a whole.
#
# With EMBLEM_NATIVE the program has the code of its own, and both run only on CPUs like this machine's.
add_executable(emblem src/main.cc)
set(installed lib/emblem)
set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)
add_library(emblem_library SHARED $<TARGET_OBJECTS:emblem_api>)
add_library(emblem::emblem ALIAS emblem_library)
target_link_libraries(emblem_library PRIVATE emblem_api)
target_include_directories(emblem_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
target_compile_features(emblem_library INTERFACE cxx_std_20)
target_link_options(emblem_library PRIVATE LINKER:--version-script=${exports} LINKER:--no-undefined)
set_target_properties(emblem_library PROPERTIES
  OUTPUT_NAME emblem EXPORT_NAME emblem LINKER_LANGUAGE CXX LINK_DEPENDS ${exports})
if(EMBLEM_NATIVE)
  target_link_libraries(emblem PRIVATE emblem_cli)
  set_target_properties(emblem_library PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(CODE "message(NOTICE \"emblem: compiled with EMBLEM_NATIVE: it runs only on CPUs like this machine's\")")
else()
  target_sources(emblem_library PRIVATE $<TARGET_OBJECTS:emblem_cli>)
  target_link_libraries(emblem_library PRIVATE emblem_cli)
  set(up "")
  if(NOT EMBLEM_LEVEL STREQUAL "${oldest_${CMAKE_SYSTEM_PROCESSOR}}")
    set(installed lib/emblem/glibc-hwcaps/${EMBLEM_LEVEL})
    set(up /../..)
  endif()
  set_target_properties(emblem_library PROPERTIES INSTALL_RPATH "$ORIGIN${up}")
  target_include_directories(emblem PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(emblem PRIVATE emblem_options emblem_library)
  emblem_build_levels()
endif()
install(TARGETS emblem_library EXPORT emblem DESTINATION ${installed} COMPONENT library)
install(DIRECTORY include/emblem DESTINATION include COMPONENT development)
install(EXPORT emblem NAMESPACE emblem:: FILE emblemConfig.cmake DESTINATION lib/cmake/emblem COMPONENT development)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/emblemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/emblem.pc.in emblem.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/emblemConfigVersion.cmake DESTINATION lib/cmake/emblem COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/emblem.pc DESTINATION lib/pkgconfig COMPONENT development)
set_target_properties(emblem PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/emblem")
install(TARGETS emblem DESTINATION bin COMPONENT program)
if(EMBLEM_MPI)
  add_dependencies(emblem emblem_mpi)
  install(TARGETS emblem_mpi DESTINATION lib/emblem COMPONENT program)
endif()
install(DIRECTORY configs DESTINATION share/emblem COMPONENT program)
install(DIRECTORY bench/reference DESTINATION share/emblem/bench COMPONENT program)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION share/doc/emblem COMPONENT program)

# DT_RPATH, not DT_RUNPATH: libraries that are installed with the program find theirs by it, too.
target_link_options(emblem_library PRIVATE LINKER:--disable-new-dtags)
target_link_options(emblem PRIVATE LINKER:--disable-new-dtags)
if(EMBLEM_BUNDLE)
  # All except those of every Linux system.
  install(CODE "
    file(GET_RUNTIME_DEPENDENCIES LIBRARIES $<TARGET_FILE:emblem_library>
         RESOLVED_DEPENDENCIES_VAR libraries UNRESOLVED_DEPENDENCIES_VAR absent
         PRE_EXCLUDE_REGEXES ld-linux \"^lib(c|m|dl|rt|pthread|stdc\\\\+\\\\+|gcc_s)\\\\.so\")
    file(INSTALL \${libraries} DESTINATION \${CMAKE_INSTALL_PREFIX}/lib/emblem FOLLOW_SYMLINK_CHAIN)
    if(absent)
      message(WARNING \"emblem: not found, so not installed: \${absent}\")
    endif()" COMPONENT library)
else()
  set_target_properties(emblem emblem_library PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  # What the build has fetched is nowhere else.
  foreach(name arrow parquet arrow_s3)
    if(TARGET Arrow::${name})
      get_target_property(location Arrow::${name} IMPORTED_LOCATION)
      if("${location}" MATCHES "^${EMBLEM_DEPS}/")
        install(FILES ${location} DESTINATION lib/emblem COMPONENT library)
      endif()
    endif()
  endforeach()
endif()

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TXZ)
  set(CPACK_PACKAGE_FILE_NAME emblem-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
  set(CPACK_STRIP_FILES ON)
  include(CPack)
endif()
