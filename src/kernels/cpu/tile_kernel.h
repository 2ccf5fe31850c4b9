// kernels/cpu/tile_kernel.h - the innermost loops of matrix products, one set for each instruction
// set of CPUs.
//
// A product is computed in tiles of `rows` x `cols`. The left matrix lies in panels of `rows` rows,
// the right one in panels of `cols` columns, both with zeros beyond the last: [inner / depth][rows
// or cols][depth]. Every element is summed in fp32, in the order of the inner dimension, so that it
// is the same in any tile of a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/half.h"

namespace emblem::cpu {

// Lines (rows of a left matrix, columns of a right one) that become panels.
struct Lines {
  const float* data = nullptr;
  int64_t count = 0, inner = 0;
  // Line i's element k is at data[i * step + k * inner_step]; one of them is 1.
  int64_t step = 0, inner_step = 1;
};

struct TileKernel {
  const char* name;
  DType type;  // that elements are rounded to
  int rows, cols, depth;
  int64_t element_bytes;  // in a panel

  // Panels of `width` lines, one after the other.
  void (*pack)(const Lines& lines, int64_t width, std::byte* to);

  // c [rows, cols] = (add ? c : 0) + a b for panels a and b of at least one line. Up to kOverread
  // bytes beyond the end of a panel may be read.
  static constexpr int64_t kOverread = 128;
  void (*multiply)(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
                   int64_t stride);

  // The same for 1 to kMostFewRows rows x that lie one after the other, and all `cols` columns of
  // panels that are `panel_bytes` apart.
  static constexpr int64_t kMostFewRows = 4;
  void (*multiply_few)(const float* x, int64_t x_stride, int64_t rows, const std::byte* panels,
                       int64_t panel_bytes, int64_t inner, int64_t cols, bool add, float* c,
                       int64_t stride);

  // Multiply-adds in registers alone, `spin_flops` in a step: the limit of the arithmetic units.
  void (*spin)(int64_t steps);
  int64_t spin_flops;

  int64_t panel_bytes(int64_t width, int64_t inner) const {
    return width * ((inner + depth - 1) / depth * depth) * element_bytes;
  }
  // Of all panels of `lines` lines, with what may be read beyond them.
  size_t bytes_for(int64_t lines, int64_t width, int64_t inner) const {
    return static_cast<size_t>((lines + width - 1) / width * panel_bytes(width, inner) + kOverread);
  }
};

// Those that this CPU can run, the fastest of a type first.
std::span<const TileKernel* const> tile_kernels();

// Environment variable: names of kernels to use instead of the fastest, separated by commas.
inline constexpr const char* kKernelVariable = "EMBLEM_CPU_KERNEL";

// The kernels of `names`, and otherwise the fastest of the type. Throws on a name that none has.
const TileKernel& choose_tile_kernel(DType type, std::string_view names);

// The one that this process uses.
const TileKernel& tile_kernel(DType type = DType::kF32);

// ---- by instruction set; those of other architectures are not there ----

extern const TileKernel kPlainTiles;
#if defined(__aarch64__)
extern const TileKernel kNeonTiles, kNeonBf16Tiles;
#elif defined(__x86_64__)
extern const TileKernel kAvx2Tiles, kAvx512Tiles;
#endif

// bf16 by a kernel of fp32, the same in all calls, for CPUs without instructions for it.
const TileKernel& rounding_tiles(const TileKernel& fp32);

}  // namespace emblem::cpu
