// serve/http/message/request_head.h - the head of an HTTP/1 request, read strictly by RFC 9112:
// where two servers could read the same bytes differently, the request is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

struct HttpField {
  std::string_view name, value;  // the value without the whitespace around it
};

struct HttpRequestHead {
  HttpRequestHead() = default;
  HttpRequestHead(const HttpRequestHead&) = delete;  // its views point into its text
  HttpRequestHead& operator=(const HttpRequestHead&) = delete;

  std::string text;
  std::string_view method;
  std::string_view target;  // "/path?query"; the absolute form "http://host/path" is reduced to it
  bool is_http_1_0 = false;
  std::vector<HttpField> fields;
  std::optional<uint64_t> content_length;
  bool is_chunked = false;
  bool keeps_alive = true;

  // The value of the first field of this name, in any case; empty where there is none.
  std::string_view value(std::string_view name) const;
  const HttpField* find(std::string_view name) const;
};

// Finds where a head ends, while its bytes arrive.
class HttpHeadScanner {
 public:
  // `bytes` are all since the head began. The size of the head with its empty line, or 0: more is
  // needed. Throws kInvalidArgument for a byte that no head may contain.
  size_t scan(std::string_view bytes);
  void reset() { *this = HttpHeadScanner(); }

 private:
  size_t at_ = 0;
  size_t line_ = 0;  // where the line at at_ begins
  bool has_line_ = false;
};

// Reads head.text into the other members. Throws kInvalidArgument for everything that is not a
// well-formed request with one Host and one way to find the end of its body.
void parse_request_head(HttpRequestHead& head);

// "Name: value", without the end of the line.
HttpField parse_http_field(std::string_view line);

bool equal_ignoring_case(std::string_view a, std::string_view b);
bool is_http_token(std::string_view text);
// Whether it has no control characters but tabs.
bool is_http_text(std::string_view text);

}  // namespace emblem
