#include "serve/protocol/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/device.h"
#include "core/file_descriptor.h"
#include "emblem/error.h"
#include "serve/protocol/cuda_region.h"

namespace emblem {
namespace {

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

  // Touching pages after the end of a shrunk object would kill the process.
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
  EMBLEM_REQUIRE(!is_taken(region.name), "shared memory region ", region.name,
                 " is registered already; unregister it first");
  mappings_.push_back(mapping);
}

bool SharedMemoryRegions::is_taken(const std::string& name) const {
  return std::any_of(mappings_.begin(), mappings_.end(),
                     [&](const auto& m) { return m->region.name == name; }) ||
         std::any_of(cuda_mappings_.begin(), cuda_mappings_.end(),
                     [&](const auto& m) { return m.region.name == name; });
}

void SharedMemoryRegions::register_cuda(const CudaSharedRegion& region) {
  EMBLEM_REQUIRE(!region.name.empty(), "a shared memory region needs a name");
  if (!kHasCuda)
    throw Error(ErrorCode::kUnsupported,
                cat("region ", region.name,
                    " is in CUDA memory, which this server does not map; use system shared memory "
                    "or send the tensors"));
  auto memory = dispatch(
      Device::kCuda, [] { return std::shared_ptr<const cuda::CudaRegion>(); },
      [&] {
        return std::shared_ptr<const cuda::CudaRegion>(std::make_shared<cuda::CudaRegion>(
            region.name, region.handle, region.device, region.bytes));
      });
  std::lock_guard lock(mutex_);
  EMBLEM_REQUIRE(!is_taken(region.name), "shared memory region ", region.name,
                 " is registered already; unregister it first");
  cuda_mappings_.push_back({region, std::move(memory)});
}

void SharedMemoryRegions::unregister_cuda(const std::string& name) {
  std::lock_guard lock(mutex_);
  std::erase_if(cuda_mappings_,
                [&](const auto& m) { return name.empty() || m.region.name == name; });
}

std::vector<CudaSharedRegion> SharedMemoryRegions::cuda_status(const std::string& name) const {
  std::vector<CudaSharedRegion> regions;
  {
    std::lock_guard lock(mutex_);
    for (const auto& mapping : cuda_mappings_) {
      if (name.empty() || mapping.region.name == name) regions.push_back(mapping.region);
    }
  }
  if (regions.empty() && !name.empty())
    throw Error(ErrorCode::kNotFound, cat("there is no CUDA shared memory region ", name));
  return regions;
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
  const auto check_range = [&](uint64_t there) {
    EMBLEM_REQUIRE(offset <= there && bytes <= there - offset, "offset ", offset, " and ", bytes,
                   " bytes are out of range of shared memory region ", name, " of ", there,
                   " bytes");
  };
  std::shared_ptr<const Mapping> mapping;
  {
    std::lock_guard lock(mutex_);
    for (const CudaMapping& cuda : cuda_mappings_) {
      if (cuda.region.name != name) continue;
      check_range(cuda.region.bytes);
      auto copy = std::make_shared<std::vector<std::byte>>(bytes);
      return {{copy->data(), copy->size()}, copy, cuda.memory, offset};
    }
    const auto found = std::find_if(mappings_.begin(), mappings_.end(),
                                    [&](const auto& m) { return m->region.name == name; });
    EMBLEM_REQUIRE(found != mappings_.end(), "there is no shared memory region ", name,
                   "; register it first");
    mapping = *found;
  }
  check_range(mapping->region.bytes);
  mapping->check_size();
  return {{mapping->data() + offset, bytes}, mapping, nullptr, 0};
}

void SharedMemoryRegions::load(const Part& part) {
  if (part.device == nullptr) return;
  dispatch(
      Device::kCuda, [] {}, [&] { part.device->read(part.offset, part.bytes); });
}

void SharedMemoryRegions::store(const Part& part, std::span<const std::byte> from) {
  if (from.empty()) return;
  if (part.device == nullptr) {
    static_cast<const Mapping*>(part.owner.get())->check_size();
    std::memcpy(part.bytes.data(), from.data(), from.size());
    return;
  }
  dispatch(
      Device::kCuda, [] {}, [&] { part.device->write(part.offset, from); });
}

}  // namespace emblem
