#include "core/system/module.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

#include "core/system/process.h"
#include "emblem/error.h"

namespace emblem {
namespace {

namespace fs = std::filesystem;

// The file that has this code: the loader has no name for the program itself.
std::string own_file() {
  Dl_info info{};
  link_map* file = nullptr;
  const bool is_known = ::dladdr1(reinterpret_cast<const void*>(&find_module), &info,
                                  reinterpret_cast<void**>(&file), RTLD_DL_LINKMAP) != 0;
  return is_known && file != nullptr && file->l_name[0] != '\0' ? file->l_name : program_path();
}

fs::path folder_of_modules() {
  std::error_code failed;
  const fs::path file = fs::canonical(own_file(), failed);
  const fs::path folder = (failed ? fs::path(own_file()) : file).parent_path();
  // Libraries of newer CPUs (cmake/Levels.cmake) use the same modules as that of the oldest.
  const bool is_level = folder.parent_path().filename() == "glibc-hwcaps";
  return is_level ? folder.parent_path().parent_path() : folder;
}

fs::path path_of(const std::string& name) {
  return folder_of_modules() / ("libemblem_" + name + ".so");
}

}  // namespace

std::string find_module(const std::string& name) {
  const fs::path path = path_of(name);
  std::error_code ignored;
  return fs::exists(path, ignored) ? path.string() : "";
}

DynamicLibrary load_module(const std::string& name, const std::string& advice) {
  const fs::path path = path_of(name);
  if (find_module(name).empty())
    throw Error(ErrorCode::kUnsupported, cat("no ", path.filename().string(), " in ",
                                             path.parent_path().string(), "; ", advice));
  try {
    return DynamicLibrary(path.string(), advice);
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnsupported, error.what());
  }
}

}  // namespace emblem
