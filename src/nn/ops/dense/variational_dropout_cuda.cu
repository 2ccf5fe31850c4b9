#include "nn/ops/dense/dropout.h"
#include "nn/ops/dense/variational_dropout.h"
#include "nn/ops/launch.cuh"

namespace emblem {
namespace {

__global__ void __launch_bounds__(cuda::kThreads)
    draw_kernel(int64_t count, int64_t features, uint64_t seed, uint64_t stream,
                const StepInputs* step, bool trains, const float* theta, float* dropped) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (i >= count) return;
  const float of = theta[i % features];
  stream = Dropout::stream_of(stream, step->draw);
  dropped[i] = trains ? VariationalDropout::draw(seed, stream, i, of) : sigmoid_inline(of);
}

// One thread: there are few features.
__global__ void penalty_kernel(int64_t features, int64_t rows, float lambda, const float* theta,
                               double* loss) {
  double kept = 0.0;
  for (int64_t f = 0; f < features; ++f) kept += 1.0f - sigmoid_inline(theta[f]);
  *loss = rows == 0 ? 0.0 : lambda * kept / static_cast<double>(rows);
}

__global__ void __launch_bounds__(cuda::kThreads)
    finish_gradient_kernel(int64_t features, int64_t rows, float lambda, const float* theta,
                           const StepInputs* step, float* gradient) {
  const int64_t f = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (f >= features) return;
  gradient[f] = gradient[f] * VariationalDropout::logit_slope(theta[f]) +
                step->loss_scale * VariationalDropout::penalty_slope(theta[f], lambda, rows);
}

struct Keep {
  const float* dropped;
  const int32_t* feature_of;
  int64_t cols, features;
  __device__ float operator()(int64_t i, float x) const {
    return x * (1.0f - dropped[i / cols * features + feature_of[i % cols]]);
  }
};

template <class T>
struct ToLogit {
  const T *x, *dy;
  const float* dropped;
  const int32_t* begins;
  int64_t cols, features;
  __device__ void operator()(int64_t r, int64_t f, float (&sums)[1]) const {
    float product = 0.0f;
    for (int64_t i = r * cols + begins[f]; i < r * cols + begins[f + 1]; ++i)
      product += cuda::widen(x[i]) * cuda::widen(dy[i]);
    const float b = dropped[r * features + f];
    sums[0] = -product * b * (1.0f - b) / VariationalDropout::kTemperature;
  }
};

}  // namespace

void VariationalDropout::forward_cuda(const OpContext& pass) {
  const cudaStream_t stream = pass.context.stream;
  const float* theta = pass.parameters + theta_;
  const int64_t count = pass.rows * features_, cols = out().cols;
  if (count > 0) {
    draw_kernel<<<cuda::blocks_of(count, cuda::kThreads), cuda::kThreads, 0, stream>>>(
        count, features_, pass.seed, stream_, pass.step, pass.phase == Phase::kTrain, theta,
        dropped_.data());
    cuda::check_launch("launching the draw of a variational dropout");
  }
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * cols,
              Keep{dropped_.data(), feature_of_.data(), cols, features_}, out().value<T>(),
              in(0).value<T>());
  });
  penalty_kernel<<<1, 1, 0, stream>>>(features_, pass.rows, lambda_, theta, pass.losses + slot_);
  cuda::check_launch("launching the loss of a variational dropout");
}

void VariationalDropout::backward_cuda(const OpContext& pass) {
  const int64_t cols = out().cols;
  float* gradient = pass.gradients + theta_;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const T* dy = out().gradient<T>();
    cuda::column_sums<1>(
        pass.context, pass.rows, features_,
        ToLogit<T>{in(0).value<T>(), dy, dropped_.data(), device_begins_.data(), cols, features_},
        pass.workspace, {{gradient}});
    cuda::map(pass.context, write(0), pass.rows * cols,
              Keep{dropped_.data(), feature_of_.data(), cols, features_}, in(0).gradient<T>(), dy);
  });
  finish_gradient_kernel<<<cuda::blocks_of(features_, cuda::kThreads), cuda::kThreads, 0,
                           pass.context.stream>>>(features_, pass.rows, lambda_,
                                                  pass.parameters + theta_, pass.step, gradient);
  cuda::check_launch("launching the gradient of a variational dropout");
}

}  // namespace emblem
