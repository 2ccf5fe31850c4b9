// api/chosen.h - options that are one of several names.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

// What the name `given` stands for. Throws Error that begins with `where` and lists the names.
template <class T>
T chosen(const std::string& where, const char* option, const std::string& given,
         std::initializer_list<std::pair<const char*, T>> choices) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (given == name) return value;
    names += cat(names.empty() ? "" : ", ", name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat(where, ": ", option, " is \"", given, "\"; expected one of ", names));
}

}  // namespace emblem
