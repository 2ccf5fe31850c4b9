#include "kernels/cpu/tile_kernel.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "core/memory/scratch_memory.h"
#include "core/text/joined.h"
#include "core/text/text.h"
#include "emblem/error.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace emblem::cpu {
namespace {

#if defined(__x86_64__)
// Whether the CPU has AMX with bf16 and int8, and the system lets this process use its registers.
bool may_use_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & (kBf16 | kTiles | kInt8)) != (kBf16 | kTiles | kInt8)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

// The fastest.
const TileKernel* first_of(std::span<const TileKernel* const> kernels, DType type, Rows rows) {
  for (const TileKernel* kernel : kernels) {
    if (kernel->type == type && (rows == Rows::kMany || kernel->multiply_few_floats == nullptr))
      return kernel;
  }
  return nullptr;
}

std::vector<const TileKernel*> usable() {
  std::vector<const TileKernel*> kernels;
#if defined(__aarch64__)
  kernels.push_back(&kNeonTiles);
#elif defined(__x86_64__)
  const bool has_bf16 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
  const bool has_amx = has_bf16 && may_use_amx();
  if (has_amx) kernels.push_back(&kAmxFp32Tiles);
  if (__builtin_cpu_supports("avx512f")) kernels.push_back(&kAvx512Tiles);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    kernels.push_back(&kAvx2Tiles);
#endif
  kernels.push_back(&kPlainTiles);
  const TileKernel* fp32 = first_of(kernels, DType::kF32, Rows::kAny);
#if defined(__aarch64__)
  constexpr unsigned long kBf16 = 1ul << 14;  // HWCAP2_BF16
  if ((getauxval(AT_HWCAP2) & kBf16) != 0) kernels.push_back(&kNeonBf16Tiles);
#endif
#if defined(__x86_64__)
  if (has_amx) kernels.push_back(&kAmxBf16Tiles);
  if (has_bf16) kernels.push_back(&kAvx512Bf16Tiles);
#endif
  kernels.push_back(&rounding_tiles(DType::kBf16, *fp32));
#if defined(__aarch64__)
  constexpr unsigned long kInt8 = 1ul << 13;  // HWCAP2_I8MM
  if ((getauxval(AT_HWCAP2) & kInt8) != 0) kernels.push_back(&kNeonInt8Tiles);
#elif defined(__x86_64__)
  if (has_amx) kernels.push_back(&kAmxInt8Tiles);
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"))
    kernels.push_back(&kAvx512VnniTiles);
#endif
  kernels.push_back(&rounding_tiles(DType::kInt8, *fp32));
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

const TileKernel& choose_tile_kernel(DType type, std::string_view names, Rows rows) {
  const TileKernel* chosen = first_of(tile_kernels(), type, rows);
  for (const std::string& name : split(std::string(names), ',')) {
    if (name.empty()) continue;
    bool found = false;
    for (const TileKernel* kernel : tile_kernels()) {
      if (kernel->name != name) continue;
      found = true;
      if (kernel->type == type) chosen = kernel;
    }
    EMBLEM_REQUIRE(found, kKernelVariable, "=", names, ": no kernel \"", name,
                   "\" runs on this CPU; it has ", joined(tile_kernels(), ", ", &TileKernel::name));
  }
  EMBLEM_REQUIRE(chosen != nullptr, "there are no matrix products in ", name_of(type), " on CPUs");
  return *chosen;
}

std::byte* packing_memory(int64_t bytes) {
  static thread_local ScratchMemory<std::byte> memory;
  return memory.take(static_cast<size_t>(bytes));
}

const TileKernel& tile_kernel(DType type, Rows rows) {
  static const TileKernel& any_f32 =
      choose_tile_kernel(DType::kF32, names_of_environment(), Rows::kAny);
  if (type == DType::kF32 && rows == Rows::kAny) return any_f32;
  static const TileKernel& f32 = choose_tile_kernel(DType::kF32, names_of_environment());
  if (type == DType::kF32) return f32;
  static const TileKernel& bf16 = choose_tile_kernel(DType::kBf16, names_of_environment());
  if (type == DType::kBf16) return bf16;
  static const TileKernel& int8 = choose_tile_kernel(DType::kInt8, names_of_environment());
  return type == DType::kInt8 ? int8 : choose_tile_kernel(type, "");
}

}  // namespace emblem::cpu
