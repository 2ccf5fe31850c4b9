#include "nn/ops/loss/distillation.h"
#include "nn/ops/loss/loss_cuda.cuh"

namespace emblem {
namespace {

// A warp for each row.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    distillation_rows_kernel(Graph::Similarity similarity, int64_t rows, int64_t cols, const T* x,
                             const T* y, DistillationRow* to) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float squares = 0.0f, product = 0.0f, x_square = 0.0f, y_square = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) {
    const float a = cuda::widen(x[r * cols + j]), b = cuda::widen(y[r * cols + j]);
    squares += (a - b) * (a - b);
    product += a * b;
    x_square += a * a;
    y_square += b * b;
  }
  squares = cuda::warp_sum(squares);
  product = cuda::warp_sum(product);
  x_square = cuda::warp_sum(x_square);
  y_square = cuda::warp_sum(y_square);
  if (threadIdx.x == 0)
    to[r] = DistillationRow::of(similarity, cols, squares, product, x_square, y_square);
}

struct RowLossOf {
  const DistillationRow* rows;
  __device__ double operator()(int64_t r) const { return rows[r].loss; }
};

__global__ void finish_kernel(Graph::Similarity similarity, const double* mean, int64_t rows,
                              float factor, double* loss) {
  *loss = distillation_value(similarity, *mean, rows, factor);
}

struct Slope {
  Graph::Similarity similarity;
  const DistillationRow* of;
  RowTargets targets;
  const double *mean, *total_weight;
  float factor;
  int64_t rows, cols;
  const StepInputs* step;
  __device__ float operator()(int64_t i, float x, float y) const {
    const int64_t r = i / cols;
    const float share =
        step->loss_scale * distillation_share(similarity, *mean, rows, *total_weight, factor);
    return share * targets.weight_of(r) * of[r].slope(similarity, cols, x, y);
  }
};

}  // namespace

void DistillationLoss::forward_cuda(const OpContext& pass) {
  if (is_off(pass)) return detail::zero(pass.context, value(pass), sizeof(double));
  auto* rows = reinterpret_cast<DistillationRow*>(rows_.data());
  cuda::with_type(in(0).dtype, [&](auto type) {
    using T = decltype(type);
    if (pass.rows > 0) {
      distillation_rows_kernel<<<cuda::row_blocks(pass.rows), cuda::row_threads(), 0,
                                 pass.context.stream>>>(
          similarity_, pass.rows, in(0).cols, in(0).value<const T>(), in(1).value<const T>(), rows);
      cuda::check_launch("launching a distillation loss");
    }
  });
  cuda::mean_loss(pass, RowLossOf{rows}, row_targets(), 1.0f, total_weight().data(), mean_.data());
  finish_kernel<<<1, 1, 0, pass.context.stream>>>(similarity_, mean_.data(), pass.rows,
                                                  factor(pass), value(pass));
  cuda::check_launch("launching the end of a distillation loss");
}

void DistillationLoss::backward_cuda(const OpContext& pass) {
  const int64_t cols = in(0).cols;
  cuda::with_type(in(0).dtype, [&](auto type) {
    using T = decltype(type);
    const Slope slope{similarity_,
                      reinterpret_cast<DistillationRow*>(rows_.data()),
                      row_targets(),
                      mean_.data(),
                      total_weight().data(),
                      factor(pass),
                      pass.rows,
                      cols,
                      pass.step};
    cuda::map(pass.context, write(0), pass.rows * cols, slope, in(0).gradient<T>(),
              in(0).value<T>(), in(1).value<T>());
  });
}

}  // namespace emblem
