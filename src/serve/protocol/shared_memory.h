// serve/protocol/shared_memory.h - regions of memory that clients register and then name instead of
// sending tensors.
//
// Thread-safe. A region stays mapped until the last request that uses it is done, even when it is
// unregistered before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace emblem {

struct SystemRegion {
  std::string name;
  std::string key;  // of shm_open
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Memory of a GPU.
struct CudaSharedRegion {
  std::string name;
  std::string handle;  // of cudaIpcGetMemHandle
  int64_t device = 0;
  uint64_t bytes = 0;
};

namespace cuda {
class CudaRegion;  // serve/protocol/cuda_region.h
}

class SharedMemoryRegions {
 public:
  // A part of a region and what keeps it mapped.
  struct Part {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const cuda::CudaRegion> device;  // `bytes` are a copy of a part of it, ...
    uint64_t offset = 0;                             // ... which begins here
  };

  SharedMemoryRegions();
  ~SharedMemoryRegions();

  // Throws kInvalidArgument when the name is taken, the object is not there, or too small for
  // [offset, offset + bytes).
  void register_system(const SystemRegion& region);
  // Nothing happens to names that are not registered; empty: all regions.
  void unregister_system(const std::string& name);
  // `name` empty: all. Throws kNotFound for an unknown name.
  std::vector<SystemRegion> system_status(const std::string& name) const;

  // The same of regions in the memory of a GPU. Throws kUnsupported in a build without CUDA.
  void register_cuda(const CudaSharedRegion& region);
  void unregister_cuda(const std::string& name);
  std::vector<CudaSharedRegion> cuda_status(const std::string& name) const;

  // [offset, offset + bytes) of a region. Throws kInvalidArgument when it is unknown or too small.
  // What is in the memory of a GPU has to be loaded before it is read.
  Part part(const std::string& name, uint64_t offset, uint64_t bytes) const;
  static void load(const Part& part);
  // Writes to the beginning of a part, which is large enough. Throws when its object has
  // shrunk since: touching it would kill the process.
  static void store(const Part& part, std::span<const std::byte> from);

 private:
  struct Mapping;
  struct CudaMapping {
    CudaSharedRegion region;
    std::shared_ptr<const cuda::CudaRegion> memory;
  };
  bool is_taken(const std::string& name) const;  // with mutex_ held

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Mapping>> mappings_;
  std::vector<CudaMapping> cuda_mappings_;
};

}  // namespace emblem
