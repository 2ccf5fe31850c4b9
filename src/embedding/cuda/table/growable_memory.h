// embedding/cuda/table/growable_memory.h - device memory that grows in place: addresses are
// reserved once and memory is mapped to them as needed, in granules of 2 MiB. Memory that has all
// it may have from the beginning is a plain allocation, and small ones share granules. New memory
// is zeroed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/memory/buffer.h"

namespace emblem::cuda {

class GrowableMemory {
 public:
  // `name` is for error messages. `most_bytes` is the limit of growth.
  GrowableMemory(std::string name, size_t most_bytes);
  ~GrowableMemory();
  GrowableMemory(const GrowableMemory&) = delete;
  GrowableMemory& operator=(const GrowableMemory&) = delete;

  // Grows to at least `bytes` bytes. Throws kOutOfMemory; the memory is then unchanged.
  void grow_to(const Context& context, size_t bytes);
  char* data() const { return data_; }  // null before
  size_t bytes() const { return bytes_; }

 private:
  void allocate_all(const Context& context);
  void reserve_addresses();

  std::string name_;
  size_t most_bytes_;
  Buffer<char> all_;  // without growth
  char* data_ = nullptr;
  size_t reserved_ = 0;
  size_t granularity_ = 0;
  size_t bytes_ = 0;
  std::vector<unsigned long long> handles_;  // handles of the mapped memory, in order
};

// One line: how much `who` needs and how much is free.
[[noreturn]] void throw_out_of_device_memory(const std::string& who, size_t wanted);

}  // namespace emblem::cuda
