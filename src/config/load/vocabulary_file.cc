#include "config/load/vocabulary_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/files/file.h"
#include "core/text/parse_number.h"
#include "core/text/shallow_json.h"
#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {

int64_t tokenizer_rows(const std::string& path) try {
  std::ifstream file(path, std::ios::binary);
  EMBLEM_REQUIRE(file.good(), "tokenizer ", path,
                 " cannot be opened; check vocab_file and asset_dir");
  const nlohmann::json json = nlohmann::json::parse(file, shallow_json);
  int64_t rows = 0;
  for (const auto& token : json.at("model").at("vocab").items())
    rows = std::max(rows, token.value().get<int64_t>() + 1);
  if (json.contains("added_tokens")) {
    for (const auto& token : json["added_tokens"])
      rows = std::max(rows, token.at("id").get<int64_t>() + 1);
  }
  EMBLEM_REQUIRE(rows > 0, "tokenizer ", path, " has an empty vocabulary");
  return rows;
} catch (const nlohmann::json::exception&) {
  throw Error(ErrorCode::kInvalidArgument,
              cat("tokenizer ", path,
                  " is not a tokenizer.json of Hugging Face (model, vocab, added_tokens)"));
}

// Messages name lines and do not quote them: a server says them to clients, too.
std::map<std::string, uint64_t> read_vocabulary_file(const std::string& path) {
  EMBLEM_REQUIRE(!std::filesystem::exists(path) || std::filesystem::is_regular_file(path), path,
                 " is not a file; expected a vocabulary with a word in each line");
  std::string content = read_text_file(path);
  if (content.starts_with("\xef\xbb\xbf")) content.erase(0, 3);  // a byte order mark
  EMBLEM_REQUIRE(content.find('\0') == std::string::npos, path,
                 " is binary or UTF-16; expected UTF-8 text with a word in each line");
  std::map<std::string, uint64_t> words;
  bool has_rows = false;
  size_t number = 0;
  for (const std::string& line : split(content, '\n')) {
    ++number;
    const std::string_view text = trim(line);
    if (text.empty()) continue;
    const size_t space = text.find_first_of(" \t");
    const std::string_view row =
        space == std::string_view::npos ? std::string_view() : trim(text.substr(space));
    if (words.empty()) has_rows = !row.empty();
    EMBLEM_REQUIRE(row.empty() != has_rows, path, ":", number, ": the line ",
                   has_rows ? "has no row" : "has a row",
                   ", unlike the lines before it; write either \"WORD\" or \"WORD ROW\" in all");
    uint64_t value = words.size();
    if (has_rows) {
      const auto given = parse_number<uint64_t>(row);
      EMBLEM_REQUIRE(given, path, ":", number, ": the row is not a number; expected \"WORD ROW\"");
      value = *given;
    }
    const std::string_view word = text.substr(0, space);
    EMBLEM_REQUIRE(words.emplace(word, value).second, path, ":", number,
                   ": the word is in the vocabulary already; remove one of the lines");
  }
  EMBLEM_REQUIRE(!words.empty(), path, " has no words; expected one in each line");
  return words;
}

}  // namespace emblem
