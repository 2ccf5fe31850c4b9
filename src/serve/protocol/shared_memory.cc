#include "serve/protocol/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/device/device.h"
#include "core/files/file_descriptor.h"
#include "core/files/inner_path.h"
#include "emblem/error.h"
#include "serve/protocol/cuda_region.h"

namespace emblem {
namespace {

std::string_view without_slashes(std::string_view name) {
  const size_t begin = name.find_first_not_of('/');
  return begin == std::string_view::npos ? std::string_view() : name.substr(begin);
}

// The name of an object as a file name in the folder of shared memory.
std::string file_name(const SystemRegion& region) {
  const std::string_view name = without_slashes(region.key);
  const bool is_plain = file_name_problem(name, kLongestFileName - 1).empty();
  EMBLEM_REQUIRE(is_plain, "shared memory region ", region.name,
                 ": the key is not the name of a shared memory object: expected 1 to 254 "
                 "characters without a slash after the first");
  return std::string(name);
}

void check_range(const std::string& name, uint64_t there, uint64_t offset, uint64_t bytes) {
  EMBLEM_REQUIRE(offset <= there && bytes <= there - offset, "offset ", offset, " and ", bytes,
                 " bytes are out of range of shared memory region ", name, " of ", there, " bytes");
}

}  // namespace

struct SharedMemoryRegions::SystemObject {
  SystemObject(const SystemRegion& described, const std::string& object)
      : region(described), file(shm_open(("/" + object).c_str(), O_RDWR | O_CLOEXEC, 0)) {
    EMBLEM_REQUIRE(file.get() >= 0, "shared memory region ", region.name, ": there is no object ",
                   region.key, " that can be opened (", std::strerror(errno), ")");
    EMBLEM_REQUIRE(region.bytes > 0, "shared memory region ", region.name, " has no bytes");
    require_size(region.offset, region.bytes);
  }

  void require_size(uint64_t offset, uint64_t bytes) const {
    struct stat facts {};
    const bool is_file = fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode);
    const uint64_t size = is_file ? static_cast<uint64_t>(std::max<off_t>(0, facts.st_size)) : 0;
    EMBLEM_REQUIRE(offset <= size && bytes <= size - offset, "shared memory region ", region.name,
                   ": offset ", offset, " and ", bytes, " bytes do not fit into the ", size,
                   " bytes of ", region.key);
  }

  // `offset` counts from the beginning of the region.
  void read(uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t count =
          pread(file.get(), to.data(), to.size(), static_cast<off_t>(region.offset + offset));
      if (count < 0 && errno == EINTR) continue;
      EMBLEM_REQUIRE(count >= 0, "shared memory region ", region.name,
                     " cannot be read: ", std::strerror(errno));
      EMBLEM_REQUIRE(count > 0, "shared memory region ", region.name, ": ", to.size(),
                     " bytes are missing at the end: ", region.key, " was truncated");
      to = to.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
  }

  void write(uint64_t offset, std::span<const std::byte> from) const {
    // A write after the end would extend the object, though never beyond the region.
    require_size(region.offset + offset, from.size());
    while (!from.empty()) {
      const ssize_t count =
          pwrite(file.get(), from.data(), from.size(), static_cast<off_t>(region.offset + offset));
      if (count < 0 && errno == EINTR) continue;
      EMBLEM_REQUIRE(count > 0, "shared memory region ", region.name,
                     " cannot be written: ", std::strerror(count < 0 ? errno : ENOSPC));
      from = from.subspan(static_cast<size_t>(count));
      offset += static_cast<uint64_t>(count);
    }
  }

  const SystemRegion region;
  FileDescriptor file;
};

SharedMemoryRegions::SharedMemoryRegions(SharedMemoryOptions options)
    : options_(std::move(options)) {}
SharedMemoryRegions::~SharedMemoryRegions() = default;

void SharedMemoryRegions::require_allowed(const std::string& region,
                                          const std::string& object) const {
  const auto& prefixes = options_.allowed_prefixes;
  const bool allowed = std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
    return object.starts_with(without_slashes(prefix));
  });
  if (allowed) return;
  throw Error(ErrorCode::kPermissionDenied,
              prefixes.empty()
                  ? cat("shared memory region ", region,
                        ": shared memory is not allowed; start the server with "
                        "--allow-shared-memory to allow it")
                  : cat("shared memory region ", region,
                        ": the key does not begin with a prefix that --allow-shared-memory of "
                        "the server allows"));
}

