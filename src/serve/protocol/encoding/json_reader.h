// serve/protocol/encoding/json_reader.h - reads JSON front to back without building a tree, so that
// arrays of millions of numbers cost no more than their values.
//
// A reader stands before a value. `object`, `array`, `string`, ... consume that value and throw
// kInvalidArgument, with the byte offset, when it is something else or malformed:
//
//   reader.object([&](std::string_view key) {
//     if (key == "shape") reader.array([&] { shape.push_back(reader.int64()); });
//     else reader.skip();
//   });
//   reader.end();
//
// NaN, Infinity and -Infinity are taken as numbers, as most JSON libraries write them. The text
// must outlive the reader. Refused are nesting deeper than 32, names of members of more than
// kMostTextBytes and numbers of more than 1024 characters: what a reader allocates is bounded by
// what its caller asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

class JsonReader {
 public:
  enum class Kind { kObject, kArray, kString, kNumber, kBool, kNull };

  static constexpr size_t kMostTextBytes = size_t{64} << 10;

  explicit JsonReader(std::string_view text) : text_(text) {}

  // The kind of the value that comes next.
  Kind kind();

  // Calls member(key) before each member's value, which `member` must consume.
  template <class Member>
  void object(Member&& member);
  // Calls element() before each element, which `element` must consume.
  template <class Element>
  void array(Element&& element);

  // A string of at most `most` bytes; longer ones are refused.
  std::string string(size_t most = kMostTextBytes);
  // Appends the bytes of a string of any length: no more than its text has.
  void string_to(std::vector<std::byte>& bytes);
  bool boolean();
  int64_t int64();
  uint64_t uint64();
  // The digits of a number, as they stand there, checked against JSON's grammar.
  std::string_view number();
  void skip();

  // Consumes the next value and returns its text, to be read later.
  std::string_view raw();
  // Throws unless nothing but white space is left.
  void end();

  size_t position() const { return at_; }
  size_t bytes_left() const { return text_.size() - at_; }
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  void skip_space();
  bool take(char c);  // after white space
  void expect(char c, std::string_view expected);
  bool take_word(std::string_view word);
  // Calls put(std::string_view) for pieces of the string.
  template <class Put>
  void string_pieces(Put&& put);
  template <class Put>
  void escape(Put&& put);
  void name_into(std::string& name);
  uint32_t hex4();
  void enter(char open, std::string_view expected);

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// ---- implementation ----

template <class Member>
void JsonReader::object(Member&& member) {
  enter('{', "an object");
  if (!take('}')) {
    std::string key;
    do {
      skip_space();
      name_into(key);
      expect(':', "':' after the name of a member");
      member(std::string_view(key));
    } while (take(','));
    expect('}', "',' or '}'");
  }
  --depth_;
}

template <class Element>
void JsonReader::array(Element&& element) {
  enter('[', "an array");
  if (!take(']')) {
    do {
      element();
    } while (take(','));
    expect(']', "',' or ']'");
  }
  --depth_;
}

}  // namespace emblem
