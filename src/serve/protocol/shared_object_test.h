// serve/protocol/shared_object_test.h - an object of shared memory that goes away with the test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>

namespace emblem {

class SharedObject {
 public:
  explicit SharedObject(size_t bytes)
      : key_("/emblem_test_" + std::to_string(getpid()) + "_" + std::to_string(next_++)),
        fd_(shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)),
        size_(bytes) {
    EXPECT_GE(fd_, 0);
    resize(bytes);
    base_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    EXPECT_NE(base_, MAP_FAILED);
  }
  ~SharedObject() {
    munmap(base_, size_);
    close(fd_);
    shm_unlink(key_.c_str());
  }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  const std::string& key() const { return key_; }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), size_}; }
  void resize(size_t bytes) { EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0); }

 private:
  static inline int next_ = 0;
  std::string key_;
  int fd_;
  size_t size_;
  void* base_ = nullptr;
};

}  // namespace emblem
