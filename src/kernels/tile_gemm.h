// kernels/tile_gemm.h - products of matrices by a tile kernel.
#pragma once

#include "kernels/cpu/tile_kernel.h"
#include "kernels/gemm.h"

namespace emblem::cpu {

// gemm_block() where the inner dimension is not empty.
void tile_gemm(const TileKernel& kernel, Transpose transpose_a, Transpose transpose_b, float alpha,
               Matrix<const float> a, Matrix<const float> b, int64_t inner, float beta,
               Matrix<float> c);

}  // namespace emblem::cpu
