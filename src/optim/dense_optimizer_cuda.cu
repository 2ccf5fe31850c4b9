#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "optim/dense_update.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;

template <class R>
__global__ void __launch_bounds__(kThreads) update_kernel(R rule, DenseUpdate u) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= u.size) return;
  float weight = u.weights[i];
  const float gradient =
      u.scale * u.gradients[i] + (u.decay == nullptr ? 0.0f : u.decay[i] * weight);
  rule(gradient, weight, u.state + i, u.stride);
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

__device__ float widened(float value) { return value; }
__device__ float widened(F16 value) { return value.to_float(); }
__device__ float widened(Bf16 value) { return value.to_float(); }
__device__ void store(float* to, float value) { *to = value; }
template <class W>
__device__ void store(W* to, float value) {
  *to = W::from(value);
}

template <class W>
__global__ void __launch_bounds__(kThreads) clip_kernel(W* values, int64_t count, float limit) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const float value = widened(values[i]);
  if (value > limit) store(values + i, limit);  // NaN stays
  if (value < -limit) store(values + i, -limit);
}

template <class W>
void clip(const Context& context, AnyView values, float limit) {
  clip_kernel<<<blocks_of(values.size(), kThreads), kThreads, 0, context.stream>>>(
      static_cast<W*>(values.data), values.size(), limit);
  cuda_check(cudaGetLastError(), "launching the clipping of gradients");
}

__global__ void __launch_bounds__(kThreads)
    add_scaled_kernel(const float* values, int64_t count, float scale, float* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) to[i] += scale * values[i];
}

__global__ void __launch_bounds__(kThreads)
    move_towards_kernel(const float* values, int64_t count, float share, float* from) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) from[i] += share * (values[i] - from[i]);
}

__global__ void __launch_bounds__(kThreads) swap_kernel(float* a, float* b, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const float value = a[i];
  a[i] = b[i];
  b[i] = value;
}

}  // namespace

void update_dense(const Context& context, const Rule& rule, const DenseUpdate& update) {
  if (update.size == 0) return;
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (!R::kRowWise) {
          update_kernel<R>
              <<<blocks_of(update.size, kThreads), kThreads, 0, context.stream>>>(r, update);
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

void clip_by_value(const Context& context, AnyView values, float limit) {
  if (values.size() == 0) return;
  if (values.dtype == DType::kF32) return clip<float>(context, values, limit);
  if (values.dtype == DType::kF16) return clip<F16>(context, values, limit);
  clip<Bf16>(context, values, limit);
}

void add_scaled(const Context& context, View<const float> values, float scale, View<float> to) {
  if (values.size() == 0) return;
  add_scaled_kernel<<<blocks_of(values.size(), kThreads), kThreads, 0, context.stream>>>(
      values.data, values.size(), scale, to.data);
  cuda_check(cudaGetLastError(), "launching the sum of gradients");
}

void move_towards(const Context& context, View<const float> values, float share, View<float> from) {
  if (values.size() == 0) return;
  move_towards_kernel<<<blocks_of(values.size(), kThreads), kThreads, 0, context.stream>>>(
      values.data, values.size(), share, from.data);
  cuda_check(cudaGetLastError(), "launching the moving average of parameters");
}

void swap_values(const Context& context, View<float> a, View<float> b) {
  if (a.size() == 0) return;
  swap_kernel<<<blocks_of(a.size(), kThreads), kThreads, 0, context.stream>>>(a.data, b.data,
                                                                              a.size());
  cuda_check(cudaGetLastError(), "launching the exchange of parameters");
}

}  // namespace emblem::cuda
