// embedding/transfer/mapped_memory.h - pinned host memory for rows, mapped so that kernels read and
// write it directly. CUDA builds only.
#pragma once

#include <cstdint>
#include <string>

namespace emblem::cuda {

class MappedMemory {
 public:
  // `name` begins error messages. Throws kOutOfMemory.
  MappedMemory(const std::string& name, int64_t bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace emblem::cuda
