#include "nn/ops/dense/elementwise.h"
#include "nn/ops/packet.cuh"

namespace emblem {
namespace {

template <class F>
struct Activate {
  F f;
  __device__ float operator()(int64_t, float x) const { return f.value(x); }
};
template <class F>
struct Deactivate {
  F f;
  __device__ float operator()(int64_t, float dy, float kept) const { return dy * f.slope(kept); }
};
struct Product {
  __device__ float operator()(int64_t, float a, float b) const { return a * b; }
};
struct Scaled {
  float factor;
  __device__ float operator()(int64_t, float x) const { return factor * x; }
};

// The sigmoid of a value of type T, as exact as results of that type need it.
template <class T>
__device__ float sigmoid_for(float z) {
  if constexpr (std::is_same_v<T, float>) return sigmoid_inline(z);
  return __fdividef(1.0f, 1.0f + __expf(-z));
}
template <class T>
struct Gated {
  float factor;
  __device__ float operator()(int64_t, float x, float z) const {
    return x * (factor * sigmoid_for<T>(z));
  }
};

constexpr size_t kMostParts = 8;  // parts of a sum that a kernel adds

template <class T>
struct AddParts {
  const T* from[kMostParts];
  size_t count;
  T* to;
  Write write;

  template <int kSize>
  __device__ void run(int64_t i) const {
    float sums[kSize] = {};
    for (size_t part = 0; part < count; ++part) {
      const auto values = cuda::load_elements<kSize>(from[part] + i);
#pragma unroll
      for (int k = 0; k < kSize; ++k) sums[k] += cuda::widen(values.at[k]);
    }
    cuda::put_elements<kSize>(write, to + i, [&](int k) { return sums[k]; });
  }
};

// Inputs may share a gradient: what is written to one before is read again.
template <class T>
struct SpreadToParts {
  const T* from;
  T* to[kMostParts];
  Write writes[kMostParts];
  size_t count;

  template <int kSize>
  __device__ void run(int64_t i) const {
    const auto values = cuda::load_elements<kSize>(from + i);
    for (size_t part = 0; part < count; ++part)
      cuda::put_elements<kSize>(writes[part], to[part] + i,
                                [&](int k) { return cuda::widen(values.at[k]); });
  }
};
template <class T>
struct MultiplyBackward {
  const T *a, *b, *dy;
  T *da, *db;
  Write write_a, write_b;

  template <int kSize>
  __device__ void run(int64_t i) const {
    using cuda::widen;
    const auto left = cuda::load_elements<kSize>(a + i), right = cuda::load_elements<kSize>(b + i),
               d = cuda::load_elements<kSize>(dy + i);
    cuda::put_elements<kSize>(write_a, da + i,
                              [&](int k) { return widen(d.at[k]) * widen(right.at[k]); });
    cuda::put_elements<kSize>(write_b, db + i,
                              [&](int k) { return widen(d.at[k]) * widen(left.at[k]); });
  }
};
template <class T>
struct GatedBackward {
  float factor;
  const T *x, *z, *dy;
  T *dx, *dz;
  Write write_x, write_z;

  template <int kSize>
  __device__ void run(int64_t i) const {
    using cuda::widen;
    const auto values = cuda::load_elements<kSize>(x + i), d = cuda::load_elements<kSize>(dy + i),
               gates = cuda::load_elements<kSize>(z + i);
    float s[kSize];
#pragma unroll
    for (int k = 0; k < kSize; ++k) s[k] = sigmoid_for<T>(widen(gates.at[k]));
    cuda::put_elements<kSize>(write_x, dx + i,
                              [&](int k) { return widen(d.at[k]) * (factor * s[k]); });
    cuda::put_elements<kSize>(write_z, dz + i, [&](int k) {
      return widen(d.at[k]) * widen(values.at[k]) * (factor * s[k] * (1.0f - s[k]));
    });
  }
};

// Rows of `stride` elements, padded with zeros.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    row_sum_kernel(int64_t rows, int64_t cols, int64_t stride, const T* x, T* y) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < cols; j += cuda::kWarp) sum += cuda::widen(x[r * stride + j]);
  sum = cuda::warp_sum(sum);
  if (threadIdx.x == 0) y[r] = cuda::narrow<T>(sum);
}

template <bool kAdd, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    spread_row_kernel(int64_t rows, int64_t cols, int64_t stride, const T* dy, T* dx) {
  const int64_t r = cuda::row_of_warp();
  if (r >= rows) return;
  const float d = cuda::widen(dy[r]);
  for (int64_t j = threadIdx.x; j < stride; j += cuda::kWarp)
    cuda::put<kAdd>(dx[r * stride + j], j < cols ? d : 0.0f);
}

}  // namespace

