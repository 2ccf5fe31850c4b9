// kernels/cpu/tile_product.h - products of matrices that lie in panels.
#pragma once

#include <cstdint>

#include "kernels/cpu/tile_kernel.h"

namespace emblem::cpu {

// How much of the inner dimension is multiplied at a time: panels of both matrices stay in the L1
// cache.
int64_t inner_block(int64_t inner);
// Blocks of about the same size, up to `most`, that are whole units of all kernels.
int64_t equal_blocks(int64_t inner, int64_t most);

// The same lines times a factor, in memory of the calling thread that is valid until its next call.
// A factor other than 1 is for fp32 only.
Lines scaled(const TileKernel& kernel, const Lines& a, float factor);

// c [rows of a, cols] = finish((add ? c : 0) + factor a b) for panels of b that are `panel_bytes`
// apart, on the calling thread.
void multiply_panels(const TileKernel& kernel, const Lines& a, float factor, const std::byte* b,
                     int64_t panel_bytes, int64_t cols, bool add, float* c, int64_t stride,
                     const Finish& finish = {});

// c [rows, cols] = (add ? c : 0) + a b for panels of both, one after the other.
void multiply_panels(const TileKernel& kernel, const std::byte* a, int64_t rows, int64_t inner,
                     const std::byte* b, int64_t cols, bool add, float* c, int64_t stride);

// multiply_panels() for up to TileKernel::kMostFloatRows rows and panels of floats, by
// TileKernel::multiply_few_floats.
void multiply_float_panels(const TileKernel& kernel, const Lines& a, const float* b, int64_t cols,
                           bool add, float* c, int64_t stride, const Finish& finish);

}  // namespace emblem::cpu
