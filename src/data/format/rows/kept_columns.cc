#include "data/format/rows/kept_columns.h"

namespace emblem {
namespace {

bool must_be_quoted(std::string_view text, char delimiter) {
  return text.find(delimiter) != std::string_view::npos ||
         text.find_first_of("\"\r\n") != std::string_view::npos ||
         (!text.empty() && (text.front() == ' ' || text.back() == ' '));
}

}  // namespace

std::string csv_field(std::string_view text, char delimiter) {
  if (!must_be_quoted(text, delimiter)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string csv_line(std::span<const std::string> fields) {
  std::string line;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_field(fields[i], ',');
  }
  return line;
}

}  // namespace emblem
