// data/feature/fg/tokens/pre_tokenizer.h - a text cut into the words in which a tokenizer merges.
#pragma once

#include <string_view>
#include <vector>

namespace emblem {

enum class PreTokenizer {
  kNone,             // the text is one word
  kByteLevel,        // GPT-2's words: letters, numbers and signs apart, with the space before them
  kWhitespace,       // letters, numbers and "_" together, signs apart
  kWhitespaceSplit,  // whatever is between spaces
};

std::vector<std::string_view> words_of(std::string_view text, PreTokenizer how);

}  // namespace emblem
