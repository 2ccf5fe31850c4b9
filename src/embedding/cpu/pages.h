// embedding/cpu/pages.h - large zeroed memory that is committed on first access, in huge pages
// where the system has them: otherwise every read of a random row of a large table would be a TLB
// miss.
#pragma once

#include <cstddef>
#include <utility>

namespace emblem {

class Pages {
 public:
  Pages() = default;
  explicit Pages(size_t bytes);  // aligned to 64 bytes; throws kOutOfMemory
  ~Pages();
  Pages(Pages&& other) noexcept { *this = std::move(other); }
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(mapping_, other.mapping_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    return *this;
  }

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  void* mapping_ = nullptr;  // what munmap wants back; null for small, allocated memory
  size_t bytes_ = 0;
  size_t mapped_bytes_ = 0;
};

}  // namespace emblem
