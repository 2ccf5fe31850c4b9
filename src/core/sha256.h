// core/sha256.h - SHA-256 (FIPS 180-4) and HMAC (RFC 2104): for proofs of a secret, not for speed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::string_view bytes);
Sha256 hmac_sha256(std::string_view key, std::string_view message);

// From the system's source of random numbers. Throws kUnavailable.
std::string random_bytes(size_t count);
std::string to_hex(std::string_view bytes);

}  // namespace emblem
