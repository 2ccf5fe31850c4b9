#include "bench/load/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/log.h"

namespace emblem {
namespace {

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string unique_name(const std::string& purpose) {
  static std::atomic<int> next = 0;
  return cat("emblem_bench_", getpid(), "_", purpose, "_", next++);
}

}  // namespace

LoadRegion::LoadRegion(LoadTarget& target, const std::string& purpose, size_t bytes)
    : target_(target),
      name_(unique_name(purpose)),
      key_("/" + name_),
      size_(std::max<size_t>(bytes, 1)) {
  const int fd = shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  const bool sized = fd >= 0 && ftruncate(fd, static_cast<off_t>(size_)) == 0;
  void* mapped =
      sized ? mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  const std::string problem = std::strerror(errno);
  if (fd >= 0) close(fd);
  if (mapped == MAP_FAILED) {
    shm_unlink(key_.c_str());
    throw Error(ErrorCode::kOutOfMemory,
                cat("cannot create ", size_, " bytes of shared memory: ", problem));
  }
  data_ = static_cast<std::byte*>(mapped);
}

LoadRegion::~LoadRegion() {
  if (!registered_) shm_unlink(key_.c_str());
  munmap(data_, size_);
  if (!registered_) return;
  try {
    target_.unregister_region(name_);
  } catch (const Error& error) {
    log_warn(cat("shared memory region ", name_, " could not be unregistered: ", error.what()));
  }
}

void LoadRegion::register_with_server() {
  target_.register_region({name_, key_, 0, size_});
  registered_ = true;
  shm_unlink(key_.c_str());
}

std::unique_ptr<LoadRegion> move_to_region(LoadTarget& target, std::vector<LoadRequest>& requests) {
  size_t total = 0;
  for (const LoadRequest& request : requests)
    for (const LoadInput& input : request.inputs) total += aligned(input.data.size());
  auto region = std::make_unique<LoadRegion>(target, "in", total);
  size_t at = 0;
  for (LoadRequest& request : requests) {
    for (const LoadInput& input : request.inputs) {
      std::copy(input.data.begin(), input.data.end(), region->bytes().begin() + at);
      request.input_parts.push_back({region->name(), at, input.data.size()});
      at += aligned(input.data.size());
    }
  }
  region->register_with_server();
  return region;
}

}  // namespace emblem
