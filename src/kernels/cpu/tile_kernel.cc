#include "kernels/cpu/tile_kernel.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "core/text.h"
#include "emblem/error.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace emblem::cpu {
namespace {

std::vector<const TileKernel*> usable() {
  std::vector<const TileKernel*> kernels;
#if defined(__aarch64__)
  kernels.push_back(&kNeonTiles);
#elif defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&kAvx512Tiles);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    kernels.push_back(&kAvx2Tiles);
#endif
  kernels.push_back(&kPlainTiles);
  const TileKernel* fp32 = kernels.front();
#if defined(__aarch64__)
  constexpr unsigned long kBf16 = 1ul << 14;  // HWCAP2_BF16
  if ((getauxval(AT_HWCAP2) & kBf16) != 0) kernels.push_back(&kNeonBf16Tiles);
#endif
  kernels.push_back(&rounding_tiles(*fp32));
  return kernels;
}

std::string_view names_of_environment() {
  const char* names = std::getenv(kKernelVariable);
  return names == nullptr ? "" : names;
}

}  // namespace

std::span<const TileKernel* const> tile_kernels() {
  static const std::vector<const TileKernel*> kernels = usable();
  return kernels;
}

const TileKernel& choose_tile_kernel(DType type, std::string_view names) {
  const TileKernel* chosen = nullptr;
  std::string known;
  for (const TileKernel* kernel : tile_kernels()) {
    known += cat(known.empty() ? "" : ", ", kernel->name);
    if (chosen == nullptr && kernel->type == type) chosen = kernel;
  }
  for (const std::string& name : split(std::string(names), ',')) {
    if (name.empty()) continue;
    bool found = false;
    for (const TileKernel* kernel : tile_kernels()) {
      if (kernel->name != name) continue;
      found = true;
      if (kernel->type == type) chosen = kernel;
    }
    EMBLEM_REQUIRE(found, kKernelVariable, "=", names, ": no kernel \"", name,
                   "\" runs on this CPU; it has ", known);
  }
  EMBLEM_REQUIRE(chosen != nullptr, "there are no matrix products in ", name_of(type), " on CPUs");
  return *chosen;
}

const TileKernel& tile_kernel(DType type) {
  static const TileKernel& f32 = choose_tile_kernel(DType::kF32, names_of_environment());
  if (type == DType::kF32) return f32;
  static const TileKernel& bf16 = choose_tile_kernel(DType::kBf16, names_of_environment());
  return type == DType::kBf16 ? bf16 : choose_tile_kernel(type, "");
}

}  // namespace emblem::cpu
