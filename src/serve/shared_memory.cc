#include "serve/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "emblem/error.h"

namespace emblem {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

uint64_t size_of(int fd) {
  struct stat facts {};
  return fstat(fd, &facts) == 0 && facts.st_size > 0 ? static_cast<uint64_t>(facts.st_size) : 0;
}

}  // namespace

struct SharedMemoryRegions::Mapping {
  explicit Mapping(const SystemRegion& described)
      : region(described), file(shm_open(described.key.c_str(), O_RDWR, 0)) {
    EMBLEM_REQUIRE(file.get() >= 0, "shared memory region ", region.name, ": there is no object ",
                   region.key, " that can be opened (", std::strerror(errno), ")");
    EMBLEM_REQUIRE(region.bytes > 0, "shared memory region ", region.name, " has no bytes");
    check_size();
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    skipped = region.offset % page;
    base = mmap(nullptr, skipped + region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                static_cast<off_t>(region.offset - skipped));
    EMBLEM_REQUIRE(base != MAP_FAILED, "shared memory region ", region.name,
                   " cannot be mapped: ", std::strerror(errno));
  }
  ~Mapping() {
    if (base != MAP_FAILED) munmap(base, skipped + region.bytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Touching pages behind the end of a shrunk object would kill the process.
  void check_size() const {
    const uint64_t available = size_of(file.get());
    EMBLEM_REQUIRE(region.offset <= available && region.bytes <= available - region.offset,
                   "shared memory region ", region.name, ": offset ", region.offset, " and ",
                   region.bytes, " bytes do not fit into the ", available, " bytes of ",
                   region.key);
  }

  std::byte* data() const { return static_cast<std::byte*>(base) + skipped; }

  const SystemRegion region;
  FileDescriptor file;
  uint64_t skipped = 0;  // from the page that the region begins in
  void* base = MAP_FAILED;
};

SharedMemoryRegions::SharedMemoryRegions() = default;
SharedMemoryRegions::~SharedMemoryRegions() = default;

void SharedMemoryRegions::register_system(const SystemRegion& region) {
  EMBLEM_REQUIRE(!region.name.empty(), "a shared memory region needs a name");
  const auto mapping = std::make_shared<const Mapping>(region);
  std::lock_guard lock(mutex_);
  const bool taken = std::any_of(mappings_.begin(), mappings_.end(),
                                 [&](const auto& m) { return m->region.name == region.name; });
  EMBLEM_REQUIRE(!taken, "shared memory region ", region.name,
                 " is registered already; unregister it first");
  mappings_.push_back(mapping);
}

void SharedMemoryRegions::unregister_system(const std::string& name) {
  std::lock_guard lock(mutex_);
  std::erase_if(mappings_, [&](const auto& m) { return name.empty() || m->region.name == name; });
}

std::vector<SystemRegion> SharedMemoryRegions::system_status(const std::string& name) const {
  std::vector<SystemRegion> regions;
  {
    std::lock_guard lock(mutex_);
    for (const auto& mapping : mappings_) {
      if (name.empty() || mapping->region.name == name) regions.push_back(mapping->region);
    }
  }
  if (regions.empty() && !name.empty())
    throw Error(ErrorCode::kNotFound, cat("there is no shared memory region ", name));
  return regions;
}

SharedMemoryRegions::Part SharedMemoryRegions::part(const std::string& name, uint64_t offset,
                                                    uint64_t bytes) const {
  std::shared_ptr<const Mapping> mapping;
  {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(mappings_.begin(), mappings_.end(),
                                    [&](const auto& m) { return m->region.name == name; });
    EMBLEM_REQUIRE(found != mappings_.end(), "there is no shared memory region ", name,
                   "; register it first");
    mapping = *found;
  }
  EMBLEM_REQUIRE(offset <= mapping->region.bytes && bytes <= mapping->region.bytes - offset,
                 "offset ", offset, " and ", bytes,
                 " bytes are out of range of shared memory region ", name, " of ",
                 mapping->region.bytes, " bytes");
  mapping->check_size();
  return {{mapping->data() + offset, bytes}, mapping};
}

void SharedMemoryRegions::check(const Part& part) {
  static_cast<const Mapping*>(part.owner.get())->check_size();
}

}  // namespace emblem
