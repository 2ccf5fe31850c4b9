// serve/protocol/encoding/json_writer.h - writes JSON front to back into one string, putting the
// commas.
//
//   JsonWriter json;
//   json.object([&] { json.key("name").string("dlrm"); json.key("shape").array([&] { ... }); });
//   std::move(json.text())
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <type_traits>

namespace emblem {

// Appends `text` as a JSON string. What is not UTF-8 becomes U+FFFD; false when there was any.
bool append_json_string(std::string& out, std::string_view text);

// Appends the shortest digits that read back as the same number; NaN, Infinity, -Infinity as most
// JSON libraries spell them.
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, float value);
template <class Integer>
requires std::is_integral_v<Integer>
void append_json_number(std::string& out, Integer value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  out.append(digits, end);
}

class JsonWriter {
 public:
  template <class Members>
  void object(Members&& members) {
    comma();
    text_ += '{';
    members();
    text_ += '}';
  }
  template <class Elements>
  void array(Elements&& elements) {
    comma();
    text_ += '[';
    elements();
    text_ += ']';
  }
  JsonWriter& key(std::string_view name) {
    string(name);
    text_ += ':';
    return *this;
  }
  void string(std::string_view value) {
    comma();
    append_json_string(text_, value);
  }
  template <class Number>
  void number(Number value) {
    comma();
    append_json_number(text_, value);
  }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  // A value that is JSON already.
  void raw(std::string_view json) {
    comma();
    text_ += json;
  }

  std::string& text() { return text_; }

 private:
  // Only an opening bracket or a key needs no comma after it, and no finished value ends like one.
  void comma() {
    if (!text_.empty() && text_.back() != '{' && text_.back() != '[' && text_.back() != ':')
      text_ += ',';
  }

  std::string text_;
};

}  // namespace emblem