void ActivationOp::forward_cuda(const OpContext& pass) {
  const int64_t count = pass.rows * out().stride;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(activation_, [&](auto f) {
      cuda::map(pass.context, Write::kOverwrite, count, Activate<decltype(f)>{f}, out().value<T>(),
                in(0).value<T>());
    });
  });
}

void ActivationOp::backward_cuda(const OpContext& pass) {
  const int64_t count = pass.rows * out().stride;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_activation(activation_, [&](auto f) {
      cuda::map(pass.context, write(0), count, Deactivate<decltype(f)>{f}, in(0).gradient<T>(),
                out().gradient<T>(), f.kFromOutput ? out().value<T>() : in(0).value<T>());
    });
  });
}

void Sum::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t first = 0; first < inputs().size(); first += kMostParts) {
      AddParts<T> some{.count = std::min(kMostParts, inputs().size() - first),
                       .to = out().value<T>(),
                       .write = first == 0 ? Write::kOverwrite : Write::kAdd};
      for (size_t part = 0; part < some.count; ++part)
        some.from[part] = in(first + part).value<T>();
      cuda::for_each_packet<T>(pass.context, pass.rows * out().stride, some);
    }
  });
}

void Sum::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    for (size_t first = 0; first < inputs().size(); first += kMostParts) {
      SpreadToParts<T> some{.from = out().gradient<T>(),
                            .count = std::min(kMostParts, inputs().size() - first)};
      for (size_t part = 0; part < some.count; ++part) {
        some.to[part] = in(first + part).gradient<T>();
        some.writes[part] = write(first + part);
      }
      cuda::for_each_packet<T>(pass.context, pass.rows * out().stride, some);
    }
  });
}

void Multiply::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().stride, Product{},
              out().value<T>(), in(0).value<T>(), in(1).value<T>());
  });
}

void Multiply::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const MultiplyBackward<T> b{in(0).value<T>(),
                                in(1).value<T>(),
                                out().gradient<T>(),
                                in(0).gradient<T>(),
                                in(1).gradient<T>(),
                                write(0),
                                write(1)};
    cuda::for_each_packet<T>(pass.context, pass.rows * out().stride, b);
  });
}

void Scale::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().stride, Scaled{factor_},
              out().value<T>(), in(0).value<T>());
  });
}

void Scale::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, write(0), pass.rows * out().stride, Scaled{factor_},
              in(0).gradient<T>(), out().gradient<T>());
  });
}

void ScaleBySigmoid::forward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::map(pass.context, Write::kOverwrite, pass.rows * out().stride, Gated<T>{factor_},
              out().value<T>(), in(0).value<T>(), in(1).value<T>());
  });
}

void ScaleBySigmoid::backward_cuda(const OpContext& pass) {
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const GatedBackward<T> b{factor_,
                             in(0).value<T>(),
                             in(1).value<T>(),
                             out().gradient<T>(),
                             in(0).gradient<T>(),
                             in(1).gradient<T>(),
                             write(0),
                             write(1)};
    cuda::for_each_packet<T>(pass.context, pass.rows * out().stride, b);
  });
}

void RowSum::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const int64_t cols = in(0).cols / out().cols, stride = in(0).stride / out().cols;
  const int64_t sums = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    row_sum_kernel<<<cuda::row_blocks(sums), cuda::row_threads(), 0, pass.context.stream>>>(
        sums, cols, stride, in(0).value<const T>(), out().value<T>());
    cuda::check_launch("launching a sum over columns");
  });
}

void RowSum::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  const int64_t cols = in(0).cols / out().cols, stride = in(0).stride / out().cols;
  const int64_t sums = pass.rows * out().cols;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      spread_row_kernel<decltype(add)::value>
          <<<cuda::row_blocks(sums), cuda::row_threads(), 0, pass.context.stream>>>(
              sums, cols, stride, out().gradient<const T>(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of a sum over columns");
    });
  });
}

}  // namespace emblem
