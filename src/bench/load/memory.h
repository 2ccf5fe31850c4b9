// bench/load/memory.h - shared memory that a load test lends to the server.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/load/target.h"

namespace emblem {

// An object of shared memory, registered with the server for as long as this lives. Its name is
// gone from the system once the server has mapped it, so that nothing stays behind whatever
// happens.
class LoadRegion {
 public:
  // `target` must outlive the region.
  LoadRegion(LoadTarget& target, const std::string& purpose, size_t bytes);
  ~LoadRegion();
  LoadRegion(const LoadRegion&) = delete;
  LoadRegion& operator=(const LoadRegion&) = delete;

  // After all bytes are written that the server is to find.
  void register_with_server();

  const std::string& name() const { return name_; }
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  LoadTarget& target_;
  std::string name_, key_;
  size_t size_;
  std::byte* data_ = nullptr;
  bool registered_ = false;
};

// Copies all inputs into one region and makes the requests name their parts.
std::unique_ptr<LoadRegion> move_to_region(LoadTarget& target, std::vector<LoadRequest>& requests);

}  // namespace emblem
