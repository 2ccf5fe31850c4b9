#include "nn/ops/attention/attention_pool.h"
#include "nn/ops/lanes.cuh"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace {

using namespace cuda;

// A warp for each row, which leaves the softmax of its scores in `weights`.
template <class T>
__device__ void softmax_of_row(int32_t begin, int32_t end, const T* scores, float* weights) {
  float most = -INFINITY, sum = 0.0f;
  for (int32_t e = begin + threadIdx.x; e < end; e += kWarp) most = fmaxf(most, widen(scores[e]));
  most = warp_max(most);
  for (int32_t e = begin + threadIdx.x; e < end; e += kWarp) {
    weights[e] = expf(widen(scores[e]) - most);
    sum += weights[e];
  }
  sum = warp_sum(sum);
  for (int32_t e = begin + threadIdx.x; e < end; e += kWarp) weights[e] /= sum;
  __syncwarp();
}

template <int kSize, class T>
__global__ void __launch_bounds__(kThreads)
    attention_pool_kernel(int64_t rows, int packets, const int32_t* offsets, const T* scores,
                          const T* x, float* weights, T* y) {
  const int64_t r = row_of_warp(), cols = int64_t{packets} * kSize;
  if (r >= rows) return;
  const int32_t begin = offsets[r], end = offsets[r + 1];
  softmax_of_row(begin, end, scores, weights);
  const LaneGroups groups(packets);
  for (int first = 0; first < packets; first += groups.lanes) {
    const int packet = first + groups.lane();
    float sums[kSize] = {};
    for (int32_t e = begin + groups.group(); packet < packets && e < end; e += groups.count) {
      const auto values = load_elements<kSize>(x + e * cols + packet * kSize);
#pragma unroll
      for (int k = 0; k < kSize; ++k) sums[k] += weights[e] * widen(values.at[k]);
    }
#pragma unroll
    for (int k = 0; k < kSize; ++k) sums[k] = groups.sum_over_groups(sums[k]);
    if (groups.group() == 0 && packet < packets)
      write_packet(Write::kOverwrite, sums, y + r * cols + packet * kSize);
  }
}

template <class T>
struct PoolGradients {
  const T *dy, *x;
  const float* weights;
  float* slopes;
  T *dscores, *dx;
  Write write_scores, write_x;
};

// The gradient of the scores first: they may be x itself.
template <int kSize, class T>
__global__ void __launch_bounds__(kThreads)
    attention_pool_gradients_kernel(int64_t rows, int packets, const int32_t* offsets,
                                    PoolGradients<T> of) {
  const int64_t r = row_of_warp(), cols = int64_t{packets} * kSize;
  if (r >= rows) return;
  const int32_t begin = offsets[r], end = offsets[r + 1];
  const LaneGroups groups(packets);
  float mean = 0.0f;
  for (int32_t first = begin; first < end; first += groups.count) {
    const int32_t e = first + groups.group();
    const float weight = e < end ? of.weights[e] : 0.0f;
    float slope = 0.0f;
    for (int packet = groups.lane(); e < end && packet < packets; packet += groups.lanes) {
      const auto dy = load_elements<kSize>(of.dy + r * cols + packet * kSize);
      const auto x = load_elements<kSize>(of.x + e * cols + packet * kSize);
#pragma unroll
      for (int k = 0; k < kSize; ++k) slope += widen(dy.at[k]) * widen(x.at[k]);
    }
    slope = groups.sum_of_group(slope);
    if (groups.lane() == 0 && e < end) {
      of.slopes[e] = slope;
      mean += weight * slope;
    }
  }
  mean = warp_sum(mean);
  __syncwarp();
  for (int32_t e = begin + threadIdx.x; e < end; e += kWarp) {
    const float d[1] = {of.weights[e] * (of.slopes[e] - mean)};
    write_packet(of.write_scores, d, of.dscores + e);
  }
  if (of.write_x == Write::kNone) return;
  __syncwarp();
  for (int packet = groups.lane(); packet < packets; packet += groups.lanes) {
    const auto dy = load_elements<kSize>(of.dy + r * cols + packet * kSize);
    for (int32_t e = begin + groups.group(); e < end; e += groups.count) {
      float dx[kSize];
#pragma unroll
      for (int k = 0; k < kSize; ++k) dx[k] = of.weights[e] * widen(dy.at[k]);
      write_packet(of.write_x, dx, of.dx + e * cols + packet * kSize);
    }
  }
}

}  // namespace

void AttentionPool::forward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_size<T>(out().cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      attention_pool_kernel<kSize, T>
          <<<row_blocks(pass.batch_rows), row_threads(), 0, pass.context.stream>>>(
              pass.batch_rows, static_cast<int>(out().cols / kSize), pass.offsets, in(0).value<T>(),
              in(1).value<T>(), weights_.data(), out().value<T>());
      check_launch("launching an attention pool");
    });
  });
}

void AttentionPool::backward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const PoolGradients<T> of{
        out().gradient<T>(), in(1).value<T>(),    weights_.data(), slopes_.data(),
        in(0).gradient<T>(), in(1).gradient<T>(), write(0),        write(1)};
    with_size<T>(out().cols, [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      attention_pool_gradients_kernel<kSize, T>
          <<<row_blocks(pass.batch_rows), row_threads(), 0, pass.context.stream>>>(
              pass.batch_rows, static_cast<int>(out().cols / kSize), pass.offsets, of);
      check_launch("launching the gradient of an attention pool");
    });
  });
  for (size_t i : {0, 1}) {
    if (write(i) == Write::kOverwrite)
      clear_padding(pass, in(i).dtype, in(i).cols, in(i).gradient_data);
  }
}

}  // namespace emblem
