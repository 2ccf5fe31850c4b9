#include "serve/protocol/encoding/json_writer.h"

#include <cmath>
#include <cstdint>

#include "core/text/utf8.h"

namespace emblem {
namespace {

void append_control(std::string& out, char c) {
  constexpr char kHex[] = "0123456789abcdef";
  switch (c) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
  }
}

template <class Float>
void append_float(std::string& out, Float value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  char digits[40];
  const auto [end, error] = std::to_chars(digits, digits + sizeof(digits), value);
  out.append(digits, end);
}

}  // namespace

bool append_json_string(std::string& out, std::string_view text) {
  bool clean = true;
  out += '"';
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
      ++at;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      append_control(out, c);
      ++at;
    } else if (const size_t length = utf8_length(text.substr(at)); length > 0) {
      out.append(text, at, length);
      at += length;
    } else {
      out += "\xEF\xBF\xBD";
      clean = false;
      ++at;
    }
  }
  out += '"';
  return clean;
}

void append_json_number(std::string& out, double value) { append_float(out, value); }
void append_json_number(std::string& out, float value) { append_float(out, value); }

}  // namespace emblem
