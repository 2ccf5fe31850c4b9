# What cpack makes: an archive to unpack anywhere (make package), and with -G DEB a package for Debian and Ubuntu (make deb).
set(CPACK_GENERATOR TXZ)
set(CPACK_PACKAGE_FILE_NAME emblem-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)

set(debian ${PROJECT_SOURCE_DIR}/tools/package/debian)
set(CPACK_PACKAGE_CONTACT "Emblem <emblem@example.org>" CACHE STRING "Maintainer of the Debian package")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains and serves recommenders whose embedding tables grow")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Trains, serves and benchmarks recommendation models, on CPUs and GPUs, on
one machine or many. Embedding tables may be larger than GPU memory and may
grow during training. Models are served over HTTP and gRPC by the KServe v2
protocol.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# libcuda comes with the driver, and is needed where a GPU is used alone.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "init-system-helpers (>= 1.54), systemd | systemd-standalone-sysusers")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "openmpi-bin, redis-server")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${debian}/postinst ${debian}/prerm ${debian}/postrm ${debian}/conffiles)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PRE_BUILD_SCRIPTS ${debian}/stage.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackagePaths.cmake)
include(CPack)
