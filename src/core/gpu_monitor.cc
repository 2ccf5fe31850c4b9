#include "core/gpu_monitor.h"

#include <dlfcn.h>

#include <chrono>

#include "core/start_threads.h"

namespace emblem {
namespace {

constexpr auto kInterval =
    std::chrono::milliseconds(100);  // NVML's own values are means of that order

// As in nvml.h, whose layout and numbers are a stable interface.
using NvmlDevice = struct nvmlDevice_st*;
struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};
constexpr int kSmClock = 1;

}  // namespace

class GpuMonitor::Library {
 public:
  Library() : handle_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) return;
    init_ = load<int()>("nvmlInit_v2");
    shutdown_ = load<int()>("nvmlShutdown");
    find_ = load<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2");
    utilization_ = load<int(NvmlDevice, NvmlUtilization*)>("nvmlDeviceGetUtilizationRates");
    power_ = load<int(NvmlDevice, unsigned*)>("nvmlDeviceGetPowerUsage");
    clock_ = load<int(NvmlDevice, int, unsigned*)>("nvmlDeviceGetClockInfo");
    ready_ = init_ && shutdown_ && find_ && utilization_ && power_ && clock_ && init_() == 0;
  }
  ~Library() {
    if (ready_) shutdown_();
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // Null when there is no such device, or no NVML.
  NvmlDevice find(const std::string& pci_bus_id) const {
    NvmlDevice device = nullptr;
    return ready_ && find_(pci_bus_id.c_str(), &device) == 0 ? device : nullptr;
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
};

GpuMonitor::GpuMonitor(const std::string& pci_bus_id)
    : library_(std::make_unique<Library>()),
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
