#include "data/feature/fg/tokens/pre_tokenizer.h"

#include "data/feature/fg/tokens/unicode.h"

namespace emblem {
namespace {

enum class Kind { kSpace, kLetter, kNumber, kOther };

Kind kind_of(uint32_t c) {
  if (is_white_space(c)) return Kind::kSpace;
  if (is_letter(c)) return Kind::kLetter;
  return is_numeric(c) ? Kind::kNumber : Kind::kOther;
}

// Words of characters [begin, end), which are bytes of `text`.
class WordList {
 public:
  explicit WordList(std::string_view text) : text_(text), characters_(characters_of(text)) {}

  size_t size() const { return characters_.size(); }
  uint32_t operator[](size_t i) const { return characters_[i].code; }
  Kind kind(size_t i) const { return kind_of(characters_[i].code); }
  // The first character from `begin` on that is of another kind.
  size_t end_of_kind(size_t begin) const {
    size_t end = begin + 1;
    while (end < size() && kind(end) == kind(begin)) ++end;
    return end;
  }
  void add(size_t begin, size_t end) {
    const size_t first = characters_[begin].begin;
    words_.push_back(text_.substr(first, characters_[end - 1].end - first));
  }
  std::vector<std::string_view> take() { return std::move(words_); }

 private:
  std::string_view text_;
  std::vector<Character> characters_;
  std::vector<std::string_view> words_;
};

// The length of 's, 't, 're, 've, 'm, 'll or 'd at `begin`; 0 when there is none.
size_t contraction_length(const WordList& text, size_t begin) {
  if (text[begin] != '\'' || begin + 1 == text.size()) return 0;
  const uint32_t a = text[begin + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  const uint32_t b = begin + 2 < text.size() ? text[begin + 2] : 0;
  const bool is_long = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  return is_long ? 3 : 0;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?letters| ?numbers| ?others|spaces before a space|spaces
void cut_byte_level(WordList& text) {
  for (size_t at = 0; at < text.size();) {
    if (const size_t length = contraction_length(text, at); length > 0) {
      text.add(at, at + length);
      at += length;
      continue;
    }
    if (text.kind(at) != Kind::kSpace) {
      const size_t end = text.end_of_kind(at);
      text.add(at, end);
      at = end;
      continue;
    }
    // The last of several spaces goes with the word after it, when it is a plain space.
    const size_t spaces_end = text.end_of_kind(at);
    if (spaces_end == text.size()) {
      text.add(at, spaces_end);
      return;
    }
    const size_t last = spaces_end - 1;
    if (last > at) text.add(at, last);
    size_t begin = last;
    if (text[last] != ' ') {
      text.add(last, spaces_end);
      begin = spaces_end;
    }
    if (begin == last) {
      const size_t end = text.end_of_kind(spaces_end);
      text.add(begin, end);
      begin = end;
    }
    at = begin;
  }
}

void cut_at_spaces(WordList& text, PreTokenizer how) {
  const auto is_word = [&](size_t i) { return text.kind(i) != Kind::kOther || text[i] == '_'; };
  for (size_t at = 0; at < text.size();) {
    if (text.kind(at) == Kind::kSpace) {
      ++at;
      continue;
    }
    size_t end = at + 1;
    while (end < text.size() && text.kind(end) != Kind::kSpace &&
           (how == PreTokenizer::kWhitespaceSplit || is_word(end) == is_word(at)))
      ++end;
    text.add(at, end);
    at = end;
  }
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view text, PreTokenizer how) {
  if (text.empty()) return {};
  if (how == PreTokenizer::kNone) return {text};
  WordList words(text);
  if (how == PreTokenizer::kByteLevel)
    cut_byte_level(words);
  else
    cut_at_spaces(words, how);
  return words.take();
}

}  // namespace emblem
