#include "core/cuda_check.h"
#include "optim/dense_update.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_of(int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <class R>
__global__ void __launch_bounds__(kThreads) update_kernel(R rule, DenseUpdate u) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= u.size) return;
  float weight = u.weights[i];
  const float gradient =
      u.scale * u.gradients[i] + (u.decay == nullptr ? 0.0f : u.decay[i] * weight);
  rule(gradient, weight, u.state + i, u.size);
  u.weights[i] = weight;
}

// The sum over a block, in thread 0, in a fixed order.
__device__ double block_sum(double value) {
  __shared__ double shared[kThreads];
  shared[threadIdx.x] = value;
  for (int distance = kThreads / 2; distance > 0; distance /= 2) {
    __syncthreads();
    if (threadIdx.x < distance) shared[threadIdx.x] += shared[threadIdx.x + distance];
  }
  __syncthreads();
  return shared[0];
}

__global__ void __launch_bounds__(kThreads)
    square_kernel(const float* values, int64_t count, double* parts) {
  double sum = 0.0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += stride) {
    sum += static_cast<double>(values[i]) * values[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_kernel(const double* parts, double* result) {
  static_assert(kNormParts == kThreads);
  const double sum = block_sum(parts[threadIdx.x]);
  if (threadIdx.x == 0) *result = sum;
}

__global__ void __launch_bounds__(kThreads) clip_kernel(float* values, int64_t count, float limit) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const float value = values[i];
  values[i] = value > limit ? limit : (value < -limit ? -limit : value);  // NaN stays
}

}  // namespace

void update_dense(const Context& context, const Rule& rule, const DenseUpdate& update) {
  if (update.size == 0) return;
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (!R::kRowWise) {
          update_kernel<R><<<blocks_of(update.size), kThreads, 0, context.stream>>>(r, update);
          cuda_check(cudaGetLastError(), "launching the update of dense parameters");
        }
      },
      rule);
}

void squared_norm(const Context& context, View<const float> values, double* parts, double* result) {
  square_kernel<<<kNormParts, kThreads, 0, context.stream>>>(values.data, values.size(), parts);
  cuda_check(cudaGetLastError(), "launching the norm of gradients");
  add_kernel<<<1, kThreads, 0, context.stream>>>(parts, result);
  cuda_check(cudaGetLastError(), "launching the norm of gradients");
}

void clip_by_value(const Context& context, View<float> values, float limit) {
  if (values.size() == 0) return;
  clip_kernel<<<blocks_of(values.size()), kThreads, 0, context.stream>>>(values.data, values.size(),
                                                                         limit);
  cuda_check(cudaGetLastError(), "launching the clipping of gradients");
}

}  // namespace emblem::cuda
