# For which CPUs the sources are compiled.
#
# EMBLEM_NATIVE=ON: for the building machine's, as developers want it. Otherwise for every CPU of the architecture: the
# library libemblem.so is compiled for the oldest (EMBLEM_LEVEL) and, on x86-64, again for each of EMBLEM_LEVELS; those
# libraries are installed in folders glibc-hwcaps/LEVEL, and the system's loader takes the best that the CPU can run. All use
# the parts (cmake/Parts.cmake) of the oldest.
# Matrix kernels are not a matter of levels: every library has all of them and chooses at run time (src/kernels/cpu).
set(oldest_x86_64 x86-64)
set(oldest_aarch64 armv8-a)
set(EMBLEM_LEVEL "${oldest_${CMAKE_SYSTEM_PROCESSOR}}" CACHE STRING "Without EMBLEM_NATIVE: the oldest CPU (-march)")
set(further "")
if(EMBLEM_LEVEL STREQUAL "x86-64")
  set(further x86-64-v2 x86-64-v3)
endif()
set(EMBLEM_LEVELS "${further}" CACHE STRING "Without EMBLEM_NATIVE: levels of x86-64 with a library of their own")

if(EMBLEM_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native EMBLEM_HAS_MARCH_NATIVE) # Clang 14 on arm64 has -mcpu=native alone
  set(emblem_cpu native)
  set(emblem_cpu_option -mcpu=native)
  if(EMBLEM_HAS_MARCH_NATIVE)
    set(emblem_cpu_option -march=native)
  endif()
elseif(EMBLEM_LEVEL)
  set(emblem_cpu ${EMBLEM_LEVEL})
  set(emblem_cpu_option -march=${EMBLEM_LEVEL})
else()
  set(emblem_cpu "any ${CMAKE_SYSTEM_PROCESSOR}")
  set(emblem_cpu_option "")
endif()

# emblem_build_levels(): the libraries of EMBLEM_LEVELS. Each is this project again with the same settings, in a folder of
# the build folder; they are built after the program and one after the other, as each uses all cores.
function(emblem_build_levels)
  if(NOT EMBLEM_LEVELS)
    return()
  endif()
  list(JOIN EMBLEM_LEVELS ", " listed)
  message(STATUS "emblem: compiled for ${EMBLEM_LEVEL}, ${listed}; -DEMBLEM_NATIVE=ON compiles once, for this machine")
  set(passed "^EMBLEM_|^CMAKE_(BUILD_TYPE|TOOLCHAIN_FILE|PREFIX_PATH|(CXX|CUDA)_(COMPILER|FLAGS|ARCHITECTURES).*)$")
  get_cmake_property(names CACHE_VARIABLES)
  set(settings "")
  foreach(name ${names})
    if(name MATCHES "${passed}")
      string(APPEND settings "set(${name} [==[$CACHE{${name}}]==] CACHE STRING \"\" FORCE)\n")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/levels.cmake CONTENT "${settings}" @ONLY) # written only if it changes
  include(ExternalProject)
  set(before emblem)
  foreach(level ${EMBLEM_LEVELS})
    set(folder ${PROJECT_BINARY_DIR}/${level})
    ExternalProject_Add(emblem_${level}
      SOURCE_DIR ${PROJECT_SOURCE_DIR} BINARY_DIR ${folder} PREFIX ${folder}/external
      CMAKE_ARGS -C ${PROJECT_BINARY_DIR}/levels.cmake -DEMBLEM_LEVEL=${level} -DEMBLEM_LEVELS= -DEMBLEM_TESTS=OFF -DEMBLEM_PYTHON=OFF
                 -DEMBLEM_PARTS=${PROJECT_BINARY_DIR}
      BUILD_COMMAND ${CMAKE_COMMAND} --build <BINARY_DIR> --target emblem_library
      INSTALL_COMMAND "" BUILD_ALWAYS ON USES_TERMINAL_CONFIGURE ON USES_TERMINAL_BUILD ON DEPENDS ${before})
    ExternalProject_Add_StepDependencies(emblem_${level} configure ${PROJECT_BINARY_DIR}/levels.cmake)
    set(before emblem_${level})
    install(CODE "
      set(strip)
      if(CMAKE_INSTALL_DO_STRIP)
        set(strip --strip)
      endif()
      execute_process(COMMAND \"${CMAKE_COMMAND}\" --install \"${folder}\" --prefix \"\${CMAKE_INSTALL_PREFIX}\"
                      --component library \${strip} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT library)
  endforeach()
endfunction()
