// kernels/tile_gemm.h - products of matrices by a tile kernel, where the inner dimension is not
// empty.
#pragma once

#include "core/device/context.h"
#include "kernels/cpu/tile_kernel.h"
#include "kernels/gemm.h"

namespace emblem::cpu {

// gemm(): the threads of `context` pack both matrices once, and share the panels.
void tile_gemm(const Context& context, const TileKernel& kernel, Transpose transpose_a,
               Transpose transpose_b, float alpha, Matrix<const float> a, Matrix<const float> b,
               int64_t inner, float beta, Matrix<float> c);

// gemm_block(): a part of A at a time, which stays in the cache.
void tile_gemm(const TileKernel& kernel, Transpose transpose_a, Transpose transpose_b, float alpha,
               Matrix<const float> a, Matrix<const float> b, int64_t inner, float beta,
               Matrix<float> c);

}  // namespace emblem::cpu
