// core/system/module.h - parts of Emblem in files of their own, libemblem_NAME.so: loaded when they
// are first used, as they need libraries that few processes do (cmake/Parts.cmake).
#pragma once

#include <string>

#include "core/system/dynamic_library.h"

namespace emblem {

// The file, in the folder of libemblem.so or, where Emblem is linked statically, of the program; ""
// where there is none.
std::string find_module(const std::string& name);

// Throws kUnsupported (trying again is of no use), in one line, where the file or a library that it
// needs is not there: "no libemblem_NAME.so in FOLDER; <advice>".
DynamicLibrary load_module(const std::string& name, const std::string& advice);

}  // namespace emblem
