#include "serve/http/message/chunked_reader.h"

#include <algorithm>
#include <charconv>

#include "emblem/error.h"
#include "serve/http/message/request_head.h"

namespace emblem {
namespace {

constexpr size_t kMaxSizeDigits = 16;

std::string_view skip_blanks(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  return text;
}

// Each removes what it names from the front of `text`; false: it is not there.
bool take_token(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && is_http_token(text.substr(end, 1))) ++end;
  text.remove_prefix(end);
  return end > 0;
}
bool take_quoted(std::string_view& text) {
  if (!text.starts_with('"')) return false;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
    if (text[i] == '\\') ++i;
  }
  return false;
}

// *( ";" name [ "=" value ] ), with blanks around the signs.
bool are_extensions(std::string_view text) {
  while (!text.empty()) {
    text = skip_blanks(text);
    if (!text.starts_with(';')) return false;
    text = skip_blanks(text.substr(1));
    if (!take_token(text)) return false;
    const std::string_view after = skip_blanks(text);
    if (!after.starts_with('=')) continue;
    text = skip_blanks(after.substr(1));
    if (!take_token(text) && !take_quoted(text)) return false;
  }
  return true;
}

}  // namespace

// Used bytes, or 0 when the line has no end yet.
size_t HttpChunkedReader::read_line(std::string_view input, std::string_view& line) {
  const size_t end = input.find('\n');
  const size_t bytes = end == std::string_view::npos ? input.size() : end + 1;
  EMBLEM_REQUIRE(bytes <= extra_left_ + kMaxSizeDigits + 2,
                 "malformed chunks: the extensions and trailers of the body are too long");
  if (end == std::string_view::npos) return 0;
  EMBLEM_REQUIRE(end > 0 && input[end - 1] == '\r',
                 "malformed chunks: a line does not end with CR LF");
  line = input.substr(0, end - 1);
  return bytes;
}

void HttpChunkedReader::read_size(std::string_view line) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
  const size_t digits = static_cast<size_t>(end - line.data());
  EMBLEM_REQUIRE(error == std::errc() && digits <= kMaxSizeDigits,
                 "malformed chunks: the size of a chunk is not a hexadecimal number");
  const std::string_view extensions = line.substr(digits);
  EMBLEM_REQUIRE(extensions.size() <= extra_left_,
                 "malformed chunks: the extensions and trailers of the body are too long");
  extra_left_ -= extensions.size();
  // A control character could end the line for another reader.
  EMBLEM_REQUIRE(is_http_text(extensions) && are_extensions(extensions),
                 "malformed chunks: what follows the size of a chunk is not an extension");
  state_ = left_ > 0 ? State::kData : State::kTrailer;
}

HttpChunkedReader::Part HttpChunkedReader::read(std::string_view input) {
  Part part;
  for (;;) {
    const std::string_view rest = input.substr(part.used);
    std::string_view line;
    switch (state_) {
      case State::kSize:
        if (const size_t used = read_line(rest, line)) {
          part.used += used;
          read_size(line);
          continue;
        }
        return part;
      case State::kData: {
        const size_t bytes = static_cast<size_t>(std::min<uint64_t>(left_, rest.size()));
        if (bytes == 0) return part;
        part.body = rest.substr(0, bytes);
        part.used += bytes;
        left_ -= bytes;
        if (left_ == 0) state_ = State::kDataEnd;
        return part;
      }
      case State::kDataEnd:
        EMBLEM_REQUIRE(std::string_view("\r\n").starts_with(rest.substr(0, 2)),
                       "malformed chunks: a chunk is longer than its size");
        if (rest.size() < 2) return part;
        part.used += 2;
        state_ = State::kSize;
        continue;
      case State::kTrailer: {
        const size_t used = read_line(rest, line);
        if (used == 0) return part;
        part.used += used;
        if (line.empty()) {
          state_ = State::kDone;
          return part;
        }
        parse_http_field(line);
        EMBLEM_REQUIRE(used <= extra_left_,
                       "malformed chunks: the extensions and trailers of the body are too long");
        extra_left_ -= used;
        continue;
      }
      case State::kDone:
        return part;
    }
  }
}

}  // namespace emblem
