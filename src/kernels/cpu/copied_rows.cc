#include "kernels/cpu/copied_rows.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/tile_product.h"

namespace emblem::cpu {
namespace {

constexpr int kMostCopiedTile = 16 * 32;  // floats, of all kernels with copied rows

// A tile at the right border of c.
void multiply_border(const TileKernel& kernel, int64_t rows, int64_t cols, CopiedTile tile) {
  float sums[kMostCopiedTile], bias[kMostCopiedTile] = {};
  float* c = tile.c;
  for (int64_t r = 0; tile.add && r < rows; ++r)
    std::copy_n(c + r * tile.stride, cols, sums + r * kernel.cols);
  if (tile.finish.bias != nullptr) std::copy_n(tile.finish.bias, cols, bias);
  if (tile.finish.bias != nullptr) tile.finish.bias = bias;
  const int64_t stride = std::exchange(tile.stride, kernel.cols);
  tile.c = sums;
  kernel.multiply_copied(rows, tile);
  for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * kernel.cols, cols, c + r * stride);
}

// One block of the inner dimension. Tiles are of about the same height: low ones are slower.
void multiply_block(const TileKernel& kernel, int64_t rows, CopiedTile all, int64_t panel_bytes,
                    int64_t cols, const std::byte* after) {
  const int64_t tiles = (rows + kernel.most_copied_rows - 1) / kernel.most_copied_rows;
  const int64_t bytes = kernel.panel_bytes(kernel.cols, all.inner);
  for (int64_t col = 0; col < cols; col += kernel.cols) {
    const std::byte* next = col + kernel.cols < cols ? all.b + panel_bytes : after;
    CopiedTile tile = all;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles, height = rows * (t + 1) / tiles - row;
      tile.a = all.a + row * TileKernel::kCopiedStride;
      tile.c = all.c + row * all.stride;
      tile.ahead = {next + bytes * t / tiles, next + bytes * (t + 1) / tiles};
      if (cols - col >= kernel.cols) {
        kernel.multiply_copied(height, tile);
      } else {
        multiply_border(kernel, height, cols - col, tile);
      }
    }
    all.b += panel_bytes;
    all.c += kernel.cols;
    if (all.finish.bias != nullptr) all.finish.bias += kernel.cols;
  }
}

}  // namespace

int64_t CopiedRows::block_size() const { return equal_blocks(inner, TileKernel::kMostCopied); }

int64_t CopiedRows::blocks() const { return (inner + block_size() - 1) / block_size(); }

size_t CopiedRows::floats_for(int64_t rows, int64_t inner) {
  const CopiedRows some{nullptr, rows, inner};
  return static_cast<size_t>(some.blocks() * rows * TileKernel::kCopiedStride);
}

void CopiedRows::copy(const Lines& from, int64_t begin, int64_t end) const {
  const int64_t size = block_size();
  for (int64_t number = 0, k = 0; k < inner; ++number, k += size) {
    for (int64_t r = begin; r < end; ++r) {
      std::copy_n(from.data + r * from.step + k, std::min(size, inner - k),
                  block(number) + r * TileKernel::kCopiedStride);
    }
  }
}

void multiply_copied(const TileKernel& kernel, const CopiedRows& x, const std::byte* b,
                     int64_t panel_bytes, int64_t cols, bool add, float* c, int64_t stride,
                     const Finish& finish, const std::byte* next) {
  const int64_t size = x.block_size();
  const auto panels = [&](int64_t k) { return b + kernel.panel_bytes(kernel.cols, k); };
  for (int64_t number = 0, k = 0; k < x.inner; ++number, k += size) {
    const bool last = k + size >= x.inner;
    multiply_block(kernel, x.rows,
                   {.a = x.block(number),
                    .b = panels(k),
                    .inner = std::min(size, x.inner - k),
                    .add = add || k > 0,
                    .c = c,
                    .stride = stride,
                    .finish = last ? finish : Finish{}},
                   panel_bytes, cols,
                   !last             ? panels(k + size)
                   : next != nullptr ? next
                                     : panels(k));
  }
}

}  // namespace emblem::cpu
