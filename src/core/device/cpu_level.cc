#include "core/device/cpu_level.h"

namespace emblem {

std::string_view compiled_level() { return EMBLEM_CPU_LEVEL; }

std::string_view cpu_level() {
#if defined(__x86_64__)
  const bool has_v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  const bool has_v3 = has_v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2");
  const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return has_v4 ? "x86-64-v4" : has_v3 ? "x86-64-v3" : has_v2 ? "x86-64-v2" : "x86-64";
#else
  return "";
#endif
}

}  // namespace emblem
