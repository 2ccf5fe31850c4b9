// kernels/cpu/copied_rows.h - products of rows that were copied to where a kernel with
// TileKernel::multiply_copied reads them.
//
// Copies are cheaper than panels, and tiles of them may have any height. They are needed because
// rows that are a multiple of 4 KB apart share few places in the L1 cache.
#pragma once

#include "kernels/cpu/tile_kernel.h"

namespace emblem::cpu {

// Rows by blocks of the inner dimension: [blocks][rows][TileKernel::kCopiedStride]. Borrows its
// memory.
struct CopiedRows {
  float* data = nullptr;
  int64_t rows = 0, inner = 0;

  static size_t floats_for(int64_t rows, int64_t inner);
  // Size of a row in a block but the last.
  int64_t block_size() const;
  int64_t blocks() const;
  float* block(int64_t number) const { return data + number * rows * TileKernel::kCopiedStride; }

  // Copies rows [begin, end) of `from`, which has an inner_step of 1.
  void copy(const Lines& from, int64_t begin, int64_t end) const;
};

// c [x.rows, cols] = finish((add ? c : 0) + x b) for panels of b that are `panel_bytes` apart, on
// the calling thread. Every panel is read once; the next one comes into the L2 cache meanwhile,
// after the last one `next` (null: none).
void multiply_copied(const TileKernel& kernel, const CopiedRows& x, const std::byte* b,
                     int64_t panel_bytes, int64_t cols, bool add, float* c, int64_t stride,
                     const Finish& finish, const std::byte* next = nullptr);

}  // namespace emblem::cpu
