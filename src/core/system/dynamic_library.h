// core/system/dynamic_library.h - a shared library that is loaded when it is first needed.
#pragma once

#include <string>

namespace emblem {

// The library stays loaded until the process ends, so functions of it may be kept. Thread-safe.
class DynamicLibrary {
 public:
  // Throws kUnavailable: "cannot load libx.so.1: <reason>; <advice>".
  DynamicLibrary(std::string name, const std::string& advice);

  // Throws kUnavailable when the library has no such function.
  template <class Function>
  void find(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(symbol));
    if (function == nullptr) throw_missing(symbol);
  }
  // Null when the library has no such function.
  template <class Function>
  void find_optional(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(symbol));
  }

 private:
  void* address_of(const char* symbol) const;
  [[noreturn]] void throw_missing(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace emblem
