#include "core/files/inner_path.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool is_link(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

}  // namespace

std::string file_name_problem(std::string_view name, size_t longest) {
  if (name.empty()) return "is empty";
  if (name.size() > longest) return cat("has ", name.size(), " bytes");
  if (name == "." || name == "..") return cat("is \"", name, "\"");
  for (const char c : name) {
    if (c == '/' || c == '\\') return cat("contains \"", c, "\"");
    if (static_cast<uint8_t>(c) < ' ' || c == 0x7f) return "contains a control character";
  }
  return "";
}

std::string inner_path_problem(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > kLongestInnerPath) return cat("has ", path.size(), " bytes");
  if (path.starts_with('/')) return "begins with \"/\"";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    const std::string problem = file_name_problem(name);
    if (name.empty()) return "has an empty name between slashes";
    if (name == "." || name == "..") return cat("contains \"", name, "\"");
    if (name.size() > kLongestFileName) return cat("has a name of ", name.size(), " bytes");
    if (!problem.empty()) return problem;
    begin = end + 1;
  }
  return "";
}

std::string path_below(const std::string& folder, std::string_view name, Links links) {
  const std::string problem = inner_path_problem(name);
  EMBLEM_REQUIRE(problem.empty(), "\"", printable(std::string(name.substr(0, 200))),
                 "\" does not name a file in ", folder, ": it ", problem,
                 "; expected names with single slashes between them");
  const std::string path = cat(folder, "/", name);
  if (links == Links::kFollow) return path;
  for (size_t end = folder.size(); end < path.size();) {
    end = std::min(path.find('/', end + 1), path.size());
    const std::string above = path.substr(0, end);
    EMBLEM_REQUIRE(!is_link(above), above, " is a symbolic link, where ", path,
                   " is to be written; remove the link");
  }
  return path;
}

}  // namespace emblem
