// core/files/file_descriptor.h - a file descriptor that is closed with its owner, so that no error
// path leaks one.
#pragma once

#include <unistd.h>

#include <utility>

namespace emblem {

class FileDescriptor {
 public:
  explicit FileDescriptor(int value) : value_(value) {}  // negative: none
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : value_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }
  void close() {
    if (value_ >= 0) ::close(release());
  }

 private:
  int value_;
};

}  // namespace emblem
