// bench/load/memory.h - shared memory that a load test shares with the server.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/load/target.h"

namespace emblem {

// A shared memory object, registered with the server during its lifetime. It is unlinked once the
// server has mapped it, so that nothing remains if this process is killed.
class LoadRegion {
 public:
  // `target` must outlive the region.
  LoadRegion(LoadTarget& target, const std::string& purpose, size_t bytes);
  ~LoadRegion();
  LoadRegion(const LoadRegion&) = delete;
  LoadRegion& operator=(const LoadRegion&) = delete;

  // Call after all bytes that the server reads are written.
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

// Copies all inputs into one region and makes the requests refer to it.
std::unique_ptr<LoadRegion> move_to_region(LoadTarget& target, std::vector<LoadRequest>& requests);

}  // namespace emblem
