#include "nn/ops/packet.cuh"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace cuda {
namespace {

__device__ float share_of_length(Divide divide, int32_t length) {
  return divide == Divide::kNone || length == 0 ? 1.0f : 1.0f / static_cast<float>(length);
}

// A thread for kSize columns of an element.
template <int kSize, bool kAdd, class T>
__global__ void __launch_bounds__(kThreads)
    spread_rows_kernel(int64_t elements, unsigned in_row, Divide divide, const int32_t* offsets,
                       const int32_t* row_of, const T* from, T* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements * in_row) return;
  const int64_t e = i / in_row, j = i % in_row * kSize, cols = int64_t{in_row} * kSize;
  const int32_t r = row_of[e];
  Elements<T, kSize> values{};
  if (kAdd && r < 0) return;
  if (kAdd) values = load_elements<kSize>(to + e * cols + j);
  if (r >= 0) {
    const float share = share_of_length(divide, offsets[r + 1] - offsets[r]);
    const auto source = load_elements<kSize>(from + r * cols + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) put<kAdd>(values.at[k], share * widen(source.at[k]));
  }
  store_packet(to + e * cols + j, values);
}

// A thread for kSize columns of a row, over its elements from one to the next.
template <int kSize, bool kAdd, class T>
__global__ void __launch_bounds__(kThreads)
    sum_segments_kernel(int64_t rows, unsigned in_row, Divide divide, const int32_t* offsets,
                        const T* from, T* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= rows * in_row) return;
  const int64_t r = i / in_row, j = i % in_row * kSize, cols = int64_t{in_row} * kSize;
  const int32_t begin = offsets[r], end = offsets[r + 1];
  float sums[kSize] = {};
#pragma unroll 4
  for (int64_t e = begin; e < end; ++e) {
    const auto values = load_elements<kSize>(from + e * cols + j);
#pragma unroll
    for (int k = 0; k < kSize; ++k) sums[k] += widen(values.at[k]);
  }
  const float share = share_of_length(divide, end - begin);
  Elements<T, kSize> values{};
  if (kAdd) values = load_elements<kSize>(to + r * cols + j);
#pragma unroll
  for (int k = 0; k < kSize; ++k) put<kAdd>(values.at[k], share * sums[k]);
  store_packet(to + r * cols + j, values);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    clear_padding_kernel(int64_t rows, int64_t cols, const int32_t* real_rows, T* to) {
  const int64_t first = *real_rows * cols;
  const int64_t i = first + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < rows * cols) to[i] = narrow<T>(0.0f);
}

}  // namespace

void spread_rows(const OpContext& pass, Divide divide, DType type, const void* from, int64_t cols,
                 Write write, void* to) {
  if (pass.rows == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_write(write, [&](auto add) {
      with_size<T>(cols, [&](auto size) {
        constexpr int kSize = decltype(size)::value;
        const int64_t in_row = cols / kSize;
        spread_rows_kernel<kSize, decltype(add)::value>
            <<<blocks_of(pass.rows * in_row, kThreads), kThreads, 0, pass.context.stream>>>(
                pass.rows, static_cast<unsigned>(in_row), divide, pass.offsets, pass.row_of,
                static_cast<const T*>(from), static_cast<T*>(to));
        check_launch("launching a repetition of rows");
      });
    });
  });
}

void sum_segments(const OpContext& pass, Divide divide, DType type, const void* from, int64_t cols,
                  Write write, void* to) {
  if (pass.batch_rows == 0) return;
  with_type(type, [&](auto t) {
    using T = decltype(t);
    with_write(write, [&](auto add) {
      with_size<T>(cols, [&](auto size) {
        constexpr int kSize = decltype(size)::value;
        const int64_t in_row = cols / kSize;
        sum_segments_kernel<kSize, decltype(add)::value>
            <<<blocks_of(pass.batch_rows * in_row, kThreads), kThreads, 0, pass.context.stream>>>(
                pass.batch_rows, static_cast<unsigned>(in_row), divide, pass.offsets,
                static_cast<const T*>(from), static_cast<T*>(to));
        check_launch("launching sums over elements");
      });
    });
  });
}

