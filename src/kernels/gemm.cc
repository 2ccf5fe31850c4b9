#include "kernels/gemm.h"

namespace emblem {

void gemm(const Context& context, Transpose transpose_a, Transpose transpose_b, float alpha,
          Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c, DType type) {
  const bool turn_a = transpose_a == Transpose::kYes, turn_b = transpose_b == Transpose::kYes;
  const int64_t m = turn_a ? a.cols : a.rows, inner = turn_a ? a.rows : a.cols;
  const int64_t inner_b = turn_b ? b.cols : b.rows, n = turn_b ? b.rows : b.cols;
  EMBLEM_REQUIRE(inner == inner_b && c.rows == m && c.cols == n, "gemm: op(A) is [", m, ", ", inner,
                 "] and op(B) [", inner_b, ", ", n, "], but C is [", c.rows, ", ", c.cols, "]");
  EMBLEM_REQUIRE(a.stride >= a.cols && b.stride >= b.cols && c.stride >= c.cols, "gemm: rows of ",
                 a.cols, ", ", b.cols, " and ", c.cols, " floats overlap at strides ", a.stride,
                 ", ", b.stride, " and ", c.stride);
  EMBLEM_REQUIRE(context.device == Device::kCpu, "gemm runs on a CPU, but the context's device is ",
                 context.device, "; use cuda::Matmul");
  cpu::gemm(context, transpose_a, transpose_b, alpha, a, b, beta, c, type);
}

}  // namespace emblem
