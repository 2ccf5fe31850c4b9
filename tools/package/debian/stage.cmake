# CPack runs this before it makes the .deb: adds what a system of Debian has beside the program.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(ENV{DESTDIR} "") # of cpack: paths here are whole
set(root ${CPACK_TEMPORARY_DIRECTORY})
set(usr ${root}/usr)
set(debian ${CMAKE_CURRENT_LIST_DIR})
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(emblem_run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "emblem: failed: ${ARGN}")
  endif()
endfunction()

# Libraries are found beside each other and where the system has them, not in folders of the build.
file(GLOB_RECURSE libraries ${usr}/lib/emblem/libemblem*.so)
foreach(library ${libraries})
  if(library MATCHES "glibc-hwcaps")
    file(RPATH_SET FILE ${library} NEW_RPATH "$ORIGIN/../..")
  else()
    file(RPATH_SET FILE ${library} NEW_RPATH "$ORIGIN")
  endif()
endforeach()
file(RPATH_SET FILE ${usr}/bin/emblem NEW_RPATH "$ORIGIN/../lib/emblem")
file(GLOB_RECURSE libraries ${usr}/lib/emblem/*.so*)
emblem_run(strip --strip-unneeded ${libraries})
file(CHMOD ${libraries} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
file(GLOB scripts ${usr}/share/emblem/configs/launch/*.sh ${usr}/share/emblem/configs/launch/*.sbatch)
file(CHMOD ${scripts} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# From --help of this very program.
emblem_run(${Python3_EXECUTABLE} -B ${debian}/../man_pages.py ${usr}/bin/emblem ${usr}/share/man/man1)
emblem_run(${Python3_EXECUTABLE} -B ${debian}/../completions.py ${usr}/bin/emblem ${root}/completions)
file(INSTALL ${root}/completions/bash/emblem DESTINATION ${usr}/share/bash-completion/completions)
file(INSTALL ${root}/completions/zsh/_emblem DESTINATION ${usr}/share/zsh/vendor-completions)
file(INSTALL ${root}/completions/fish/emblem.fish DESTINATION ${usr}/share/fish/vendor_completions.d)
file(REMOVE_RECURSE ${root}/completions)

file(INSTALL ${debian}/emblem.service DESTINATION ${root}/lib/systemd/system)
file(INSTALL ${debian}/emblem.sysusers DESTINATION ${usr}/lib/sysusers.d RENAME emblem.conf)
file(INSTALL ${debian}/serve.conf DESTINATION ${root}/etc/emblem)
file(INSTALL ${debian}/lintian-overrides DESTINATION ${usr}/share/lintian/overrides RENAME emblem)
file(INSTALL ${debian}/copyright DESTINATION ${usr}/share/doc/emblem)
file(REMOVE ${usr}/share/doc/emblem/LICENSE)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${usr}/share/doc/emblem/changelog "emblem (${CPACK_PACKAGE_VERSION}) stable; urgency=medium

  * See CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
emblem_run(gzip -9nf ${usr}/share/doc/emblem/changelog)
