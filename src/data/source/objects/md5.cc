#include "data/source/objects/md5.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>

namespace emblem {
namespace {

// The first 32 bits of the fraction of |sin(1)|, |sin(2)|, ...
const std::array<uint32_t, 64>& sines() {
  static const std::array<uint32_t, 64> table = [] {
    std::array<uint32_t, 64> made{};
    for (size_t i = 0; i < made.size(); ++i)
      made[i] = static_cast<uint32_t>(std::floor(std::ldexp(std::fabs(std::sin(i + 1.0)), 32)));
    return made;
  }();
  return table;
}

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr int kTurns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

uint32_t word_at(const uint8_t* bytes) {
  return uint32_t{bytes[0]} | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 |
         uint32_t{bytes[3]} << 24;
}

// What round `round` mixes: which bits of the three words count, and which word of the block is
// taken.
struct Mixed {
  uint32_t bits;
  size_t word;
};
Mixed mix(size_t round, size_t i, uint32_t b, uint32_t c, uint32_t d) {
  switch (round) {
    case 0:
      return {d ^ (b & (c ^ d)), i};
    case 1:
      return {c ^ (d & (b ^ c)), (5 * i + 1) % 16};
    case 2:
      return {b ^ c ^ d, (3 * i + 5) % 16};
    default:
      return {c ^ (b | ~d), 7 * i % 16};
  }
}

}  // namespace

void Md5::add_block(const uint8_t* block) {
  uint32_t words[16];
  for (size_t i = 0; i < 16; ++i) words[i] = word_at(block + 4 * i);
  const auto& table = sines();
  auto [a, b, c, d] = state_;
  for (size_t i = 0; i < 64; ++i) {
    const size_t round = i / 16;
    const Mixed mixed = mix(round, i, b, c, d);
    const uint32_t sum = a + mixed.bits + table[i] + words[mixed.word];
    a = d;
    d = c;
    c = b;
    b += std::rotl(sum, kTurns[round][i % 4]);
  }
  state_[0] += a;
  state_[1] += b;
  state_[2] += c;
  state_[3] += d;
}

void Md5::add(const void* data, size_t bytes) {
  const auto* at = static_cast<const uint8_t*>(data);
  const size_t held = bytes_ % rest_.size();
  bytes_ += bytes;
  if (held > 0) {
    const size_t taken = std::min(bytes, rest_.size() - held);
    std::memcpy(rest_.data() + held, at, taken);
    at += taken;
    bytes -= taken;
    if (held + taken < rest_.size()) return;
    add_block(rest_.data());
  }
  for (; bytes >= rest_.size(); at += rest_.size(), bytes -= rest_.size()) add_block(at);
  if (bytes > 0) std::memcpy(rest_.data(), at, bytes);
}

std::array<uint8_t, 16> Md5::digest() {
  const uint64_t bits = bytes_ * 8;
  const uint8_t one = 0x80, zero = 0;
  add(&one, 1);
  while (bytes_ % rest_.size() != rest_.size() - sizeof bits) add(&zero, 1);
  uint8_t length[sizeof bits];
  for (size_t i = 0; i < sizeof bits; ++i) length[i] = static_cast<uint8_t>(bits >> (8 * i));
  add(length, sizeof length);
  std::array<uint8_t, 16> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(state_[i / 4] >> (8 * (i % 4)));
  return bytes;
}

std::string Md5::hex() {
  std::string text;
  for (const uint8_t byte : digest()) {
    text += kHexDigits[byte >> 4];
    text += kHexDigits[byte & 15];
  }
  return text;
}

std::string md5_of_etag(std::string_view etag) {
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"'))
    etag = etag.substr(1, etag.size() - 2);
  constexpr size_t kDigits = 32, kMostDigitsOfParts = 5;
  if (etag.size() < kDigits || etag.size() > kDigits + 1 + kMostDigitsOfParts) return "";
  std::string digits(etag.substr(0, kDigits));
  for (char& c : digits) {
    if (!std::isxdigit(static_cast<unsigned char>(c))) return "";
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  const std::string_view parts = etag.substr(kDigits);
  if (parts.empty()) return digits;
  const bool is_number = parts.size() > 1 && parts[0] == '-' && parts[1] != '0' &&
                         parts.find_first_not_of("0123456789", 1) == parts.npos;
  return is_number ? digits.append(parts) : "";
}

std::string md5_of_base64(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() != 24 || !text.ends_with("==")) return "";
  std::string digits;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text.substr(0, 22)) {
    const size_t value = kLetters.find(c);
    if (value == kLetters.npos) return "";
    bits = bits << 6 | static_cast<uint32_t>(value);
    for (held += 6; held >= 4 && digits.size() < 32; held -= 4)
      digits += kHexDigits[bits >> (held - 4) & 15];
  }
  return digits;
}

}  // namespace emblem
