// serve/http2/frame_scanner.h - the types of the frames that a client sends. libnghttp2 says nothing
// of frames of types that it does not know, however many there are.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace emblem {

class FrameScanner {
 public:
  // Bytes as they arrive, from the preface on: calls take(type) for each frame whose head is
  // complete.
  template <class Take>
  void feed(std::span<const std::byte> bytes, Take&& take) {
    while (!bytes.empty()) {
      if (skipped_ > 0) {
        const size_t passed = std::min(skipped_, bytes.size());
        skipped_ -= passed;
        bytes = bytes.subspan(passed);
        continue;
      }
      head_[have_++] = std::to_integer<uint8_t>(bytes.front());
      bytes = bytes.subspan(1);
      if (have_ < kHeadBytes) continue;
      have_ = 0;
      skipped_ = size_t{head_[0]} << 16 | size_t{head_[1]} << 8 | head_[2];
      take(head_[3]);
    }
  }

 private:
  static constexpr size_t kHeadBytes = 9, kPrefaceBytes = 24;

  std::array<uint8_t, kHeadBytes> head_{};
  size_t have_ = 0;                  // bytes of head_
  size_t skipped_ = kPrefaceBytes;  // bytes up to the next head
};

}  // namespace emblem
