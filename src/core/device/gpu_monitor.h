// core/device/gpu_monitor.h - how busy a GPU is, as its driver says (NVML, which is loaded when
// asked for).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace emblem {

// Means over the samples taken.
struct GpuUse {
  int samples = 0;
  double utilisation = 0;         // share of time in which a kernel ran, 0 to 1
  double memory_utilisation = 0;  // share of time in which device memory was read or written
  double power_watts = 0;
  double sm_clock_hz = 0;
};

// Memory used by all processes, without a use of CUDA by this one.
struct GpuMemoryUse {
  int64_t total_bytes = 0, free_bytes = 0;
  // What processes hold besides this one, which uses the GPU. 0: nothing, or it is not known, as in
  // a container where processes have other numbers.
  int64_t other_processes_bytes = 0;
};
// Nothing where there is no NVML. `pci_bus_id` is that of cudaDeviceGetPCIBusId.
std::optional<GpuMemoryUse> gpu_memory_use(const std::string& pci_bus_id);

// Samples from a thread of its own until destroyed.
class GpuMonitor {
 public:
  // `pci_bus_id` is that of cudaDeviceGetPCIBusId.
  explicit GpuMonitor(const std::string& pci_bus_id);
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  // Stops sampling. Nothing where there is no NVML, or it has not said anything yet.
  std::optional<GpuUse> stop();

 private:
  void run(std::string pci_bus_id);

  std::unique_ptr<class Nvml> library_;
  std::atomic<bool> stop_{false};
  GpuUse sums_;  // used by the thread until it is joined
  std::thread thread_;
};

}  // namespace emblem
