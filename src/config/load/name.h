// config/load/name.h - which names features and tables may have, in files and on servers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/files/inner_path.h"

namespace emblem {

constexpr size_t kLongestName = 200;  // bytes; files may have 255, and "_emb_wide" is added
constexpr size_t kLongestTableName = kLongestName + std::string_view("_emb_wide").size();

// What is wrong with a name, as the end of a sentence that begins with it: "is empty"; "" if
// nothing is. Any text is allowed that is the name of a file, not hidden, without control
// characters.
inline std::string name_problem(std::string_view name, size_t longest = kLongestName) {
  return name.starts_with('.') ? "begins with \".\"" : file_name_problem(name, longest);
}

}  // namespace emblem
