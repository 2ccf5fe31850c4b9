#include "serve/http/message/request_head.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/text/text.h"
#include "emblem/error.h"

namespace emblem {
namespace {

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

enum ByteClass : uint8_t { kText = 1, kToken = 2, kTarget = 4, kHost = 8 };

// What each byte may be part of.
constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> classes{};
  for (size_t i = 0; i < classes.size(); ++i) {
    const char c = static_cast<char>(i);
    const bool is_control = i < 0x20 || i == 0x7F;
    if (!is_control || c == '\t') classes[i] |= kText;
    if (!is_control && c != ' ' && c != '#') classes[i] |= kTarget;
    const bool is_name = is_digit(c) || is_letter(c);
    const auto is_in = [c](std::string_view set) { return set.find(c) != set.npos; };
    if (is_name || is_in("!#$%&'*+-.^_`|~")) classes[i] |= kToken;
    if (is_name || is_in("-._~!$&'()*+,;=")) classes[i] |= kHost;
  }
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = make_classes();

bool is_a(char c, ByteClass wanted) { return kClasses[static_cast<unsigned char>(c)] & wanted; }
bool are_all(std::string_view text, ByteClass wanted) {
  return std::all_of(text.begin(), text.end(), [&](char c) { return is_a(c, wanted); });
}

// host [":" port] of RFC 3986.
bool is_authority(std::string_view text) {
  size_t end = 0;
  if (text.starts_with('[')) {
    end = text.find(']');
    if (end == std::string_view::npos || end < 3) return false;
    const std::string_view address = text.substr(1, end - 1);
    if (!std::all_of(address.begin(), address.end(),
                     [](char c) { return is_hex(c) || c == ':' || c == '.'; }))
      return false;
    ++end;
  } else {
    while (end < text.size() && text[end] != ':') {
      if (text[end] == '%') {
        if (text.size() - end < 3 || !is_hex(text[end + 1]) || !is_hex(text[end + 2])) return false;
        end += 3;
      } else if (is_a(text[end], kHost)) {
        ++end;
      } else {
        return false;
      }
    }
  }
  if (end == 0) return false;
  if (end == text.size()) return true;
  const std::string_view port = text.substr(end + 1);
  return text[end] == ':' && port.size() <= 5 && std::all_of(port.begin(), port.end(), is_digit);
}

std::string_view trim_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// The path of "/path" or "http://host/path".
std::string_view origin_form(std::string_view target) {
  if (target.starts_with('/')) return target;
  const size_t colon = target.find("://");
  const std::string_view scheme = target.substr(0, colon);
  EMBLEM_REQUIRE(colon != std::string_view::npos &&
                     (equal_ignoring_case(scheme, "http") || equal_ignoring_case(scheme, "https")),
                 "the target of the request must be a path that begins with a slash, or an http:// "
                 "address");
  const std::string_view rest = target.substr(colon + 3);
  const size_t slash = rest.find('/');
  EMBLEM_REQUIRE(is_authority(rest.substr(0, slash)),
                 "the address that is the target of the request has no valid host");
  return slash == std::string_view::npos ? std::string_view("/") : rest.substr(slash);
}

void parse_request_line(std::string_view line, HttpRequestHead& head) {
  const size_t first = line.find(' ');
  const size_t second = first == std::string_view::npos ? first : line.find(' ', first + 1);
  EMBLEM_REQUIRE(second != std::string_view::npos,
                 "malformed HTTP: the first line is not METHOD TARGET HTTP/1.1");
  head.method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  EMBLEM_REQUIRE(is_http_token(head.method), "malformed HTTP: the method is not a word");
  EMBLEM_REQUIRE(!target.empty() && are_all(target, kTarget),
                 "malformed HTTP: the target is empty or has a character that must be encoded");
  EMBLEM_REQUIRE(version == "HTTP/1.1" || version == "HTTP/1.0",
                 "malformed HTTP: the first line does not end with HTTP/1.1 or HTTP/1.0");
  head.is_http_1_0 = version == "HTTP/1.0";
  head.target = origin_form(target);
}

// The one field of this name; null: none.
const HttpField* find_single(const HttpRequestHead& head, std::string_view name) {
  const HttpField* found = nullptr;
  for (const HttpField& field : head.fields) {
    if (!equal_ignoring_case(field.name, name)) continue;
    EMBLEM_REQUIRE(found == nullptr, "the request has more than one ", name, " header");
    found = &field;
  }
  return found;
}

void check_host(const HttpRequestHead& head) {
  const HttpField* host = find_single(head, "Host");
  if (host == nullptr) {
    EMBLEM_REQUIRE(head.is_http_1_0, "the request has no Host header");
    return;
  }
  if (head.is_http_1_0 && host->value.empty()) return;
  EMBLEM_REQUIRE(is_authority(host->value),
                 "the Host header is not the name or address of a host, with or without a port");
}

void find_framing(HttpRequestHead& head) {
  const HttpField* length = find_single(head, "Content-Length");
  const HttpField* coding = find_single(head, "Transfer-Encoding");
  if (coding != nullptr) {
    EMBLEM_REQUIRE(!head.is_http_1_0, "HTTP/1.0 has no Transfer-Encoding");
    EMBLEM_REQUIRE(length == nullptr,
                   "the request has both a Content-Length and a Transfer-Encoding");
    EMBLEM_REQUIRE(equal_ignoring_case(coding->value, "chunked"),
                   "the only Transfer-Encoding that is understood is chunked");
    head.is_chunked = true;
  }
  if (length != nullptr) {
    const std::string_view text = length->value;
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    EMBLEM_REQUIRE(error == std::errc() && end == text.data() + text.size(),
                   "Content-Length is not a number of bytes");
    head.content_length = value;
  }
}

void find_persistence(HttpRequestHead& head) {
  head.keeps_alive = !head.is_http_1_0;
  bool closes = false;
  for (const HttpField& field : head.fields) {
    if (!equal_ignoring_case(field.name, "Connection")) continue;
    for (std::string_view rest = field.value;;) {
      const size_t comma = rest.find(',');
      const std::string_view option = trim_blanks(rest.substr(0, comma));
      closes |= equal_ignoring_case(option, "close");
      head.keeps_alive |= equal_ignoring_case(option, "keep-alive");
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  if (closes) head.keeps_alive = false;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool is_http_token(std::string_view text) { return !text.empty() && are_all(text, kToken); }
bool is_http_text(std::string_view text) { return are_all(text, kText); }

const HttpField* HttpRequestHead::find(std::string_view name) const {
  for (const HttpField& field : fields) {
    if (equal_ignoring_case(field.name, name)) return &field;
  }
  return nullptr;
}

std::string_view HttpRequestHead::value(std::string_view name) const {
  const HttpField* field = find(name);
  return field == nullptr ? std::string_view() : field->value;
}

size_t HttpHeadScanner::scan(std::string_view bytes) {
  for (; at_ < bytes.size(); ++at_) {
    const char c = bytes[at_];
    if (is_a(c, kText)) continue;
    EMBLEM_REQUIRE(c == '\r', "malformed HTTP: the head of the request has a control character");
    if (at_ + 1 == bytes.size()) return 0;
    EMBLEM_REQUIRE(bytes[at_ + 1] == '\n', "malformed HTTP: a line does not end with CR LF");
    const bool is_empty = at_ == line_;
    if (is_empty && has_line_) return at_ + 2;
    // Empty lines before the request are skipped: some clients send one after a body.
    has_line_ |= !is_empty;
    ++at_;
    line_ = at_ + 1;
  }
  return 0;
}

HttpField parse_http_field(std::string_view line) {
  const size_t colon = line.find(':');
  // Also a line that begins with a blank, to be read as the end of the one before.
  EMBLEM_REQUIRE(colon != std::string_view::npos && is_http_token(line.substr(0, colon)),
                 "malformed HTTP: a header is not NAME: VALUE");
  const std::string_view value = trim_blanks(line.substr(colon + 1));
  EMBLEM_REQUIRE(is_http_text(value),
                 "malformed HTTP: the value of a header has a control character");
  return {line.substr(0, colon), value};
}

void parse_request_head(HttpRequestHead& head) {
  head.fields.clear();
  head.content_length.reset();
  head.is_chunked = false;
  std::string_view rest = head.text;
  const auto next_line = [&] {
    const size_t end = rest.find("\r\n");
    EMBLEM_REQUIRE(end != std::string_view::npos,
                   "malformed HTTP: the head of the request is cut off");
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    return line;
  };
  std::string_view line = next_line();
  while (line.empty()) line = next_line();
  parse_request_line(line, head);
  while (!(line = next_line()).empty()) head.fields.push_back(parse_http_field(line));
  check_host(head);
  find_framing(head);
  find_persistence(head);
  for (const char* name :
       {"Content-Encoding", "Inference-Header-Content-Length", "Authorization", "Expect"})
    find_single(head, name);
}

}  // namespace emblem
