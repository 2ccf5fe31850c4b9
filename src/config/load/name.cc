#include "config/load/name.h"

#include "core/files/inner_path.h"

namespace emblem {

std::string name_problem(std::string_view name, size_t longest) {
  return name.starts_with('.') ? "begins with \".\"" : file_name_problem(name, longest);
}

}  // namespace emblem
