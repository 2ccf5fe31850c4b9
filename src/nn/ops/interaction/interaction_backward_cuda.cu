#include "nn/ops/interaction/interaction_tensor.cuh"

namespace emblem {
namespace {

using namespace cuda;

constexpr int kWarpsOfGradients = 4;  // in a block

template <int kWidth, class T>
__device__ void put_sum(const Vectors<T>& in, const Targets<T>& targets, int64_t r, int v, int d,
                        const T* dy, Floats<kWidth> sum) {
  const bool is_first = in.first != nullptr && v == 0;
  const Write write = is_first ? targets.write_first : targets.write_x;
  if (write == Write::kNone) return;
  T* to = is_first ? targets.first + r * in.dim + d
                   : targets.x + (r * in.in_x() + v - (in.first != nullptr ? 1 : 0)) * in.dim + d;
  if (is_first) {  // the output starts with it
    for (int k = 0; k < kWidth; ++k) sum.at[k] += widen(dy[d + k]);
  }
  if (write == Write::kAdd) {
    const Floats<kWidth> before = load<kWidth>(to);
    for (int k = 0; k < kWidth; ++k) sum.at[k] += before.at[k];
  }
  store<kWidth>(to, sum);
}

// The gradients of the pairs of a row as a full symmetric matrix with zeros on the diagonal and in
// the columns from count to stride.
template <class T>
__device__ void unfold_pairs(const T* pairs, int count, int stride, float* full) {
  for (int i = threadIdx.x; i < count * stride; i += kWarp) full[i] = 0.0f;
  __syncwarp();
  for (int i = 1; i < count; ++i) {
    for (int j = threadIdx.x; j < i; j += kWarp)
      full[i * stride + j] = full[j * stride + i] = widen(pairs[first_pair_of(i) + j]);
  }
  __syncwarp();
}

// A warp for each row; its lanes share the positions of the vectors, kWidth each, and hold the sums
// of kBlock vectors.
template <int kWidth, int kBlock, class T>
__global__ void __launch_bounds__(kWarp* kWarpsOfGradients, 3)
    pair_gradients_kernel(Vectors<T> in, const T* dy, int64_t y_stride, int stride,
                          Targets<T> targets) {
  constexpr int kUnrolled = kWidth * kBlock > 64 ? 2 : 4;  // more would not fit into registers
  extern __shared__ float4 shared[];
  const int64_t r = row_of_warp();
  if (r >= in.rows) return;
  float* full = reinterpret_cast<float*>(shared) + threadIdx.y * in.count * stride;
  dy += r * y_stride;
  unfold_pairs(dy + (in.first == nullptr ? 0 : in.dim), in.count, stride, full);
  for (int begin = 0; begin < in.count; begin += kBlock) {
    for (int d = threadIdx.x * kWidth; d < in.dim; d += kWarp * kWidth) {
      Floats<kWidth> sums[kBlock] = {};
#pragma unroll kUnrolled
      for (int j = 0; j < in.count; ++j) {
        const Floats<kWidth> value = load<kWidth>(in.at(r, j) + d);
#pragma unroll
        for (int a = 0; a < kBlock; a += 4) {
          const Floats<4> weight = load<4>(full + j * stride + begin + a);
#pragma unroll
          for (int b = 0; b < 4; ++b) {
#pragma unroll
            for (int k = 0; k < kWidth; ++k) sums[a + b].at[k] += weight.at[b] * value.at[k];
          }
        }
      }
#pragma unroll
      for (int a = 0; a < kBlock; ++a) {
        if (begin + a < in.count) put_sum<kWidth>(in, targets, r, begin + a, d, dy, sums[a]);
      }
    }
  }
}

// For more vectors than fit into shared memory: a warp for each vector of each row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    long_pair_gradients_kernel(Vectors<T> in, const T* dy, int64_t y_stride, Targets<T> targets) {
  const int64_t item = row_of_warp();
  if (item >= in.rows * in.count) return;
  const int64_t r = item / in.count;
  const int i = static_cast<int>(item % in.count);
  dy += r * y_stride;
  const T* pairs = dy + (in.first == nullptr ? 0 : in.dim);
  for (int d = threadIdx.x; d < in.dim; d += kWarp) {
    Floats<1> sum = {};
    for (int j = 0; j < in.count; ++j) {
      if (j != i) sum.at[0] += widen(pairs[pair_of(i, j)]) * widen(in.at(r, j)[d]);
    }
    put_sum<1>(in, targets, r, i, d, dy, sum);
  }
}

template <int kWidth, int kBlock, class T>
void launch_gradients(const Context& context, const Vectors<T>& in, const T* dy, int64_t y_stride,
                      const Targets<T>& targets) {
  const int stride = static_cast<int>(round_up(in.count, kBlock));
  const size_t bytes = static_cast<size_t>(in.count) * stride * sizeof(float);
  if (bytes > kMostShared) {
    long_pair_gradients_kernel<T>
        <<<row_blocks(in.rows * in.count), row_threads(), 0, context.stream>>>(in, dy, y_stride,
                                                                               targets);
    return;
  }
  const unsigned warps = warps_of(bytes, kWarpsOfGradients);
  allow_shared_memory(pair_gradients_kernel<kWidth, kBlock, T>);
  pair_gradients_kernel<kWidth, kBlock, T>
      <<<blocks_of(in.rows, warps), dim3(kWarp, warps), warps * bytes, context.stream>>>(
          in, dy, y_stride, stride, targets);
}

template <int kWidth, class T>
void launch_gradients(const Context& context, const Vectors<T>& in, const T* dy, int64_t y_stride,
                      const Targets<T>& targets) {
  if (in.count <= 8) return launch_gradients<kWidth, 8>(context, in, dy, y_stride, targets);
  if (in.count <= 16) return launch_gradients<kWidth, 16>(context, in, dy, y_stride, targets);
  launch_gradients<kWidth, 28>(context, in, dy, y_stride, targets);
}

}  // namespace

void Interaction::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Vectors<T> in{has_first_ ? this->in(0).value<T>() : nullptr, x().value<T>(), pass.rows,
                        static_cast<int>(vectors_), static_cast<int>(dim_)};
    const Targets<T> targets{has_first_ ? this->in(0).gradient<T>() : nullptr, x().gradient<T>(),
                             has_first_ ? write(0) : Write::kNone, write(has_first_)};
    const T* dy = out().gradient<T>();
    if constexpr (!std::is_same_v<T, float>) {
      if (fits_tensor_cores(in)) {
        tensor_pair_gradients(pass.context, in, dy, out().stride, targets);
        return;
      }
    }
    // Wide enough that few lanes idle.
    if (dim_ % 4 == 0 && dim_ > 64) {
      launch_gradients<4>(pass.context, in, dy, out().stride, targets);
    } else if (dim_ % 2 == 0 && dim_ > 32) {
      launch_gradients<2>(pass.context, in, dy, out().stride, targets);
    } else {
      launch_gradients<1>(pass.context, in, dy, out().stride, targets);
    }
    cuda::check_launch("launching the gradient of an interaction");
  });
}

}  // namespace emblem
