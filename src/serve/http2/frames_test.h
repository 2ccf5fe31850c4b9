// serve/http2/frames_test.h - HTTP/2 frames as bytes, to test a session with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emblem {

enum FrameType : uint8_t {
  kDataFrame,
  kHeadersFrame,
  kPriorityFrame,
  kRstStreamFrame,
  kSettingsFrame,
  kPushPromiseFrame,
  kPingFrame,
  kGoawayFrame,
  kWindowUpdateFrame,
  kContinuationFrame,
};
inline constexpr uint8_t kEndStream = 1, kEndHeaders = 4, kPadded = 8, kAck = 1;

inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string big_endian(uint32_t value, int bytes = 4) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string frame(FrameType type, uint8_t flags, uint32_t stream,
                         std::string_view payload = {}) {
  std::string text = big_endian(static_cast<uint32_t>(payload.size()), 3);
  text += static_cast<char>(type);
  text += static_cast<char>(flags);
  return text + big_endian(stream) + std::string(payload);
}

// A header of HPACK that is not added to the table.
inline std::string literal(std::string_view name, std::string_view value) {
  const auto length = [](size_t bytes) {
    std::string text;
    if (bytes < 127) return text + static_cast<char>(bytes);
    text += static_cast<char>(127);
    for (bytes -= 127; bytes >= 128; bytes /= 128) text += static_cast<char>(bytes % 128 + 128);
    return text + static_cast<char>(bytes);
  };
  return std::string(1, '\0') + length(name.size()) + std::string(name) + length(value.size()) +
         std::string(value);
}

// The header block of a POST request by gRPC.
inline std::string request_block(
    std::string_view path, const std::vector<std::pair<std::string, std::string>>& more = {}) {
  // Entries of the static table: ":method: POST" and ":scheme: http".
  std::string block = "\x83\x86" + literal(":path", path) + literal(":authority", "test") +
                      literal("content-type", "application/grpc") + literal("te", "trailers");
  for (const auto& [name, value] : more) block += literal(name, value);
  return block;
}

struct Frame {
  FrameType type;
  uint8_t flags;
  uint32_t stream;
  std::string payload;
};

// All of `bytes`, which must be whole frames; what is left over is dropped.
inline std::vector<Frame> split_frames(std::string_view bytes) {
  const auto number = [&](size_t at, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
  };
  std::vector<Frame> frames;
  while (bytes.size() >= 9 && bytes.size() >= 9 + number(0, 3)) {
    const size_t length = number(0, 3);
    frames.push_back({static_cast<FrameType>(bytes[3]), static_cast<uint8_t>(bytes[4]),
                      number(5, 4), std::string(bytes.substr(9, length))});
    bytes.remove_prefix(9 + length);
  }
  return frames;
}

}  // namespace emblem
