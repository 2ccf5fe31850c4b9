#include "core/device/gpu.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>

#include "core/device/cuda_check.h"
#include "core/device/gpu_monitor.h"
#include "core/text/text.h"

namespace emblem::cuda {
namespace {

__global__ void probe_kernel() {}

// Kernels use tensor cores of this generation and its asynchronous copies (cp.async).
constexpr int kLeastCapability = 80;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, cat("--device cuda: ", why, ", or use --device cpu"));
}

std::string version_text(int version) {  // 13010 -> "13.1"
  return cat(version / 1000, ".", version % 1000 / 10);
}

std::string capability_text(int capability) {  // 90 -> "9.0"
  return cat(capability / 10, ".", capability % 10);
}

std::string built_for() {
  std::string list;
  for (const int architecture : {__CUDA_ARCH_LIST__})
    list += cat(list.empty() ? "" : ", ", capability_text(architecture / 10));
  return list;
}

cudaDeviceProp gpu_properties() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "choosing a GPU");
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, device), "querying the properties of the GPU");
  return properties;
}

bool is_for_want_of_memory(cudaError_t status) {
  return status == cudaErrorMemoryAllocation || status == cudaErrorOperatingSystem ||
         status == cudaErrorInitializationError || status == cudaErrorUnknown ||
         status == cudaErrorDevicesUnavailable;
}

// CUDA cannot start with few addresses, which it reports in many ways.
void require_addresses(cudaError_t status) {
  rlimit limit{};
  if (!is_for_want_of_memory(status) || getrlimit(RLIMIT_AS, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return;
  cudaGetLastError();
  refuse(cat("CUDA cannot start (", cudaGetErrorString(status), "): this process is limited to ",
             format_bytes(static_cast<double>(limit.rlim_cur)),
             " of addresses (ulimit -v), but CUDA reserves more than the memory of the machine and "
             "its GPUs; remove the limit with ulimit -v unlimited"));
}

// A GPU whose memory is in use cannot even be tested.
void require_free_memory(cudaError_t status) {
  if (status != cudaErrorMemoryAllocation) return;
  cudaGetLastError();
  std::string found = "has no memory left";
  if (const auto use = gpu_memory_use(gpu_bus_id()))
    found = cat("has ", format_bytes(static_cast<double>(use->free_bytes)), " of ",
                format_bytes(static_cast<double>(use->total_bytes)), " of its memory free");
  throw Error(ErrorCode::kOutOfMemory,
              cat("--device cuda: the GPU, ", gpu_properties().name, ", ", found,
                  ": other processes hold the rest (nvidia-smi lists them); end them, choose "
                  "another GPU with CUDA_VISIBLE_DEVICES, or use --device cpu"));
}

void require_driver(cudaError_t status) {
  if (status == cudaSuccess) return;
  require_addresses(status);
  cudaGetLastError();
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) refuse("there is no NVIDIA driver on this machine; install one");
  if (status == cudaErrorInsufficientDriver) {
    refuse(cat("the NVIDIA driver is too old: it runs CUDA ", version_text(driver),
               ", but this program needs ", version_text(runtime), "; update the driver"));
  }
  if (status == cudaErrorNoDevice)
    refuse("no GPU is visible; check nvidia-smi and CUDA_VISIBLE_DEVICES");
  cuda_check(status, "looking for a GPU");
}

}  // namespace

void require_usable_gpu() {
  int count = 0;
  require_driver(cudaGetDeviceCount(&count));
  if (count == 0) require_driver(cudaErrorNoDevice);
  const int capability = compute_capability();
  const std::string found = cat("the GPU, ", gpu_properties().name, ", has compute capability ",
                                capability_text(capability));
  if (capability < kLeastCapability)
    refuse(cat(found, ", but Emblem needs ", capability_text(kLeastCapability),
               " or higher; use another GPU"));
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    refuse(cat(found, ", but this build of Emblem has code for ", built_for(),
               "; install a wheel that has code for it (make wheel has it for 8.0 and higher), or "
               "build with -DCMAKE_CUDA_ARCHITECTURES=",
               capability));
  }
  require_addresses(status);
  require_free_memory(status);
  cuda_check(status, "testing the GPU");
}

int gpu_count() {
  int count = 0;
  cuda_check(cudaGetDeviceCount(&count), "counting GPUs");
  return count;
}

void use_gpu(int index) { cuda_check(cudaSetDevice(index), "choosing a GPU"); }

int compute_capability() {
  int device = 0, major = 0, minor = 0;
  cuda_check(cudaGetDevice(&device), "choosing a GPU");
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "querying the compute capability");
  cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
             "querying the compute capability");
  return major * 10 + minor;
}

std::string describe_gpu() {
  const cudaDeviceProp properties = gpu_properties();
  return cat(properties.name, ", compute capability ", properties.major, ".", properties.minor,
             ", ", format_bytes(static_cast<double>(properties.totalGlobalMem)));
}

std::string gpu_bus_id() {
  int device = 0;
  cuda_check(cudaGetDevice(&device), "choosing a GPU");
  char id[32] = {};
  cuda_check(cudaDeviceGetPCIBusId(id, sizeof id, device), "querying the PCI bus id of the GPU");
  return id;
}

std::array<char, 16> gpu_uuid() {
  const cudaDeviceProp properties = gpu_properties();
  std::array<char, 16> id{};
  static_assert(sizeof(properties.uuid.bytes) == sizeof(id));
  std::copy(std::begin(properties.uuid.bytes), std::end(properties.uuid.bytes), id.begin());
  return id;
}

GpuMemory gpu_memory() {
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "querying the memory of the GPU");
  return {static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

}  // namespace emblem::cuda
