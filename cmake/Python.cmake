# The module emblem._core for Python, with nanobind in split mode: one file for all versions of Python from 3.10 on.
# nanobind comes from PyPI into a virtual environment of its own, as it is needed to compile only.
find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
if(NOT Python_FOUND)
  message(STATUS "emblem: no headers of Python 3.10 or newer (python3-dev); without the Python package")
  return()
endif()
set(venv ${EMBLEM_DEPS}/python)
if(NOT EXISTS ${venv}/complete)
  execute_process(COMMAND ${Python_EXECUTABLE} -m venv ${venv} RESULT_VARIABLE failed)
  if(NOT failed)
    execute_process(COMMAND ${venv}/bin/python -m pip install --quiet --disable-pip-version-check
      nanobind==3.1.0 nanobind-backend==1.0.0 RESULT_VARIABLE failed)
  endif()
  if(failed)
    message(STATUS "emblem: nanobind cannot be fetched from PyPI; without the Python package")
    return()
  endif()
  file(TOUCH ${venv}/complete)
endif()
execute_process(COMMAND ${venv}/bin/python -m nanobind --cmake_dir OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT)
find_package(nanobind CONFIG REQUIRED)

file(GLOB python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cc)
nanobind_add_module(emblem_python BACKEND_MODULE nanobind_backend ${python_sources})
emblem_unite(emblem_python)
target_include_directories(emblem_python PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(emblem_python PRIVATE emblem_options emblem_library)
target_link_options(emblem_python PRIVATE LINKER:--disable-new-dtags)
set_target_properties(emblem_python PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python/emblem
  INSTALL_RPATH "$ORIGIN/lib/emblem")

# The package as it is installed: Python's files, the module, the program.
set(package ${PROJECT_BINARY_DIR}/python/emblem)
add_custom_target(emblem_package ALL
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/python/emblem ${package}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${package}/bin
  COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:emblem> ${package}/bin/emblem
  DEPENDS emblem_python emblem)

# As a wheel has it (tools/wheel.py): the prefix is the folder of the package.
install(DIRECTORY python/emblem/ DESTINATION . COMPONENT python EXCLUDE_FROM_ALL PATTERN __pycache__ EXCLUDE)
install(TARGETS emblem_python DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
