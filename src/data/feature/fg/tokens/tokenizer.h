// data/feature/fg/tokens/tokenizer.h - the tokens of a text by a tokenizer.json of Hugging Face.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/math/hidden_hash.h"
#include "data/feature/fg/tokens/bpe.h"
#include "data/feature/fg/tokens/pre_tokenizer.h"

namespace emblem {

// Its model is BPE, its pre-tokenizer ByteLevel, Whitespace, WhitespaceSplit or none. Of its
// normalizers Lowercase (of ASCII) is applied, and NFC is taken for done: text is expected to be
// composed. Special tokens are found in texts; none are added.
//
// Made once; encode may run concurrently.
class Tokenizer {
 public:
  // Throws Error that names the file: it cannot be read, or has parts that are not supported.
  explicit Tokenizer(const std::string& file);

  // Words and their tokens, kept by the caller between texts that have words in common.
  using Cache = std::unordered_map<std::string, std::vector<int64_t>, HiddenHash>;

  // Appends the tokens of `text`.
  void encode(std::string_view text, Cache& cache, std::vector<int64_t>& tokens) const;

 private:
  struct AddedToken {
    std::string text;
    int64_t token = 0;
  };
  struct File;

  explicit Tokenizer(const File& file);
  void encode_plain(std::string_view text, Cache& cache, std::vector<int64_t>& tokens) const;
  const AddedToken* added_token_at(std::string_view text) const;

  PreTokenizer pre_tokenizer_ = PreTokenizer::kNone;
  bool lowercase_ = false;
  bool add_prefix_space_ = false;
  std::vector<AddedToken> added_tokens_;  // longest first
  bool starts_added_token_[256] = {};
  std::unique_ptr<Bpe> model_;
};

}  // namespace emblem
