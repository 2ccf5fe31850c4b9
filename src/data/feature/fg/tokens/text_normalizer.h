// data/feature/fg/tokens/text_normalizer.h - what tokenize features do to texts first.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "config/proto/pipeline.pb.h"

namespace emblem {

// In this order: wide forms become narrow ones (SBC2DBC), case (of ASCII), symbols are removed
// (FILTER), spaces are removed, Chinese characters become words of their own (SPLITCHRS).
class TextNormalizer {
 public:
  // Reads stop_char_file: every character in it is a symbol to remove. `folder` is where it is.
  // Throws Error that names `feature` for TEXT_CHT2CHS, which is not supported.
  TextNormalizer(const config::TextNormalizer& config, const std::string& folder,
                 const std::string& feature);

  // Texts with more than max_length characters stay as they are.
  std::string apply(std::string_view text) const;

 private:
  bool has(config::TextNormalizeOption option) const { return (options_ >> option & 1) != 0; }
  bool is_removed(uint32_t c) const;

  uint32_t options_ = 0;  // a bit each
  uint64_t max_length_ = UINT64_MAX;
  std::unordered_set<uint32_t> stop_characters_;  // empty: punctuation and symbols
};

}  // namespace emblem
