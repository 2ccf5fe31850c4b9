#include "serve/http/message/target.h"

#include "emblem/error.h"

namespace emblem {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decode(std::string_view text) {
  std::string name;
  name.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i];
      continue;
    }
    const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    EMBLEM_REQUIRE(high >= 0 && low >= 0, "the path has a '%' without two hexadecimal digits");
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return name;
}

void check_name(std::string_view name) {
  EMBLEM_REQUIRE(!name.empty(), "the path has an empty name between two slashes");
  EMBLEM_REQUIRE(name != "." && name != "..", "the path has a \"", name, "\"");
  for (const char c : name) {
    const bool allowed =
        static_cast<unsigned char>(c) >= 0x20 && c != 0x7F && c != '/' && c != '\\';
    EMBLEM_REQUIRE(allowed, "the path has a slash, backslash or control character in a name");
  }
}

}  // namespace

std::vector<std::string> split_target(std::string_view target) {
  std::string_view path = target.substr(0, target.find('?'));
  EMBLEM_REQUIRE(path.starts_with('/'), "the path does not begin with a slash");
  std::vector<std::string> names;
  path.remove_prefix(1);
  while (!path.empty()) {
    const size_t slash = path.find('/');
    names.push_back(decode(path.substr(0, slash)));
    check_name(names.back());
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
    EMBLEM_REQUIRE(!path.empty(), "the path ends with a slash");
  }
  return names;
}

std::string_view first_query_name(std::string_view target) {
  const size_t mark = target.find('?');
  if (mark == std::string_view::npos) return {};
  const std::string_view query = target.substr(mark + 1);
  return query.substr(0, query.find_first_of("=&"));
}

}  // namespace emblem
