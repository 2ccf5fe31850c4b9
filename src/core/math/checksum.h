// core/math/checksum.h - a fast 64-bit checksum (XXH64, seed 0) that is fed piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

// ---- JSON text with a checksum of itself: the 16 hexadecimal digits after the first
// "checksum": ", computed while these digits are zeros ----

std::string checksum_digits(uint64_t checksum);
// Throws std::invalid_argument unless the text is 16 hexadecimal digits.
uint64_t parse_checksum_digits(const std::string& text);

// What the text has in place of its checksum before set_self_checksum.
std::string no_checksum();
// Writes the checksum into its place, which the text must have.
std::string set_self_checksum(std::string text);
// Whether the text has the checksum of its content. False without a place for one.
bool has_valid_self_checksum(const std::string& text);

class Checksum {
 public:
  void add(const void* data, size_t bytes);
  uint64_t value() const;  // checksum of everything added so far

 private:
  uint64_t lanes_[4] = {0x9e3779b185ebca87ull + 0xc2b2ae3d27d4eb4full, 0xc2b2ae3d27d4eb4full, 0,
                        0ull - 0x9e3779b185ebca87ull};
  unsigned char rest_[32];
  size_t rest_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

inline uint64_t checksum_of(const void* data, size_t bytes) {
  Checksum checksum;
  checksum.add(data, bytes);
  return checksum.value();
}
inline uint64_t checksum_of(std::string_view bytes) {
  return checksum_of(bytes.data(), bytes.size());
}

}  // namespace emblem
