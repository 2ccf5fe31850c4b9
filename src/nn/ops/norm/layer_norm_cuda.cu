#include "nn/ops/dense/activation.h"
#include "nn/ops/norm/norm.h"
#include "nn/ops/vectors/packed_sums.cuh"

namespace emblem {
namespace {

using cuda::load_elements, cuda::widen, cuda::narrow;

// Vectors of `cols` elements, `stride` from one to the next, which are padded with zeros; some
// lanes of a warp for each, which take kSize elements at a time.
struct Vectors {
  int64_t count, cols, stride;
  int lanes;

  // body(j) for the packets of a lane.
  template <int kSize, class Body>
  __device__ void each(Body&& body) const {
    for (int64_t j = threadIdx.x % lanes * kSize; j < cols; j += lanes * kSize) body(j);
  }
  __device__ float mean(float sum) const {
    return cuda::lane_sum(sum, lanes) / static_cast<float>(cols);
  }
};

template <class F, int kSize, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    layer_norm_kernel(Vectors of, const T* x, const float* scale, const float* shift, T* y,
                      float* moments) {
  const int64_t r = cuda::row_of_lanes(of.lanes);
  if (r >= of.count) return;
  x += r * of.stride, y += r * of.stride;
  float sum = 0.0f, square = 0.0f;
  of.each<kSize>([&](int64_t j) {
    const auto values = load_elements<kSize>(x + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) sum += widen(values.at[k]);
  });
  const float mean = of.mean(sum);
  of.each<kSize>([&](int64_t j) {
    const auto values = load_elements<kSize>(x + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float apart = j + k < of.cols ? widen(values.at[k]) - mean : 0.0f;
      square += apart * apart;
    }
  });
  const float inverse = 1.0f / sqrtf(of.mean(square) + LayerNorm::kEpsilon);
  if (threadIdx.x % of.lanes == 0) {
    moments[2 * r] = mean;
    moments[2 * r + 1] = inverse;
  }
  of.each<kSize>([&](int64_t j) {
    auto values = load_elements<kSize>(x + j);
    const auto scales = load_elements<kSize>(scale + j), shifts = load_elements<kSize>(shift + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float z = (widen(values.at[k]) - mean) * inverse * scales.at[k] + shifts.at[k];
      values.at[k] = narrow<T>(j + k < of.cols ? F::value(z) : 0.0f);
    }
    cuda::store_packet(y + j, values);
  });
}

// dz = dy f'(y), in place, and what it adds to the gradients of shift and scale.
template <class F, int kSize, class T>
struct RowGradients {
  struct Loaded {
    cuda::Elements<T, kSize> x, y, d;
    float mean, inverse;
  };
  const T *x, *y;
  const float* moments;
  T* dz;
  int64_t stride;

  __device__ Loaded load(int64_t r, int64_t j) const {
    const int64_t i = r * stride + j;
    return {load_elements<kSize>(x + i), load_elements<kSize>(y + i), load_elements<kSize>(dz + i),
            moments[2 * r], moments[2 * r + 1]};
  }
  __device__ void add(int64_t r, int64_t j, const Loaded& loaded, float (&sums)[2][kSize]) const {
    cuda::Elements<T, kSize> to;
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float d = widen(loaded.d.at[k]) * F::slope(widen(loaded.y.at[k]));
      sums[0][k] += d;
      sums[1][k] += d * (widen(loaded.x.at[k]) - loaded.mean) * loaded.inverse;
      to.at[k] = narrow<T>(d);
    }
    if (!std::is_same_v<F, activations::None>) cuda::store_packet(dz + r * stride + j, to);
  }
};

template <int kSize, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    layer_norm_to_input_kernel(Vectors of, const T* x, const T* dz, const float* scale,
                               const float* moments, Write write, T* dx) {
  const int64_t r = cuda::row_of_lanes(of.lanes);
  if (r >= of.count) return;
  x += r * of.stride, dz += r * of.stride, dx += r * of.stride;
  const float mean = moments[2 * r], inverse = moments[2 * r + 1];
  float plain = 0.0f, scaled = 0.0f;
  of.each<kSize>([&](int64_t j) {
    const auto values = load_elements<kSize>(x + j), d = load_elements<kSize>(dz + j);
    const auto scales = load_elements<kSize>(scale + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      const float through = widen(d.at[k]) * scales.at[k];
      plain += through;
      scaled += through * (widen(values.at[k]) - mean) * inverse;
    }
  });
  plain = of.mean(plain);
  scaled = of.mean(scaled);
  of.each<kSize>([&](int64_t j) {
    const auto values = load_elements<kSize>(x + j), d = load_elements<kSize>(dz + j);
    const auto scales = load_elements<kSize>(scale + j);
    cuda::put_elements<kSize>(write, dx + j, [&](int k) {
      const float normalized = (widen(values.at[k]) - mean) * inverse;
      const float through = widen(d.at[k]) * scales.at[k] - plain - normalized * scaled;
      return j + k < of.cols ? inverse * through : 0.0f;
    });
  });
}

template <int kSize>
Vectors vectors_of(int64_t count, int64_t cols, int64_t stride) {
  return {count, cols, stride, cuda::lanes_for((cols + kSize - 1) / kSize)};
}

}  // namespace

void LayerNorm::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::with_size<T>(vector_stride(), [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      const Vectors of = vectors_of<kSize>(vectors(pass), cols_, vector_stride());
      with_fused_activation(activation_, [&](auto f) {
        layer_norm_kernel<decltype(f), kSize, T>
            <<<cuda::lane_blocks(of.count, of.lanes), cuda::kThreads, 0, pass.context.stream>>>(
                of, in(0).value<T>(), pass.parameters + scale_, pass.parameters + shift_,
                out().value<T>(), moments_.data());
        cuda::check_launch("launching a layer norm");
      });
    });
  });
}

void LayerNorm::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::with_size<T>(vector_stride(), [&](auto size) {
      constexpr int kSize = decltype(size)::value;
      const Vectors of = vectors_of<kSize>(vectors(pass), cols_, vector_stride());
      with_fused_activation(activation_, [&](auto f) {
        const RowGradients<decltype(f), kSize, T> gradients{
            in(0).value<T>(), out().value<T>(), moments_.data(), out().gradient<T>(), of.stride};
        cuda::packed_column_sums<2, kSize>(
            pass, of.count, of.stride, gradients,
            {{{pass.gradients + shift_, cols_}, {pass.gradients + scale_, cols_}}});
      });
      if (of.count == 0 || write(0) == Write::kNone) return;
      layer_norm_to_input_kernel<kSize, T>
          <<<cuda::lane_blocks(of.count, of.lanes), cuda::kThreads, 0, pass.context.stream>>>(
              of, in(0).value<T>(), out().gradient<T>(), pass.parameters + scale_, moments_.data(),
              write(0), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a layer norm");
    });
  });
}

}  // namespace emblem
