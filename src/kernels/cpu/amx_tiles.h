// kernels/cpu/amx_tiles.h - the matrix registers of AMX for tiles of 32 x 32: four of sums, two of
// each matrix. What is here is local to the file that includes it, which is compiled for them.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>

#include "kernels/cpu/avx512_groups.h"

namespace emblem::cpu {
namespace {

constexpr int kRows = 32, kCols = 32;
constexpr int64_t kTileRows = 16, kTileBytes = 64;   // shape of a matrix register
constexpr int64_t kBlockBytes = kRows * kTileBytes;  // bytes of a panel for 16 groups
constexpr int64_t kRightStride = kCols * kGroupBytes;

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

constexpr TileShapes shapes_for(int64_t rows) {
  TileShapes shapes;
  for (int i = 0; i < 8; ++i) {
    shapes.row_bytes[i] = kTileBytes;
    // 0 to 3 are sums, 4 and 5 rows of the left matrix, 6 and 7 groups of the right one.
    shapes.rows[i] = static_cast<uint8_t>(i < 6 ? rows : kTileRows);
  }
  return shapes;
}

inline void enter() {
  static constexpr TileShapes kShapes = shapes_for(kTileRows);
  _tile_loadconfig(&kShapes);
}
inline void leave() { _tile_release(); }

// Prepares products of 1 to kTileRows rows; enter() ends it.
inline void enter_few(int64_t rows) {
  static constexpr auto kShapes = [] {
    std::array<TileShapes, kTileRows> shapes;
    for (int64_t i = 0; i < kTileRows; ++i) shapes[i] = shapes_for(i + 1);
    return shapes;
  }();
  _tile_loadconfig(&kShapes[rows - 1]);
}

// What was stored is in memory: GCC 12 does not know that registers are loaded from there.
inline void finish_stores() { __asm__ volatile("" : : : "memory"); }

inline void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

// Sums from rows that are `stride` floats apart.
inline void load_sums(const float* from, int64_t stride) {
  _tile_loadd(0, from, stride * 4);
  _tile_loadd(1, from + kCols / 2, stride * 4);
  _tile_loadd(2, from + kTileRows * stride, stride * 4);
  _tile_loadd(3, from + kTileRows * stride + kCols / 2, stride * 4);
}

// Sums to rows that are `stride` elements of 4 bytes apart.
inline void store_sums(void* to, int64_t stride) {
  std::byte* const bytes = static_cast<std::byte*>(to);
  _tile_stored(0, bytes, stride * 4);
  _tile_stored(1, bytes + kTileBytes, stride * 4);
  _tile_stored(2, bytes + kTileRows * stride * 4, stride * 4);
  _tile_stored(3, bytes + kTileRows * stride * 4 + kTileBytes, stride * 4);
}

}  // namespace
}  // namespace emblem::cpu
