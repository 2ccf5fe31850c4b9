// embedding/transfer/mapped_memory.h - host memory for rows, which the GPU reads and writes on its
// own. CUDA builds only.
#pragma once

#include <cstdint>
#include <string>

namespace emblem::cuda {

class MappedMemory {
 public:
  // `name` stands in front of messages. Throws kOutOfMemory, with what to do.
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
