// core/process.h - what this process and machine are using and have.
#pragma once

#include <cstdint>
#include <string>

namespace emblem {

int64_t peak_resident_bytes();
int64_t resident_bytes();
// Gives unused memory back to the system and resets the peak, where the system
// allows it (Linux).
void reset_peak_resident_bytes();
double cpu_seconds();  // user + system time of the process
std::string cpu_model();
std::string gpu_model();   // of the first NVIDIA GPU that the system's driver names; "" without one
std::string gpu_driver();  // its version; "" without one
// CPU time that all processes of the machine have taken since it started; 0 where unknown.
double machine_busy_seconds();
int64_t total_memory_bytes();
// What this process can still take: of the machine's memory and, in a container, of its own limit.
int64_t available_memory_bytes();
int64_t free_swap_bytes();
std::string program_path();  // absolute, links followed; "" if the system does not provide it

}  // namespace emblem
