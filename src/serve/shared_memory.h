// serve/shared_memory.h - regions of memory that clients register and then name instead of sending
// tensors.
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

class SharedMemoryRegions {
 public:
  // A part of a region and what keeps it mapped.
  struct Part {
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;
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

  // [offset, offset + bytes) of a region. Throws kInvalidArgument when it is unknown or too small.
  Part part(const std::string& name, uint64_t offset, uint64_t bytes) const;
  // Throws when the object behind a part has shrunk since: touching it would kill the process.
  static void check(const Part& part);

 private:
  struct Mapping;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Mapping>> mappings_;
};

}  // namespace emblem
