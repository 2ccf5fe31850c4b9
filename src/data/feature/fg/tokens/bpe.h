// data/feature/fg/tokens/bpe.h - byte pair encoding: the tokens of a word by a list of merges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace emblem {

class Bpe {
 public:
  struct Options {
    bool is_byte_level = false;  // words are bytes, which GPT-2's alphabet stands for
    std::string unknown;         // the token of characters that are not in the vocabulary; "": none
    bool fuse_unknown = false;   // several in a row are one
  };

  // `merges` are in their order. Throws Error when one of its tokens is not in the vocabulary.
  Bpe(std::unordered_map<std::string, int64_t> vocabulary,
      const std::vector<std::pair<std::string, std::string>>& merges, const Options& options);

  // Appends the tokens of `word`.
  void encode(std::string_view word, std::vector<int64_t>& tokens) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    int64_t token = 0;
  };
  struct PairHash {
    size_t operator()(const std::pair<int64_t, int64_t>& pair) const {
      return static_cast<size_t>(pair.first) * 0x9E3779B97F4A7C15ull ^
             static_cast<size_t>(pair.second);
    }
  };

  std::vector<int64_t> symbols_of(std::string_view word) const;
  const Merge* find_merge(int64_t left, int64_t right) const;

  std::unordered_map<std::string, int64_t> vocabulary_;
  std::unordered_map<std::pair<int64_t, int64_t>, Merge, PairHash> merges_;
  std::vector<int64_t> byte_tokens_;  // [256], -1: none
  int64_t unknown_ = -1;
  Options options_;
};

// A token of every byte: printable ones stand for themselves, the others for U+0100 and on.
std::string byte_level_character(uint8_t byte);

}  // namespace emblem
