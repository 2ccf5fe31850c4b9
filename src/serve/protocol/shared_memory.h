// serve/protocol/shared_memory.h - regions of memory that clients register and then name instead of
// sending tensors.
//
// Objects are read and written by system calls and never mapped: what a request is checked for is
// what it is computed from, whatever the client does to the object meanwhile, and an object that
// was truncated is an error of the request.
//
// Thread-safe. A region can be used until the last request that names it is done, even when it is
// unregistered before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "serve/protocol/memory_budget.h"

namespace emblem {

struct SharedMemoryOptions {
  // Objects whose names begin with one of these may be registered; "" allows all, an empty list
  // none. Slashes at the beginning of names and prefixes do not count.
  std::vector<std::string> allowed_prefixes;
  size_t max_regions = 256;                        // each holds a file descriptor
  uint64_t max_bytes = uint64_t{64} << 30;         // limit of all regions
  uint64_t max_tensor_bytes = uint64_t{64} << 20;  // limit of one input
  MemoryBudget* memory = nullptr;                  // copies of inputs are taken from it
};

struct SystemRegion {
  std::string name;
  std::string key;  // key for shm_open
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Memory of a GPU.
struct CudaSharedRegion {
  std::string name;
  std::string handle;  // handle from cudaIpcGetMemHandle
  int64_t device = 0;
  uint64_t bytes = 0;
};

namespace cuda {
class CudaRegion;  // serve/protocol/cuda_region.h
}

class SharedMemoryRegions {
  struct SystemObject;

 public:
  // Bytes that were copied out of a region.
  class Copy {
   public:
    std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

   private:
    friend class SharedMemoryRegions;
    MemoryBudget::Lease lease_;
    std::unique_ptr<std::byte[]> data_;
    size_t size_ = 0;
  };

  // Where an output is to be written.
  class Part {
   public:
    uint64_t size() const { return size_; }
    // Writes `from`, which must not be longer than the part, to its beginning. Throws
    // kInvalidArgument when the object has shrunk since it was registered or cannot be written.
    void write(std::span<const std::byte> from) const;

   private:
    friend class SharedMemoryRegions;
    void read(std::span<std::byte> to) const;

    std::shared_ptr<const SystemObject> object_;  // one of the two
    std::shared_ptr<const cuda::CudaRegion> device_;
    uint64_t offset_ = 0, size_ = 0;
  };

  explicit SharedMemoryRegions(SharedMemoryOptions options);
  SharedMemoryRegions() : SharedMemoryRegions(SharedMemoryOptions{}) {}  // allows none
  ~SharedMemoryRegions();

  // Throws kPermissionDenied when the object's name is not allowed, kUnavailable beyond max_regions
  // or max_bytes, and kInvalidArgument when the region's name is taken or the object does not exist
  // or is too small for [offset, offset + bytes).
  void register_system(const SystemRegion& region);
  // Nothing happens to names that are not registered; empty: all regions.
  void unregister_system(const std::string& name);
  // `name` empty: all. Throws kNotFound for an unknown name.
  std::vector<SystemRegion> system_status(const std::string& name) const;

  // The same of regions in the memory of a GPU. Throws kUnsupported in a build without CUDA.
  void register_cuda(const CudaSharedRegion& region);
  void unregister_cuda(const std::string& name);
  std::vector<CudaSharedRegion> cuda_status(const std::string& name) const;

  // Copies [offset, offset + bytes) of a region, for an input. Throws kInvalidArgument when the
  // region is unknown or too small, or when its object has shrunk; kUnavailable when the memory
  // budget is used up.
  Copy read(const std::string& name, uint64_t offset, uint64_t bytes) const;
  // [offset, offset + bytes) of a region, for an output. Throws kInvalidArgument.
  Part part(const std::string& name, uint64_t offset, uint64_t bytes) const;

 private:
  struct CudaMapping {
    CudaSharedRegion region;
    std::shared_ptr<const cuda::CudaRegion> memory;
  };
  void require_allowed(const std::string& region, const std::string& object) const;
  // Called with mutex_ held.
  void require_room(const std::string& name, uint64_t bytes) const;

  const SharedMemoryOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const SystemObject>> objects_;
  std::vector<CudaMapping> cuda_mappings_;
};

}  // namespace emblem
