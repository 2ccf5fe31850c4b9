#include "embedding/cuda/table/growable_memory.h"

#include <cuda.h>

#include "core/device/cuda_check.h"
#include "core/math/divide.h"
#include "core/memory/allocation_fault.h"

namespace emblem::cuda {
namespace {

// Functions of the driver, loaded at run time so that the program starts without a driver too.
template <class Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result;
  cuda_check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result),
             "looking for a function of the driver");
  EMBLEM_REQUIRE(found != nullptr, "the CUDA driver has no ", name, ": a newer one is needed");
  return reinterpret_cast<Function>(found);
}

struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity =
      driver_function<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemAddressReserve) reserve =
      driver_function<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) unreserve =
      driver_function<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemCreate) create = driver_function<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = driver_function<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemMap) map = driver_function<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = driver_function<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) set_access =
      driver_function<decltype(&cuMemSetAccess)>("cuMemSetAccess");
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check(CUresult status, const char* doing) {
  if (status != CUDA_SUCCESS)
    throw Error(ErrorCode::kInternal,
                cat("CUDA driver failed while ", doing, ": error ", static_cast<int>(status)));
}

CUmemAllocationProp properties() {
  CUmemAllocationProp of = {};
  of.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  of.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  cuda_check(cudaGetDevice(&of.location.id), "asking for the device");
  return of;
}

// Device memory mapped at an address; released and unmapped with this object unless it is kept.
class Mapping {
 public:
  Mapping(CUdeviceptr at, size_t bytes, const CUmemAllocationProp& of) : at_(at), bytes_(bytes) {
    if (allocation_must_fail() || driver().create(&handle_, bytes, &of, 0) != CUDA_SUCCESS) return;
    created_ = true;
    if (driver().map(at, bytes, 0, handle_, 0) != CUDA_SUCCESS) return;
    mapped_ = true;
    CUmemAccessDesc access = {};
    access.location = of.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    accessible_ = driver().set_access(at, bytes, &access, 1) == CUDA_SUCCESS;
  }
  ~Mapping() {
    if (mapped_) driver().unmap(at_, bytes_);
    if (created_) driver().release(handle_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool accessible() const { return accessible_; }
  CUmemGenericAllocationHandle keep() {
    created_ = mapped_ = false;
    return handle_;
  }

 private:
  CUdeviceptr at_;
  size_t bytes_;
  CUmemGenericAllocationHandle handle_ = 0;
  bool created_ = false, mapped_ = false, accessible_ = false;
};

}  // namespace

void throw_out_of_device_memory(const std::string& who, size_t wanted) {
  size_t free = 0, total = 0;
  cudaGetLastError();  // clears it
  cudaMemGetInfo(&free, &total);
  throw Error(
      ErrorCode::kOutOfMemory,
      cat(who, " needs ", wanted, " more bytes of GPU memory, but only ", free, " of ", total,
          " are free: lower the capacity or the dimension, or place the table in host memory "
          "(placement cache or host)"));
}

GrowableMemory::GrowableMemory(std::string name, size_t most_bytes)
    : name_(std::move(name)), most_bytes_(std::max<size_t>(most_bytes, 1)) {}

GrowableMemory::~GrowableMemory() {
  if (reserved_ == 0) return;
  const auto at = reinterpret_cast<CUdeviceptr>(data_);
  if (bytes_ != 0) driver().unmap(at, bytes_);
  for (const unsigned long long handle : handles_) driver().release(handle);
  driver().unreserve(at, reserved_);
}

void GrowableMemory::allocate_all(const Context& context) {
  try {
    all_ = Buffer<char>(Device::kCuda, static_cast<int64_t>(most_bytes_));
  } catch (const Error&) {
    throw_out_of_device_memory(name_, most_bytes_);
  }
  cuda_check(cudaMemsetAsync(all_.data(), 0, most_bytes_, context.stream), "zeroing memory");
  data_ = all_.data();
  bytes_ = most_bytes_;
}

void GrowableMemory::reserve_addresses() {
  cuda_check(cudaFree(nullptr), "starting CUDA");
  const CUmemAllocationProp of = properties();
  check(driver().granularity(&granularity_, &of, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
        "asking for the granularity of memory");
  const size_t bytes = round_up(most_bytes_, granularity_);
  CUdeviceptr at = 0;
  check(driver().reserve(&at, bytes, granularity_, 0, 0), "reserving addresses");
  data_ = reinterpret_cast<char*>(at);
  reserved_ = bytes;
}

void GrowableMemory::grow_to(const Context& context, size_t bytes) {
  if (bytes <= bytes_) return;
  if (bytes_ == 0 && bytes == most_bytes_) return allocate_all(context);
  if (bytes > most_bytes_) throw_out_of_device_memory(name_, bytes - bytes_);
  if (reserved_ == 0) reserve_addresses();
  const size_t wanted = round_up(bytes, granularity_) - bytes_;
  Mapping mapping(reinterpret_cast<CUdeviceptr>(data_ + bytes_), wanted, properties());
  if (!mapping.accessible()) throw_out_of_device_memory(name_, wanted);
  cuda_check(cudaMemsetAsync(data_ + bytes_, 0, wanted, context.stream), "zeroing memory");
  handles_.reserve(handles_.size() + 1);
  handles_.push_back(mapping.keep());
  bytes_ += wanted;
}

}  // namespace emblem::cuda
