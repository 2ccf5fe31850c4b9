#include "data/feature/fg/tokens/bpe.h"

#include <queue>

#include "core/text/text.h"
#include "core/text/utf8.h"
#include "data/feature/fg/tokens/unicode.h"
#include "emblem/error.h"

namespace emblem {
namespace {

bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

std::string byte_level_character(uint8_t byte) {
  uint32_t code = byte;
  if (!stands_for_itself(byte)) {
    code = 0x100;
    for (uint32_t other = 0; other < byte; ++other) code += !stands_for_itself(other);
  }
  std::string text;
  append_utf8(code, text);
  return text;
}

Bpe::Bpe(std::unordered_map<std::string, int64_t> vocabulary,
         const std::vector<std::pair<std::string, std::string>>& merges, const Options& options)
    : vocabulary_(std::move(vocabulary)), options_(options) {
  const auto token_of = [&](const std::string& text) {
    const auto found = vocabulary_.find(text);
    EMBLEM_REQUIRE(found != vocabulary_.end(),
                   "the merges have a token which is not in the vocabulary");
    return found->second;
  };
  merges_.reserve(merges.size());
  for (uint32_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    merges_.emplace(std::pair(token_of(left), token_of(right)),
                    Merge{rank, token_of(left + right)});
  }
  if (!options_.unknown.empty()) unknown_ = token_of(options_.unknown);
  if (!options_.is_byte_level) return;
  byte_tokens_.resize(256);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary_.find(byte_level_character(static_cast<uint8_t>(byte)));
    byte_tokens_[byte] = found == vocabulary_.end() ? unknown_ : found->second;
  }
}

std::vector<int64_t> Bpe::symbols_of(std::string_view word) const {
  std::vector<int64_t> symbols;
  const auto add = [&](int64_t token) {
    const bool is_fused = token == unknown_ && options_.fuse_unknown && !symbols.empty() &&
                          symbols.back() == unknown_;
    if (token >= 0 && !is_fused) symbols.push_back(token);
  };
  if (options_.is_byte_level) {
    for (const char byte : word) add(byte_tokens_[static_cast<uint8_t>(byte)]);
    return symbols;
  }
  for (const Character& character : characters_of(word)) {
    const auto found = vocabulary_.find(
        std::string(word.substr(character.begin, character.end - character.begin)));
    add(found == vocabulary_.end() ? unknown_ : found->second);
  }
  return symbols;
}

const Bpe::Merge* Bpe::find_merge(int64_t left, int64_t right) const {
  const auto found = merges_.find({left, right});
  return found == merges_.end() ? nullptr : &found->second;
}

// The merge with the lowest rank first, the leftmost of equal ones. Symbols are a linked list; the
// queue may hold pairs that are no more, which are skipped.
void Bpe::encode(std::string_view word, std::vector<int64_t>& tokens) const {
  std::vector<int64_t> symbols = symbols_of(word);
  const auto count = static_cast<int32_t>(symbols.size());
  std::vector<int32_t> before(symbols.size()), after(symbols.size());
  struct Pair {
    uint32_t rank;
    int32_t at;
    int64_t left, right;
    bool operator<(const Pair& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  std::priority_queue<Pair> pairs;
  const auto consider = [&](int32_t at) {
    if (at < 0 || after[at] >= count) return;
    if (const Merge* merge = find_merge(symbols[at], symbols[after[at]]))
      pairs.push({merge->rank, at, symbols[at], symbols[after[at]]});
  };
  for (int32_t i = 0; i < count; ++i) {
    before[i] = i - 1;
    after[i] = i + 1;
  }
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!pairs.empty()) {
    const Pair pair = pairs.top();
    pairs.pop();
    const int32_t next = after[pair.at];
    if (symbols[pair.at] != pair.left || next >= count || symbols[next] != pair.right) continue;
    symbols[pair.at] = find_merge(pair.left, pair.right)->token;
    symbols[next] = -1;
    after[pair.at] = after[next];
    if (after[next] < count) before[after[next]] = pair.at;
    consider(before[pair.at]);
    consider(pair.at);
  }
  for (const int64_t symbol : symbols)
    if (symbol >= 0) tokens.push_back(symbol);
}

}  // namespace emblem
