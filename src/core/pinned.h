// core/pinned.h - host memory that a GPU reads and writes on its own, at full speed. CUDA builds
// only.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/context.h"
#include "core/stream.h"

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

// A value on its way from device to host memory: other work goes on meanwhile.
template <class T>
class ReadBack {
 public:
  // Enqueues the copy behind the work of the context so far.
  void start(const Context& context, const T* from) {
    copy_async(context, memory_.data(), from, sizeof(T));
    arrived_.record(context.stream);
  }
  // Waits for the last start.
  T get() const {
    arrived_.synchronize();
    T value;
    std::memcpy(&value, memory_.data(), sizeof(T));
    return value;
  }

 private:
  PinnedMemory memory_{sizeof(T)};
  Event arrived_;
};

}  // namespace emblem::cuda
