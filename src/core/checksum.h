// core/checksum.h - a fast 64-bit checksum (XXH64, seed 0) that is fed piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emblem {

class Checksum {
 public:
  void add(const void* data, size_t bytes);
  uint64_t value() const;  // of everything added so far

 private:
  uint64_t lanes_[4] = {0x9e3779b185ebca87ull + 0xc2b2ae3d27d4eb4full, 0xc2b2ae3d27d4eb4full, 0,
                        0ull - 0x9e3779b185ebca87ull};
  unsigned char rest_[32];
  size_t rest_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace emblem
