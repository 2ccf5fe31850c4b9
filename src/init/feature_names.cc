#include "init/feature_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/text/text.h"

namespace emblem {
namespace {

constexpr size_t kLongest = 100;  // bytes

bool is_word_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         c == '-' || c == '.' || byte >= 0x80;
}

std::string feature_name_for(const std::string& column) {
  std::string name;
  const bool is_utf8 = printable(column) == column;
  for (const char c : trim(column)) {
    const bool keep = is_word_character(c) && (is_utf8 || static_cast<unsigned char>(c) < 0x80);
    name += keep ? c : '_';
  }
  size_t length = std::min(name.size(), kLongest);
  while (length > 0 && length < name.size() && (name[length] & 0xc0) == 0x80) --length;
  name.resize(length);
  if (name.empty() || name.front() == '.') name.insert(0, "_");
  return name;
}

}  // namespace

std::vector<std::string> feature_names_for(const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  std::set<std::string> taken(columns.begin(), columns.end());
  for (const std::string& column : columns) {
    std::string name = feature_name_for(column);
    for (int number = 2; name != column && taken.contains(name); ++number)
      name = fmt::format("{}_{}", feature_name_for(column), number);
    taken.insert(name);
    names.push_back(name);
  }
  return names;
}

std::string proto_string(std::string_view text) {
  const bool is_utf8 = printable(text) == text;
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (c == '\t')
      quoted += "\\t";
    else if (byte < ' ' || byte == 0x7f || (byte >= 0x80 && !is_utf8))
      quoted += fmt::format("\\{:03o}", byte);
    else
      quoted += c;
  }
  return quoted + '"';
}

std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) { return is_word_character(c) || c == '/' || c == ','; };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace emblem
