// core/math/sha256.h - SHA-256 (FIPS 180-4) and HMAC (RFC 2104): for proofs of a secret, not for
// speed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

// Takes the same time wherever texts of one length differ.
inline bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
Sha256 hmac_sha256(std::string_view key, std::string_view message);

// Bytes from the system's source of random numbers. Throws kUnavailable.
std::string random_bytes(size_t count);
std::string to_hex(std::string_view bytes);

}  // namespace emblem