void clear_padding(const OpContext& pass, DType type, int64_t cols, void* to) {
  if (pass.rows == 0) return;
  const int64_t most = pass.rows / 16 + 1;  // rows of padding
  with_type(type, [&](auto t) {
    using T = decltype(t);
    clear_padding_kernel<<<blocks_of(most * cols, kThreads), kThreads, 0, pass.context.stream>>>(
        pass.rows, cols, pass.real_rows, static_cast<T*>(to));
    check_launch("launching the clearing of padding");
  });
}

// A thread for a column of a window of a row.
template <class T>
__global__ void __launch_bounds__(kThreads)
    window_means_kernel(int64_t rows, int64_t cols, WindowMeans::Windows windows,
                        const int32_t* offsets, const T* x, T* y) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= rows * windows.count * cols) return;
  const int64_t r = i / (windows.count * cols), j = i % cols;
  const int w = static_cast<int>(i / cols % windows.count);
  const int32_t first = offsets[r], length = offsets[r + 1] - first;
  const int32_t begin = windows.begin(w), end = min(windows.ends[w], length);
  float sum = 0.0f;
  for (int64_t e = first + begin; e < first + end; ++e) sum += widen(x[e * cols + j]);
  y[i] = narrow<T>(begin < end ? sum / static_cast<float>(end - begin) : 0.0f);
}

// A thread for a column of an element.
template <bool kAdd, class T>
__global__ void __launch_bounds__(kThreads)
    spread_windows_kernel(int64_t elements, int64_t cols, WindowMeans::Windows windows,
                          const int32_t* offsets, const int32_t* row_of, const T* dy, T* dx) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements * cols) return;
  const int64_t e = i / cols, j = i % cols;
  const int32_t r = row_of[e];
  float d = 0.0f;
  if (r >= 0) {
    const int32_t length = offsets[r + 1] - offsets[r];
    const auto at = static_cast<int32_t>(e - offsets[r]);
    int w = 0;
    while (w < windows.count && at >= windows.ends[w]) ++w;
    if (w < windows.count) {
      const int32_t count = min(windows.ends[w], length) - windows.begin(w);
      d = widen(dy[(int64_t{r} * windows.count + w) * cols + j]) / static_cast<float>(count);
    }
  }
  put<kAdd>(dx[i], d);
}

}  // namespace cuda

void Repeat::forward_cuda(const OpContext& pass) {
  cuda::spread_rows(pass, Divide::kNone, out().dtype, in(0).value_data, out().cols,
                    Write::kOverwrite, out().value_data);
}
void Repeat::backward_cuda(const OpContext& pass) {
  cuda::sum_segments(pass, Divide::kNone, out().dtype, out().gradient_data, out().cols, write(0),
                     in(0).gradient_data);
}

void SegmentSum::forward_cuda(const OpContext& pass) {
  cuda::sum_segments(pass, divide_, out().dtype, in(0).value_data, out().cols, Write::kOverwrite,
                     out().value_data);
}
void SegmentSum::backward_cuda(const OpContext& pass) {
  cuda::spread_rows(pass, divide_, out().dtype, out().gradient_data, out().cols, write(0),
                    in(0).gradient_data);
}

void WindowMeans::forward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    cuda::window_means_kernel<T><<<cuda::blocks_of(pass.batch_rows * out().cols, cuda::kThreads),
                                   cuda::kThreads, 0, pass.context.stream>>>(
        pass.batch_rows, in(0).cols, windows_, pass.offsets, in(0).value<T>(), out().value<T>());
    cuda::check_launch("launching means of windows");
  });
}

void WindowMeans::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    with_write(write(0), [&](auto add) {
      cuda::spread_windows_kernel<decltype(add)::value, T>
          <<<cuda::blocks_of(pass.rows * in(0).cols, cuda::kThreads), cuda::kThreads, 0,
             pass.context.stream>>>(pass.rows, in(0).cols, windows_, pass.offsets, pass.row_of,
                                    out().gradient<T>(), in(0).gradient<T>());
      cuda::check_launch("launching the gradient of means of windows");
    });
  });
}

}  // namespace emblem
