#include "config/tokenizer_file.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "emblem/error.h"

namespace emblem {

int64_t tokenizer_rows(const std::string& path) try {
  std::ifstream file(path, std::ios::binary);
  EMBLEM_REQUIRE(file.good(), "tokenizer ", path,
                 " cannot be opened; check vocab_file and asset_dir");
  const nlohmann::json json = nlohmann::json::parse(file);
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

}  // namespace emblem
