// Products of bf16 and int8 in the matrix registers of AMX.
#if defined(__x86_64__)
#include "kernels/cpu/amx_tiles.h"

namespace emblem::cpu {
namespace {

// TileKernel's functions. Groups says how elements are packed; sums are of 4 bytes.
template <class Groups>
struct Amx {
  static constexpr bool kIsInt8 = Groups::kDepth == 4;
  static constexpr int64_t kDepth = Groups::kDepth * kGroups;

  // [inner / kDepth][width][kDepth]
  static void pack_left(const Lines& from, int64_t width, std::byte* to) {
    const int64_t blocks = (from.inner + kDepth - 1) / kDepth;
    __m512i rows[kGroups];
    for_each_block(from, width, kDepth, [&](int64_t first, int64_t k) {
      std::byte* at = to + (blocks * first + k / kDepth * width) * kTileBytes;
      for (int64_t line = 0; line < width; line += kGroups) {
        load_groups<Groups>(from, first + line, k, false, rows);
        for (int64_t i = 0; i < std::min(kGroups, width - line); ++i)
          _mm512_storeu_si512(at + (line + i) * kTileBytes, rows[i]);
      }
    });
  }

  static void pack_right(const Lines& from, int64_t width, std::byte* to) {
    pack_groups<Groups>(from, width, kGroups, to);
  }

  // Sums += left x right; numbers of registers are parts of instructions.
#define EMBLEM_MULTIPLY(sums, left, right) \
  do {                                     \
    if constexpr (kIsInt8) {               \
      _tile_dpbssd(sums, left, right);     \
    } else {                               \
      _tile_dpbf16ps(sums, left, right);   \
    }                                      \
  } while (false)

  static void multiply_tile(const std::byte* a, const std::byte* b, int64_t inner) {
    for (int64_t k = 0; k < inner; k += kDepth, a += kBlockBytes, b += kBlockBytes) {
      _tile_loadd(6, b, kRightStride);
      _tile_loadd(4, a, kTileBytes);
      EMBLEM_MULTIPLY(0, 4, 6);
      _tile_loadd(7, b + kTileBytes, kRightStride);
      EMBLEM_MULTIPLY(1, 4, 7);
      _tile_loadd(5, a + kTileRows * kTileBytes, kTileBytes);
      EMBLEM_MULTIPLY(2, 5, 6);
      EMBLEM_MULTIPLY(3, 5, 7);
    }
  }

  // Up to kMostFewRows rows and one panel.
  static void multiply_few_tile(const std::byte* a, const std::byte* b, int64_t inner) {
    for (int64_t k = 0; k < inner; k += kDepth, b += kBlockBytes) {
      _tile_loadd(4, a, kTileBytes);
      a += TileKernel::kMostFewRows * kTileBytes;
      _tile_loadd(6, b, kRightStride);
      EMBLEM_MULTIPLY(0, 4, 6);
      _tile_loadd(7, b + kTileBytes, kRightStride);
      EMBLEM_MULTIPLY(1, 4, 7);
    }
  }

  // c [rows, cols] = (add ? c : 0) + sums [rows, kCols]
  static void add_sums(const int32_t* sums, int64_t rows, int64_t cols, bool add, float* c,
                       int64_t stride) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < cols; ++j) {
        const float sum = kIsInt8 ? static_cast<float>(sums[r * kCols + j])
                                  : __builtin_bit_cast(float, sums[r * kCols + j]);
        c[r * stride + j] = (add ? c[r * stride + j] : 0.0f) + sum;
      }
    }
  }

  static void multiply(const std::byte* a, const std::byte* b, int64_t inner, bool add, float* c,
                       int64_t stride) {
    clear_sums();
    multiply_tile(a, b, inner);
    alignas(64) int32_t sums[kRows * kCols];
    const bool in_place = !kIsInt8 && !add;
    store_sums(in_place ? static_cast<void*>(c) : sums, in_place ? stride : kCols);
    if (!in_place) add_sums(sums, kRows, kCols, add, c, stride);
  }

  static void multiply_few(const Lines& x, const std::byte* panels, int64_t panel_bytes,
                           int64_t cols, bool add, float* c, int64_t stride) {
    const int64_t blocks = (x.inner + kDepth - 1) / kDepth;
    std::byte* const rounded = packing_memory(blocks * TileKernel::kMostFewRows * kTileBytes);
    pack_left(x, TileKernel::kMostFewRows, rounded);
    finish_stores();
    enter_few(x.count);
    for (int64_t col = 0; col < cols; col += kCols, panels += panel_bytes) {
      _tile_zero(0);
      _tile_zero(1);
      multiply_few_tile(rounded, panels, x.inner);
      alignas(64) int32_t sums[TileKernel::kMostFewRows * kCols];
      _tile_stored(0, sums, kCols * 4);
      _tile_stored(1, sums + 16, kCols * 4);
      add_sums(sums, x.count, std::min<int64_t>(kCols, cols - col), add, c + col, stride);
    }
    enter();
  }

  static void spin(int64_t steps) {
    enter();
    clear_sums();
    _tile_zero(4);
    _tile_zero(6);
    for (int64_t step = 0; step < steps; ++step) {
      EMBLEM_MULTIPLY(0, 4, 6);
      EMBLEM_MULTIPLY(1, 4, 6);
      EMBLEM_MULTIPLY(2, 4, 6);
      EMBLEM_MULTIPLY(3, 4, 6);
    }
    leave();
  }
#undef EMBLEM_MULTIPLY

  static constexpr TileKernel kernel(const char* name, DType type) {
    return {.name = name,
            .type = type,
            .rows = kRows,
            .cols = kCols,
            .depth = kDepth,
            .element_bytes = kTileBytes / kDepth,
            .pack_left = pack_left,
            .pack_right = pack_right,
            .multiply = multiply,
            .multiply_few = multiply_few,
            .enter = enter,
            .leave = leave,
            .spin = spin,
            .spin_flops = 4 * 16 * 16 * kDepth * 2};
  }
};

}  // namespace

const TileKernel kAmxBf16Tiles = Amx<Bf16Groups>::kernel("amx_bf16", DType::kBf16);
const TileKernel kAmxInt8Tiles = Amx<Int8Groups<0>>::kernel("amx_int8", DType::kInt8);

}  // namespace emblem::cpu
#endif