void SharedMemoryRegions::require_room(const std::string& name, uint64_t bytes) const {
  size_t regions = 0;
  uint64_t registered = 0;
  const auto count = [&](const auto& region) {
    EMBLEM_REQUIRE(region.name != name, "shared memory region ", name,
                   " is registered already; unregister it first");
    ++regions;
    registered += region.bytes;
  };
  for (const auto& object : objects_) count(object->region);
  for (const CudaMapping& mapping : cuda_mappings_) count(mapping.region);
  if (regions >= options_.max_regions)
    throw Error(ErrorCode::kUnavailable,
                cat("shared memory region ", name, ": there are ", regions,
                    " regions, which is the limit; unregister some first"));
  if (registered > options_.max_bytes || bytes > options_.max_bytes - registered)
    throw Error(ErrorCode::kUnavailable,
                cat("shared memory region ", name, " of ", bytes, " bytes: ", registered,
                    " bytes are registered already, and the limit of all regions is ",
                    options_.max_bytes, "; unregister some first"));
}

void SharedMemoryRegions::register_system(const SystemRegion& region) {
  EMBLEM_REQUIRE(!region.name.empty(), "a shared memory region needs a name");
  const std::string object = file_name(region);
  require_allowed(region.name, object);
  const auto opened = std::make_shared<const SystemObject>(region, object);
  const std::lock_guard lock(mutex_);
  require_room(region.name, region.bytes);
  objects_.push_back(opened);
}

void SharedMemoryRegions::register_cuda(const CudaSharedRegion& region) {
  EMBLEM_REQUIRE(!region.name.empty(), "a shared memory region needs a name");
  if (!kHasCuda)
    throw Error(ErrorCode::kUnsupported,
                cat("region ", region.name,
                    " is in CUDA memory, which this server does not map; use system shared memory "
                    "or send the tensors"));
  if (options_.allowed_prefixes.empty()) require_allowed(region.name, "");
  auto memory = dispatch(
      Device::kCuda, [] { return std::shared_ptr<const cuda::CudaRegion>(); },
      [&] {
        return std::shared_ptr<const cuda::CudaRegion>(std::make_shared<cuda::CudaRegion>(
            region.name, region.handle, region.device, region.bytes));
      });
  const std::lock_guard lock(mutex_);
  require_room(region.name, region.bytes);
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
  std::erase_if(objects_, [&](const auto& m) { return name.empty() || m->region.name == name; });
}

std::vector<SystemRegion> SharedMemoryRegions::system_status(const std::string& name) const {
  std::vector<SystemRegion> regions;
  {
    std::lock_guard lock(mutex_);
    for (const auto& object : objects_) {
      if (name.empty() || object->region.name == name) regions.push_back(object->region);
    }
  }
  if (regions.empty() && !name.empty())
    throw Error(ErrorCode::kNotFound, cat("there is no shared memory region ", name));
  return regions;
}

SharedMemoryRegions::Part SharedMemoryRegions::part(const std::string& name, uint64_t offset,
                                                    uint64_t bytes) const {
  Part part;
  part.offset_ = offset;
  part.size_ = bytes;
  const std::lock_guard lock(mutex_);
  for (const CudaMapping& cuda : cuda_mappings_) {
    if (cuda.region.name != name) continue;
    check_range(name, cuda.region.bytes, offset, bytes);
    part.device_ = cuda.memory;
    return part;
  }
  for (const auto& object : objects_) {
    if (object->region.name != name) continue;
    check_range(name, object->region.bytes, offset, bytes);
    part.object_ = object;
    return part;
  }
  throw Error(ErrorCode::kInvalidArgument,
              cat("there is no shared memory region ", name, "; register it first"));
}

SharedMemoryRegions::Copy SharedMemoryRegions::read(const std::string& name, uint64_t offset,
                                                    uint64_t bytes) const {
  const Part from = part(name, offset, bytes);
  EMBLEM_REQUIRE(bytes <= options_.max_tensor_bytes, bytes, " bytes of shared memory region ", name,
                 " are more than the ", options_.max_tensor_bytes,
                 " bytes that an input may have; send smaller requests or raise "
                 "--max-request-size of the server");
  Copy copy;
  if (options_.memory != nullptr) copy.lease_ = MemoryBudget::Lease(*options_.memory);
  copy.lease_.grow(bytes);
  copy.data_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  copy.size_ = bytes;
  from.read({copy.data_.get(), copy.size_});
  return copy;
}

void SharedMemoryRegions::Part::read(std::span<std::byte> to) const {
  if (object_ != nullptr) return object_->read(offset_, to);
  dispatch(
      Device::kCuda, [] {}, [&] { device_->read(offset_, to); });
}

void SharedMemoryRegions::Part::write(std::span<const std::byte> from) const {
  if (from.empty()) return;
  if (object_ != nullptr) return object_->write(offset_, from);
  dispatch(
      Device::kCuda, [] {}, [&] { device_->write(offset_, from); });
}

}  // namespace emblem
