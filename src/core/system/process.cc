#include "core/system/process.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/system/address_space.h"
#include "core/text/text.h"

namespace emblem {
namespace {

rusage usage() {
  rusage result{};
  getrusage(RUSAGE_SELF, &result);
  return result;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// The number after `name` in lines of "name number" or "name: number kB", or `otherwise`.
int64_t number_in(const std::string& path, std::string_view name, int64_t otherwise) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    int64_t value = 0;
    if (word == name && file >> value) return value;
  }
  return otherwise;
}

// The number that is all of a file, or `otherwise`.
int64_t number_of(const std::string& path, int64_t otherwise) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : otherwise;
}

// What the limits of a container leave. Pages of files can be dropped.
int64_t container_bytes(const std::string& limit, const std::string& used,
                        const std::string& details) {
  const int64_t most = number_of(limit, INT64_MAX);
  if (most >= total_memory_bytes()) return INT64_MAX;
  return most - number_of(used, 0) + number_in(details, "inactive_file", 0) +
         number_in(details, "active_file", 0);
}

struct ArmPart {
  std::string_view implementer, part, name;
};
// Linux names Arm cores by number only.
constexpr std::array kArmParts = {
    ArmPart{"0x41", "0xd08", "Arm Cortex-A72"},  ArmPart{"0x41", "0xd0b", "Arm Cortex-A76"},
    ArmPart{"0x41", "0xd0c", "Arm Neoverse N1"}, ArmPart{"0x41", "0xd40", "Arm Neoverse V1"},
    ArmPart{"0x41", "0xd49", "Arm Neoverse N2"}, ArmPart{"0x41", "0xd4f", "Arm Neoverse V2"},
    ArmPart{"0x41", "0xd8e", "Arm Neoverse N3"}, ArmPart{"0x41", "0xd84", "Arm Neoverse V3"},
    ArmPart{"0xc0", "0xac3", "Ampere-1"},
};

}  // namespace

int64_t peak_resident_bytes() { return static_cast<int64_t>(usage().ru_maxrss) * 1024; }

void reset_peak_resident_bytes() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ofstream("/proc/self/clear_refs") << 5;
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

double cpu_seconds() {
  const rusage now = usage();
  return seconds_of(now.ru_utime) + seconds_of(now.ru_stime);
}

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string implementer, part;
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view key = trim(std::string_view(line).substr(0, colon));
    const std::string_view value = trim(std::string_view(line).substr(colon + 1));
    if (key == "model name") return std::string(value);
    if (key == "CPU implementer") implementer = value;
    if (key == "CPU part") part = value;
  }
  for (const ArmPart& known : kArmParts) {
    if (known.implementer == implementer && known.part == part) return std::string(known.name);
  }
  return part.empty() ? "unknown CPU" : "Arm CPU " + implementer + "/" + part;
}

// The driver knows it without CUDA, which would take memory and time on the GPU.
std::string gpu_model() {
  std::error_code ignored;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", ignored)) {
    std::ifstream information(gpu.path() / "information");
    for (std::string line; std::getline(information, line);) {
      constexpr std::string_view kModel = "Model:";
      if (line.starts_with(kModel))
        return std::string(trim(std::string_view(line).substr(kModel.size())));
    }
  }
  return "";
}

std::string gpu_driver() {
  std::ifstream version("/proc/driver/nvidia/version");
  for (std::string word; version >> word;) {  // "NVRM version: NVIDIA ... Module  580.65.06 ..."
    if (word.find('.') != std::string::npos && word[0] >= '0' && word[0] <= '9') return word;
  }
  return "";
}

double machine_busy_seconds() {
  std::ifstream stat("/proc/stat");
  std::string label;
  int64_t user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft = 0;
  if (!(stat >> label >> user >> nice >> system >> idle >> waiting >> interrupts >> soft)) return 0;
  return static_cast<double>(user + nice + system + interrupts + soft) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

int64_t total_memory_bytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

int64_t available_memory_bytes() {
  constexpr int64_t kKiB = 1024;
  const int64_t free = number_in("/proc/meminfo", "MemAvailable:", total_memory_bytes() / kKiB);
  const std::string root = "/sys/fs/cgroup/", old = root + "memory/";
  return std::max<int64_t>(
      0,
      std::min({free * kKiB, free_address_space_bytes(),
                container_bytes(root + "memory.max", root + "memory.current", root + "memory.stat"),
                container_bytes(old + "memory.limit_in_bytes", old + "memory.usage_in_bytes",
                                old + "memory.stat")}));
}

int64_t free_swap_bytes() { return 1024 * number_in("/proc/meminfo", "SwapFree:", 0); }

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string program_path() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace emblem
