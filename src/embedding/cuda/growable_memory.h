// embedding/cuda/growable_memory.h - device memory that grows in place: addresses are reserved
// once, memory is put behind them as it is needed. Zero when new.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/context.h"

namespace emblem::cuda {

class GrowableMemory {
 public:
  // `name` is for error messages. `most_bytes` can never be exceeded.
  GrowableMemory(std::string name, size_t most_bytes);
  ~GrowableMemory();
  GrowableMemory(const GrowableMemory&) = delete;
  GrowableMemory& operator=(const GrowableMemory&) = delete;

  // At least that many bytes. Throws kOutOfMemory, and then has what it had.
  void grow_to(const Context& context, size_t bytes);
  char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Piece {
    unsigned long long handle;
    size_t bytes;
  };
  std::string name_;
  char* data_ = nullptr;
  size_t reserved_ = 0;
  size_t granularity_ = 0;
  size_t bytes_ = 0;
  std::vector<Piece> pieces_;
};

// One line: who wanted how much, how much is free.
[[noreturn]] void throw_out_of_device_memory(const std::string& who, size_t wanted);

}  // namespace emblem::cuda
