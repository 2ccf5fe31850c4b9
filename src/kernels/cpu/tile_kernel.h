// kernels/cpu/tile_kernel.h - the innermost loops of matrix products, one set for each instruction
// set of CPUs.
//
// A product is computed in tiles of `rows` x `cols`. The left matrix lies in panels of `rows` rows,
// the right one in panels of `cols` columns, both with zeros beyond the last and up to a multiple
// of `depth` in the inner dimension; their order is the kernel's own. Every element is summed in
// fp32, in the order of the inner dimension, so that it is the same in any tile of a kernel. Sums
// of int8 are exact: up to 1040 elements at a time are the same in all kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/math/half.h"

namespace emblem::cpu {

// Lines (rows of a left matrix, columns of a right one) that become panels.
struct Lines {
  const float* data = nullptr;
  int64_t count = 0, inner = 0;
  // Line i's element k is at data[i * step + k * inner_step]; one of them is 1.
  int64_t step = 0, inner_step = 1;
  // For int8: element k becomes round(factors[k] * element) + zeros[k], limited to [-128, 127].
  // Null: factors of 1, zeros of 0.
  const float* factors = nullptr;
  const int32_t* zeros = nullptr;
};

// Where int8 elements are limited before they are rounded.
inline constexpr float kInt8Limit = 32767.0f;

// What will be read next, for prefetches into the L2 cache between products.
struct Ahead {
  const std::byte* next = nullptr;
  const std::byte* last = nullptr;  // where they stop

  void prefetch() {
    __builtin_prefetch(next, 0, 2);
    next = next < last ? next + 64 : last;
  }
};

// What sums become before they are stored: relu(sum + bias).
struct Finish {
  const float* bias = nullptr;  // bias of columns; null: none
  bool relu = false;
};

// c [rows, cols of a panel] = finish((add ? c : 0) + a b) for rows of a that are
// TileKernel::kCopiedStride apart.
struct CopiedTile {
  const float* a = nullptr;
  const std::byte* b = nullptr;
  int64_t inner = 0;
  bool add = false;
  float* c = nullptr;
  int64_t stride = 0;
  Finish finish;
  Ahead ahead;
};

struct TileKernel {
  const char* name;
  DType type;  // that elements are rounded to
  int rows, cols, depth;
  int64_t element_bytes;  // in a panel
  // Rows of a left matrix and columns of a right one whose panels stay in the L2 cache together.
  int64_t row_block = 192, col_block = 256;

  // Panels of `width` lines of the left and of the right matrix, one after the other.
  void (*pack_left)(const Lines& lines, int64_t width, std::byte* to);
  void (*pack_right)(const Lines& lines, int64_t width, std::byte* to);

  // c [rows, cols] = (add ? c : 0) + a b for panels a and b of at least one line. Up to kOverread
  // bytes beyond the end of a panel may be read.
  static constexpr int64_t kOverread = 128;
  void (*multiply)(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
                   int64_t stride);

  // The same for 1 to kMostFewRows lines with an inner_step of 1, and all `cols` columns of panels
  // that are `panel_bytes` apart.
  static constexpr int64_t kMostFewRows = 4;
  void (*multiply_few)(const Lines& x, const std::byte* panels, int64_t panel_bytes, int64_t cols,
                       bool add, float* c, int64_t stride);

  // For 1 to most_copied_rows rows of up to kMostCopied elements. Null: there is none.
  static constexpr int64_t kMostCopied = 1024, kCopiedStride = kMostCopied + 16;
  int64_t most_copied_rows = 0;
  void (*multiply_copied)(int64_t rows, const CopiedTile& tile) = nullptr;

  // Where panels take more memory than floats, which counts where few rows pass them: the results
  // of multiply_few for 1 to kMostFloatRows rows by panels of floats, `panel_stride` apart, with
  // neither enter nor leave. Null: there is none.
  static constexpr int64_t kMostFloatRows = 16;
  void (*multiply_few_floats)(const Lines& x, const float* panels, int64_t panel_stride,
                              int64_t cols, bool add, float* c, int64_t stride) = nullptr;

  // What a thread does before and after products, if anything.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;

  // Multiply-adds in registers alone, `spin_flops` in a step: the limit of the arithmetic units.
  void (*spin)(int64_t steps);
  int64_t spin_flops;

  int64_t panel_bytes(int64_t width, int64_t inner) const {
    return width * ((inner + depth - 1) / depth * depth) * element_bytes;
  }
  // Size of all panels of `lines` lines, with what may be read beyond them.
  size_t bytes_for(int64_t lines, int64_t width, int64_t inner) const {
    return static_cast<size_t>((lines + width - 1) / width * panel_bytes(width, inner) + kOverread);
  }
};

// Kernels that this CPU can run, the fastest of a type first.
std::span<const TileKernel* const> tile_kernels();

// Environment variable: names of kernels to use instead of the fastest, separated by commas.
inline constexpr const char* kKernelVariable = "EMBLEM_CPU_KERNEL";

// How many pass a right matrix: many, as in training, or any number, whose results must not depend
// on it, as in predictions.
enum class Rows { kMany, kAny };

// The kernels of `names`, and otherwise the fastest of the type. Throws on a name that none has.
const TileKernel& choose_tile_kernel(DType type, std::string_view names, Rows rows = Rows::kMany);

// The one that this process uses.
const TileKernel& tile_kernel(DType type = DType::kF32, Rows rows = Rows::kMany);

// ---- by instruction set; those of other architectures are not there ----

extern const TileKernel kPlainTiles;
#if defined(__aarch64__)
extern const TileKernel kNeonTiles, kNeonBf16Tiles, kNeonInt8Tiles;
#elif defined(__x86_64__)
extern const TileKernel kAvx2Tiles, kAvx512Tiles, kAvx512Bf16Tiles, kAvx512VnniTiles, kAmxFp32Tiles,
    kAmxBf16Tiles, kAmxInt8Tiles;
#endif

// Memory of the calling thread, valid until its next call, for rows that are packed. Files that are
// compiled for an instruction set define no function that the linker might take for all others.
std::byte* packing_memory(int64_t bytes);

// bf16 or int8 by a kernel of fp32, the same in all calls, for CPUs without instructions for it.
const TileKernel& rounding_tiles(DType type, const TileKernel& fp32);

}  // namespace emblem::cpu
