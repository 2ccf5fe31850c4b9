#include "nn/ops/loss/loss.h"
#include "nn/ops/loss/loss_cuda.cuh"

namespace emblem {
namespace {

template <class T>
struct Columns {
  const T* row;
  __device__ float operator()(int64_t c) const { return cuda::widen(row[c]); }
};

template <class Formula, class T>
struct RowValue {
  Formula formula;
  const T* logits;
  int64_t cols;
  RowTargets targets;
  __device__ double operator()(int64_t r) const {
    return formula.value(Columns<T>{logits + r * cols}, cols, targets.label_of(r));
  }
};

template <bool kAdd, class T>
struct PutScaled {
  T* to;
  float factor;
  __device__ void operator()(int64_t c, float slope) const {
    cuda::put<kAdd>(to[c], factor * slope);
  }
};

// A thread for each row.
template <bool kAdd, class Formula, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    slopes_kernel(Formula formula, RowTargets targets, int64_t rows, int64_t cols, const T* logits,
                  const double* total_weight, float factor, const StepInputs* step, T* gradient) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (r >= rows) return;
  const float weight = step->loss_scale * share_of(*total_weight, factor) * targets.weight_of(r);
  formula.slopes(Columns<T>{logits + r * cols}, cols, targets.label_of(r),
                 PutScaled<kAdd, T>{gradient + r * cols, weight});
}

}  // namespace

void RowLoss::forward_cuda(const OpContext& pass) {
  if (is_off(pass)) return detail::zero(pass.context, value(pass), sizeof(double));
  const Tensor& logits = in(0);
  const RowTargets targets = row_targets();
  with_formula([&](const auto& formula) {
    using Formula = std::decay_t<decltype(formula)>;
    cuda::with_type(logits.dtype, [&](auto type) {
      using T = decltype(type);
      cuda::mean_loss(pass, RowValue<Formula, T>{formula, logits.value<T>(), logits.cols, targets},
                      targets, target().factor, total_weight().data(), value(pass));
    });
  });
}

void RowLoss::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const Tensor& logits = in(0);
  with_formula([&](const auto& formula) {
    cuda::with_type(logits.dtype, [&](auto type) {
      using T = decltype(type);
      with_write(write(0), [&](auto add) {
        slopes_kernel<decltype(add)::value><<<cuda::blocks_of(pass.rows, cuda::kThreads),
                                              cuda::kThreads, 0, pass.context.stream>>>(
            formula, row_targets(), pass.rows, logits.cols, logits.value<const T>(),
            total_weight().data(), target().factor, pass.step, logits.gradient<T>());
        cuda::check_launch("launching the gradient of a loss");
      });
    });
  });
}

}  // namespace emblem
