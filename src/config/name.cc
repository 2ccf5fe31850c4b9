#include "config/name.h"

#include <cstdint>

#include "emblem/error.h"

namespace emblem {

std::string name_problem(std::string_view name, size_t longest) {
  if (name.empty()) return "is empty";
  if (name.size() > longest) return cat("has ", name.size(), " bytes");
  if (name.front() == '.') return "begins with \".\"";
  for (const char c : name) {
    if (c == '/' || c == '\\') return cat("contains \"", c, "\"");
    if (static_cast<uint8_t>(c) < ' ' || c == 0x7f) return "contains a control character";
  }
  return "";
}

}  // namespace emblem
