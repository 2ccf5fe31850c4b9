// data/source/objects/md5.h - MD5 (RFC 1321), by which stores say what content an object has. It
// finds damage, not forgery.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace emblem {

class Md5 {
 public:
  void add(const void* data, size_t bytes);
  // MD5 of all that was added; nothing can be added after it.
  std::array<uint8_t, 16> digest();
  std::string hex();  // the same as 32 hexadecimal digits

 private:
  void add_block(const uint8_t* block);

  std::array<uint32_t, 4> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  std::array<uint8_t, 64> rest_{};  // bytes of a block that is not full
  uint64_t bytes_ = 0;
};

// The MD5 that an ETag of S3 is, in quotes or without: 32 digits for an object that was written by
// one request; for one that was uploaded in parts their number, too ("DIGITS-12",
// data/source/objects/content_md5.h). "" for other ETags: weak ones, of other servers.
std::string md5_of_etag(std::string_view etag);

// MD5 of 16 bytes in base64, as GCS and Content-MD5 have it; "" for other texts.
std::string md5_of_base64(std::string_view text);

}  // namespace emblem
