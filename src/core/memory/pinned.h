// core/memory/pinned.h - host memory that a GPU reads and writes on its own, at full speed. CUDA
// builds only.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory_resource>

#include "core/device/context.h"
#include "core/device/stream.h"

namespace emblem::cuda {

class PinnedMemory {
 public:
  explicit PinnedMemory(size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  size_t bytes_ = 0;
};

// Pinned memory for containers. Every piece is pinned on its own, which takes long: put a BlockPool
// (core/memory/block_pool.h) in front.
class PinnedResource final : public std::pmr::memory_resource {
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* data, size_t bytes, size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

// Values that are copied from device to host memory while other work continues.
template <class T>
class ReadBack {
 public:
  explicit ReadBack(size_t count = 1) : memory_(count * sizeof(T)) {}
  // Enqueues the copy after the work of the context so far.
  void start(const Context& context, const T* from) {
    copy_async(context, memory_.data(), from, memory_.bytes());
    arrived_.record(context.stream);
  }
  // Waits for the last start.
  T get(size_t i = 0) const {
    arrived_.synchronize();
    T value;
    std::memcpy(&value, memory_.data() + i * sizeof(T), sizeof(T));
    return value;
  }

 private:
  PinnedMemory memory_;
  Event arrived_;
};

}  // namespace emblem::cuda
