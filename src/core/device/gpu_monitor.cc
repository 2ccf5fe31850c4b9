#include "core/device/gpu_monitor.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>

#include "core/threads/start_threads.h"

namespace emblem {
namespace {

constexpr auto kInterval =
    std::chrono::milliseconds(100);  // NVML's own values are means of that order

constexpr int kSmClock = 1;
constexpr unsigned kMostProcesses = 256;

}  // namespace

// As in nvml.h, whose layout and numbers are a stable interface.
using NvmlDevice = struct nvmlDevice_st*;
struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long bytes;  // all bits set: not known
  unsigned instance, compute_instance;
};

class Nvml {
 public:
  Nvml() : handle_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) return;
    init_ = load<int()>("nvmlInit_v2");
    shutdown_ = load<int()>("nvmlShutdown");
    find_ = load<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2");
    utilization_ = load<int(NvmlDevice, NvmlUtilization*)>("nvmlDeviceGetUtilizationRates");
    power_ = load<int(NvmlDevice, unsigned*)>("nvmlDeviceGetPowerUsage");
    clock_ = load<int(NvmlDevice, int, unsigned*)>("nvmlDeviceGetClockInfo");
    memory_ = load<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo");
    processes_ =
        load<int(NvmlDevice, unsigned*, NvmlProcess*)>("nvmlDeviceGetComputeRunningProcesses_v3");
    ready_ = init_ && shutdown_ && find_ && utilization_ && power_ && clock_ && init_() == 0;
  }
  ~Nvml() {
    if (ready_) shutdown_();
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Null when there is no such device, or no NVML.
  NvmlDevice find(const std::string& pci_bus_id) const {
    NvmlDevice device = nullptr;
    return ready_ && find_(pci_bus_id.c_str(), &device) == 0 ? device : nullptr;
  }

  std::optional<GpuMemoryUse> memory(NvmlDevice device) const {
    NvmlMemory of{};
    if (memory_ == nullptr || memory_(device, &of) != 0) return std::nullopt;
    return GpuMemoryUse{.total_bytes = static_cast<int64_t>(of.total),
                        .free_bytes = static_cast<int64_t>(of.free),
                        .other_processes_bytes = others(device)};
  }

  void add_sample(NvmlDevice device, GpuUse& sums) const {
    NvmlUtilization use{};
    unsigned milliwatts = 0, megahertz = 0;
    if (utilization_(device, &use) != 0) return;
    power_(device, &milliwatts);
    clock_(device, kSmClock, &megahertz);
    ++sums.samples;
    sums.utilisation += use.gpu / 100.0;
    sums.memory_utilisation += use.memory / 100.0;
    sums.power_watts += milliwatts / 1e3;
    sums.sm_clock_hz += megahertz * 1e6;
  }

 private:
  int64_t others(NvmlDevice device) const {
    NvmlProcess list[kMostProcesses] = {};
    unsigned count = kMostProcesses;
    if (processes_ == nullptr || processes_(device, &count, list) != 0) return 0;
    int64_t bytes = 0;
    bool has_this = false;
    for (unsigned i = 0; i < count; ++i) {
      const bool is_this = list[i].pid == static_cast<unsigned>(::getpid());
      has_this |= is_this;
      if (!is_this && list[i].bytes != ~0ull) bytes += static_cast<int64_t>(list[i].bytes);
    }
    return has_this ? bytes : 0;
  }

  template <class Function>
  Function* load(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }

  void* handle_;
  bool ready_ = false;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*find_)(const char*, NvmlDevice*) = nullptr;
  int (*utilization_)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*power_)(NvmlDevice, unsigned*) = nullptr;
  int (*clock_)(NvmlDevice, int, unsigned*) = nullptr;
  int (*memory_)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*processes_)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
};

std::optional<GpuMemoryUse> gpu_memory_use(const std::string& pci_bus_id) {
  const Nvml nvml;
  NvmlDevice device = nvml.find(pci_bus_id);
  return device == nullptr ? std::nullopt : nvml.memory(device);
}

GpuMonitor::GpuMonitor(const std::string& pci_bus_id)
    : library_(std::make_unique<Nvml>()),
      thread_(start_thread("GPU monitor", [this, pci_bus_id] { run(pci_bus_id); })) {}

GpuMonitor::~GpuMonitor() { stop(); }

void GpuMonitor::run(std::string pci_bus_id) {
  NvmlDevice device = library_->find(pci_bus_id);
  if (device == nullptr) return;
  while (!stop_) {
    std::this_thread::sleep_for(kInterval);
    library_->add_sample(device, sums_);
  }
}

std::optional<GpuUse> GpuMonitor::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  if (sums_.samples == 0) return std::nullopt;
  GpuUse means = sums_;
  for (double* value :
       {&means.utilisation, &means.memory_utilisation, &means.power_watts, &means.sm_clock_hz})
    *value /= means.samples;
  return means;
}

}  // namespace emblem
