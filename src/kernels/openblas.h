// kernels/openblas.h - OpenBLAS without its threads. Only in builds with EMBLEM_GEMM_OPENBLAS.
#pragma once

#include "kernels/gemm.h"

namespace emblem::cpu {

// C = alpha op(A) op(B) + beta C on the calling thread; `inner` is the number of columns of op(A).
// The library is loaded by the first call. Throws kUnavailable when it cannot be loaded, and
// kOutOfMemory when there is no memory for the buffer that it packs matrices in. Thread-safe.
void openblas_gemm(Transpose transpose_a, Transpose transpose_b, float alpha, Matrix<const float> a,
                   Matrix<const float> b, int64_t inner, float beta, Matrix<float> c);

}  // namespace emblem::cpu
