#include "config/vocabulary_file.h"

#include <charconv>

#include "core/file.h"
#include "core/text.h"
#include "emblem/error.h"

namespace emblem {

std::map<std::string, uint64_t> read_vocabulary_file(const std::string& path) {
  std::map<std::string, uint64_t> words;
  bool has_rows = false;
  size_t number = 0;
  for (const std::string& line : split(read_text_file(path), '\n')) {
    ++number;
    const std::string_view text = trim(line);
    if (text.empty()) continue;
    const size_t space = text.find_first_of(" \t");
    const std::string_view row =
        space == std::string_view::npos ? std::string_view() : trim(text.substr(space));
    if (words.empty()) has_rows = !row.empty();
    EMBLEM_REQUIRE(row.empty() != has_rows, path, ":", number, ": \"", printable(std::string(text)),
                   "\" ", has_rows ? "has no row" : "has a row",
                   ", unlike the lines before it; write either \"WORD\" or \"WORD ROW\" in all");
    uint64_t value = words.size();
    if (has_rows) {
      const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), value);
      EMBLEM_REQUIRE(error == std::errc() && end == row.data() + row.size(), path, ":", number,
                     ": row \"", printable(std::string(row)),
                     "\" is not a number; expected \"WORD ROW\"");
    }
    words.insert_or_assign(std::string(text.substr(0, space)), value);
  }
  EMBLEM_REQUIRE(!words.empty(), path, " has no words; expected one in each line");
  return words;
}

}  // namespace emblem
