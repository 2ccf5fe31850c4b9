#include "core/math/checksum.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "emblem/error.h"

namespace emblem {
namespace {

constexpr std::string_view kKey = "\"checksum\": \"";
constexpr size_t kDigits = 16;

// The place of the digits; npos: there are none.
size_t find_digits(const std::string& text) {
  const size_t key = text.find(kKey);
  if (key == std::string::npos || key + kKey.size() + kDigits > text.size())
    return std::string::npos;
  return key + kKey.size();
}

std::string digits_of(std::string text, size_t at) {
  text.replace(at, kDigits, kDigits, '0');
  return checksum_digits(checksum_of(text));
}

static_assert(std::endian::native == std::endian::little, "words are read as they are in memory");

constexpr uint64_t kPrime1 = 0x9e3779b185ebca87ull;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4full;
constexpr uint64_t kPrime3 = 0x165667b19e3779f9ull;
constexpr uint64_t kPrime4 = 0x85ebca77c2b2ae63ull;
constexpr uint64_t kPrime5 = 0x27d4eb2f165667c5ull;
constexpr size_t kStripe = 32;  // one 8-byte word for each lane

template <class Word>
Word read(const unsigned char* at) {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

uint64_t mixed(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

void add_stripe(uint64_t* lanes, const unsigned char* stripe) {
  for (int i = 0; i < 4; ++i) lanes[i] = mixed(lanes[i], read<uint64_t>(stripe + 8 * i));
}

}  // namespace

std::string checksum_digits(uint64_t checksum) {
  char text[kDigits + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(checksum));
  return text;
}

uint64_t parse_checksum_digits(const std::string& text) {
  const bool are_digits =
      text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!are_digits) throw std::invalid_argument(cat("checksum ", text));
  return std::stoull(text, nullptr, 16);
}

std::string no_checksum() { return std::string(kDigits, '0'); }

std::string set_self_checksum(std::string text) {
  const size_t at = find_digits(text);
  EMBLEM_REQUIRE(at != std::string::npos, "checksum: the text has no place for one");
  return text.replace(at, kDigits, digits_of(text, at));
}

bool has_valid_self_checksum(const std::string& text) {
  const size_t at = find_digits(text);
  return at != std::string::npos && text.compare(at, kDigits, digits_of(text, at)) == 0;
}

void Checksum::add(const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  total_bytes_ += bytes;
  if (rest_bytes_ > 0) {
    const size_t taken = std::min(bytes, kStripe - rest_bytes_);
    if (taken > 0) std::memcpy(rest_ + rest_bytes_, at, taken);
    rest_bytes_ += taken;
    at += taken;
    bytes -= taken;
    if (rest_bytes_ < kStripe) return;
    add_stripe(lanes_, rest_);
    rest_bytes_ = 0;
  }
  uint64_t lanes[4] = {lanes_[0], lanes_[1], lanes_[2], lanes_[3]};  // in registers for the loop
  for (; bytes >= kStripe; at += kStripe, bytes -= kStripe) add_stripe(lanes, at);
  std::copy(lanes, lanes + 4, lanes_);
  if (bytes > 0) std::memcpy(rest_, at, bytes);
  rest_bytes_ = bytes;
}

uint64_t Checksum::value() const {
  uint64_t hash = kPrime5;
  if (total_bytes_ >= kStripe) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const uint64_t lane : lanes_) hash = (hash ^ mixed(0, lane)) * kPrime1 + kPrime4;
  }
  hash += total_bytes_;

  const unsigned char* at = rest_;
  const unsigned char* end = rest_ + rest_bytes_;
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ mixed(0, read<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  if (end - at >= 4) {
    hash = std::rotl(hash ^ (read<uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at < end; ++at) hash = std::rotl(hash ^ (*at * kPrime5), 11) * kPrime1;

  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace emblem
