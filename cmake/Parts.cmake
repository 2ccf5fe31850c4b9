# Parts of Emblem in files of their own, beside libemblem.so:
#
#   libemblem_cuda.so   device code and what launches it: once, for the libraries of all levels (cmake/Levels.cmake)
#   libemblem_NAME.so   modules, loaded when they are first used (core/system/module.h): each has what calls a library that
#                       few processes need, so that programs start without it
#
# What parts need of Emblem is in libemblem.so, which exports it to them (cmake/exports.cmake). Tests have all of Emblem in
# their programs, also the code of parts that need something of it, and load the others.

# emblem_loaded(NAME SOURCES file... [LINK library...]): the module libemblem_NAME.so.
function(emblem_loaded name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  if(EMBLEM_PARTS)
    return()
  endif()
  set(target emblem_${name}_module)
  add_library(${target} MODULE ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_options(${target} PRIVATE LINKER:--no-as-needed) # functions are also found in what a module is linked to
  target_link_libraries(${target} PRIVATE emblem_options ${ARG_LINK})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME emblem_${name} CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  set_property(GLOBAL APPEND PROPERTY emblem_parts ${target})
endfunction()

# emblem_device_code(): the library libemblem_cuda.so, as the target emblem_cuda. It is made of the objects of *.cu files,
# which the static libraries have for tests: libemblem.so finds their symbols in it and takes none of those objects.
function(emblem_device_code)
  if(EMBLEM_PARTS)
    add_library(emblem_cuda SHARED IMPORTED GLOBAL)
    set_target_properties(emblem_cuda PROPERTIES IMPORTED_LOCATION ${EMBLEM_PARTS}/libemblem_cuda.so)
    return()
  endif()
  get_property(libraries GLOBAL PROPERTY emblem_device_libraries)
  list(TRANSFORM libraries REPLACE "(.+)" "$<FILTER:$<TARGET_OBJECTS:\\1>,INCLUDE,[.]cu[.]o$>" OUTPUT_VARIABLE objects)
  set(exports ${PROJECT_SOURCE_DIR}/cmake/exports_cuda.map)
  add_library(emblem_cuda SHARED ${PROJECT_SOURCE_DIR}/cmake/empty.cc)
  target_link_libraries(emblem_cuda PRIVATE ${objects} emblem_options)
  target_link_options(emblem_cuda PRIVATE LINKER:--version-script=${exports} LINKER:-Bsymbolic-functions)
  set_target_properties(emblem_cuda PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME cuda LINK_DEPENDS ${exports})
  add_dependencies(emblem_cuda ${libraries})
  set_property(GLOBAL APPEND PROPERTY emblem_parts emblem_cuda)
endfunction()

# emblem_export(LIBRARY): LIBRARY, a shared library, exports what parts, programs and users need.
function(emblem_export library)
  set(made ${PROJECT_BINARY_DIR})
  if(EMBLEM_PARTS)
    set(made ${EMBLEM_PARTS})
  else()
    set(script ${PROJECT_SOURCE_DIR}/cmake/exports.cmake)
    set(interface ${PROJECT_SOURCE_DIR}/cmake/exports.map)
    get_property(parts GLOBAL PROPERTY emblem_parts)
    list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
    add_custom_command(OUTPUT ${made}/exports.map ${made}/exports.options
      COMMAND ${CMAKE_COMMAND} -D NM=${CMAKE_NM} -D INTERFACE=${interface} -D OUT=${made}/exports -P ${script} ${files}
      DEPENDS ${script} ${interface} ${parts} VERBATIM)
    add_custom_target(emblem_exports DEPENDS ${made}/exports.map)
    add_dependencies(${library} emblem_exports)
  endif()
  target_link_options(${library} PRIVATE LINKER:--version-script=${made}/exports.map @${made}/exports.options
    # Calls inside the library cost what they cost within a program.
    LINKER:-Bsymbolic-functions LINKER:--no-undefined)
  set_property(TARGET ${library} APPEND PROPERTY LINK_DEPENDS ${made}/exports.map)
endfunction()
