#include "serve/grpc/status.h"

#include <charconv>

#include "serve/protocol/status.h"

namespace emblem {
GrpcStatus::GrpcStatus(const Error& error)
    : code(static_cast<GrpcCode>(grpc_status(error.code()))), message(shortened(error.what())) {}

std::string percent_encoded(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte <= 0x7E && c != '%') {
      encoded += c;
    } else {
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15];
    }
  }
  return encoded;
}

std::optional<std::chrono::nanoseconds> parse_grpc_timeout(std::string_view text) {
  using namespace std::chrono;  // NOLINT: the units
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  int64_t count = 0;
  const char* end = text.data() + text.size() - 1;
  const auto [stopped, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || stopped != end || count < 0) return std::nullopt;
  switch (text.back()) {
    case 'H':
      return hours(std::min<int64_t>(count, 1'000'000));  // what nanoseconds can count
    case 'M':
      return minutes(count);
    case 'S':
      return seconds(count);
    case 'm':
      return milliseconds(count);
    case 'u':
      return microseconds(count);
    case 'n':
      return nanoseconds(count);
    default:
      return std::nullopt;
  }
}

}  // namespace emblem
