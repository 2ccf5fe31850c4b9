// core/system/process.h - what this process and machine are using and have.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace emblem {

int64_t peak_resident_bytes();
int64_t resident_bytes();
// Gives unused memory back to the system and resets the peak, where the system
// allows it (Linux).
void reset_peak_resident_bytes();
double cpu_seconds();  // user + system time of the process
std::string cpu_model();
// Name of the first NVIDIA GPU that the system's driver names; "" without one.
std::string gpu_model();
std::string gpu_driver();  // its version; "" without one
// CPU time that all processes of the machine have taken since it started; 0 where unknown.
double machine_busy_seconds();
int64_t total_memory_bytes();
// What this process can still take: of the machine's memory and, in a container, of its own limit.
int64_t available_memory_bytes();
int64_t free_swap_bytes();
std::string environment_variable(const char* name);  // "" if it is not set
// Changes the environment of this process. Libraries do not, since other threads may read it: they
// are given this by who may. Empty: the variable stays as it is.
using SetVariable = std::function<void(const char* name, const std::string& value)>;
std::string program_path();  // absolute, links followed; "" if the system does not provide it

}  // namespace emblem
