#include "core/system/dynamic_library.h"

#include <dlfcn.h>

#include "emblem/error.h"

namespace emblem {

DynamicLibrary::DynamicLibrary(std::string name, const std::string& advice)
    : name_(std::move(name)), handle_(::dlopen(name_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr)
    throw Error(ErrorCode::kUnavailable,
                cat("cannot load ", name_, ": ", ::dlerror(), "; ", advice));
}

void* DynamicLibrary::address_of(const char* symbol) const { return ::dlsym(handle_, symbol); }

void DynamicLibrary::throw_missing(const char* symbol) const {
  throw Error(ErrorCode::kUnavailable, cat(name_, " has no function ", symbol));
}

}  // namespace emblem
