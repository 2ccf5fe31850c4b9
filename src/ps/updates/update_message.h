// ps/updates/update_message.h - a batch of rows as HPS puts it into a Kafka message: u32 "HCTR",
// u32 bytes of a row, then key and row, again and again. Emblem's messages have a checksum in a
// header, which HPS ignores; HPS's have none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emblem {

struct UpdateRows {
  std::vector<int64_t> keys;
  std::vector<float> rows;  // [keys, dim]
  int64_t dim = 0;
};

// `key_bytes` is 4 or 8. Throws kCorruption for what is not such a message; one without rows is
// one.
UpdateRows parse_update_message(std::string_view message, size_t key_bytes);

std::string make_update_message(std::span<const int64_t> keys, std::span<const float> rows,
                                int64_t dim, size_t key_bytes);

// The header of a message and its value, 16 hexadecimal digits of core/math/checksum.h.
inline constexpr const char* kUpdateChecksumHeader = "emblem-checksum";
std::string update_checksum(std::string_view message);
// Throws kCorruption unless `checksum`, the value of the header, is that of the message.
void check_update_checksum(std::string_view message, std::string_view checksum);

}  // namespace emblem
