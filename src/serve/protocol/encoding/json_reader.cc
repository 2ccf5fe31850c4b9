#include "serve/protocol/encoding/json_reader.h"

#include <charconv>

#include "core/text/text.h"
#include "core/text/utf8.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr int kDeepest = 32;

constexpr size_t kLongestNumber = 1024;

}  // namespace

void JsonReader::fail(std::string_view expected) const {
  std::string found = "the end";
  if (at_ < text_.size()) {
    const char c = text_[at_];
    found = c >= 0x20 && c < 0x7F ? cat('\'', c, '\'')
                                  : cat("byte ", static_cast<int>(static_cast<unsigned char>(c)));
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("JSON: expected ", expected, " at byte ", at_, ", found ", found));
}

void JsonReader::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
}

bool JsonReader::take(char c) {
  skip_space();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonReader::expect(char c, std::string_view expected) {
  if (!take(c)) fail(expected);
}

bool JsonReader::take_word(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) return false;
  at_ += word.size();
  return true;
}

void JsonReader::enter(char open, std::string_view expected) {
  expect(open, expected);
  if (++depth_ > kDeepest) fail("at most 32 levels of nesting");
}

JsonReader::Kind JsonReader::kind() {
  skip_space();
  if (at_ >= text_.size()) fail("a value");
  switch (text_[at_]) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
    case 'f':
      return Kind::kBool;
    case 'n':
      return Kind::kNull;
    case '-':
    case 'N':
    case 'I':
      return Kind::kNumber;
    default:
      if (!is_digit(text_[at_])) fail("a value");
      return Kind::kNumber;
  }
}

std::string JsonReader::string(size_t most) {
  std::string text;
  skip_space();
  string_pieces([&](std::string_view piece) {
    if (piece.size() > most - text.size()) fail(cat("a string of at most ", most, " bytes"));
    text.append(piece);
  });
  return text;
}

void JsonReader::string_to(std::vector<std::byte>& bytes) {
  skip_space();
  string_pieces([&](std::string_view piece) {
    const auto some = std::as_bytes(std::span(piece));
    bytes.insert(bytes.end(), some.begin(), some.end());
  });
}

void JsonReader::name_into(std::string& name) {
  name.clear();
  string_pieces([&](std::string_view piece) {
    if (piece.size() > kMostTextBytes - name.size()) fail("a shorter name of a member");
    name.append(piece);
  });
}

template <class Put>
void JsonReader::string_pieces(Put&& put) {
  if (at_ >= text_.size() || text_[at_] != '"') fail("a string");
  ++at_;
  for (;;) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20)
      ++at_;
    put(text_.substr(begin, at_ - begin));
    if (at_ >= text_.size()) fail("the end of a string");
    if (text_[at_] == '"') break;
    if (text_[at_] != '\\') fail("no control character in a string");
    ++at_;
    escape(put);
  }
  ++at_;
}

template <class Put>
void JsonReader::escape(Put&& put) {
  if (at_ >= text_.size()) fail("an escaped character");
  const char c = text_[at_++];
  static constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (const size_t at = kEscapes.find(c); at != std::string_view::npos)
    return put(kMeanings.substr(at, 1));
  if (c != 'u') {
    --at_;
    fail("a known escape");
  }
  uint32_t point = hex4();
  if (point >= 0xDC00 && point < 0xE000) fail("the first half of a surrogate pair before");
  if (point >= 0xD800 && point < 0xDC00) {
    if (!take_word("\\u")) fail("the second half of a surrogate pair");
    const uint32_t low = hex4();
    if (low < 0xDC00 || low >= 0xE000) fail("the second half of a surrogate pair before");
    point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
  }
  char text[4];
  put(std::string_view(text, write_utf8(point, text)));
}

uint32_t JsonReader::hex4() {
  uint32_t value = 0;
  const std::string_view digits = text_.substr(at_, 4);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4)
    fail("four hexadecimal digits");
  at_ += 4;
  return value;
}

bool JsonReader::boolean() {
  skip_space();
  if (take_word("true")) return true;
  if (take_word("false")) return false;
  fail("true or false");
}

std::string_view JsonReader::number() {
  skip_space();
  const size_t begin = at_;
  const auto take_now = [&](char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  };
  const auto take_digits = [&] {
    if (at_ >= text_.size() || !is_digit(text_[at_])) fail("a digit");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  const bool negative = take_now('-');
  if (at_ < text_.size() && !is_digit(text_[at_])) {
    if (!take_word("Infinity") && (negative || !take_word("NaN"))) fail("a number");
    return text_.substr(begin, at_ - begin);
  }
  if (!take_now('0')) take_digits();
  if (take_now('.')) take_digits();
  if (take_now('e') || take_now('E')) {
    if (!take_now('+')) take_now('-');
    take_digits();
  }
  if (at_ - begin > kLongestNumber) fail("a number of at most 1024 characters before");
  return text_.substr(begin, at_ - begin);
}

int64_t JsonReader::int64() {
  const std::string_view digits = number();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  EMBLEM_REQUIRE(error == std::errc() && end == digits.data() + digits.size(), "JSON: ", digits,
                 " before byte ", at_, " is not a 64-bit integer");
  return value;
}

uint64_t JsonReader::uint64() {
  const std::string_view digits = number();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  EMBLEM_REQUIRE(error == std::errc() && end == digits.data() + digits.size(), "JSON: ", digits,
                 " before byte ", at_, " is not an unsigned 64-bit integer");
  return value;
}

void JsonReader::skip() {
  switch (kind()) {
    case Kind::kObject:
      return object([&](std::string_view) { skip(); });
    case Kind::kArray:
      return array([&] { skip(); });
    case Kind::kString:
      return string_pieces([](std::string_view) {});
    case Kind::kNumber:
      number();
      return;
    case Kind::kBool:
      boolean();
      return;
    case Kind::kNull:
      if (!take_word("null")) fail("null");
  }
}

std::string_view JsonReader::raw() {
  skip_space();
  const size_t begin = at_;
  skip();
  return text_.substr(begin, at_ - begin);
}

void JsonReader::end() {
  skip_space();
  if (at_ != text_.size()) fail("nothing after the value");
}

}  // namespace emblem
