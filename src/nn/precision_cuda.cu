#include "nn/ops/launch.cuh"
#include "nn/precision.h"

namespace emblem::cuda {
namespace {

struct CopyFinite {
  int* overflow;
  __device__ float operator()(int64_t, float x) const {
    if (!isfinite(x)) *overflow = 1;  // all writers write the same value
    return x;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    find_overflow_kernel(const T* values, int64_t count, int* overflow) {
  const int64_t begin = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
  Four<T> four{};
  if (begin + 4 <= count) {
    four = load_four(values + begin);
  } else {
    for (int64_t i = begin; i < count; ++i) four.at[i - begin] = values[i];
  }
  for (const T value : four.at) {
    if (!isfinite(widen(value))) *overflow = 1;
  }
}

struct Pad {
  Matrix<const float> from;
  int64_t stride;
  __device__ float operator()(int64_t i) const {
    const int64_t r = row_of(i, stride), j = column_of(i, stride);
    return r < from.rows && j < from.cols ? from.data[r * from.stride + j] : 0.0f;
  }
};
struct CutRow {
  const float* from;
  int64_t cols, stride;
  __device__ float operator()(int64_t i) const {
    return from[row_of(i, cols) * stride + column_of(i, cols)];
  }
};

__global__ void __launch_bounds__(kThreads)
    find_rows_kernel(const int32_t* offsets, int64_t rows, int64_t elements, int32_t* row_of) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (e >= elements) return;
  if (e >= offsets[rows]) {
    row_of[e] = -1;
    return;
  }
  int64_t low = 0, high = rows;  // offsets[low] <= e < offsets[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (offsets[middle] <= e ? low : high) = middle;
  }
  row_of[e] = static_cast<int32_t>(low);
}

__global__ void set_step_kernel(StepInputs values, StepInputs* to) { *to = values; }

}  // namespace

void set_step(const Context& context, const StepInputs& values, StepInputs* to) {
  set_step_kernel<<<1, 1, 0, context.stream>>>(values, to);
  check_launch("launching the values of a step");
}

void find_rows(const Context& context, const int32_t* offsets, int64_t rows, int64_t elements,
               int32_t* row_of) {
  if (elements == 0) return;
  find_rows_kernel<<<blocks_of(elements, kThreads), kThreads, 0, context.stream>>>(
      offsets, rows, elements, row_of);
  check_launch("launching the search for the rows of elements");
}

void narrow_values(const Context& context, const float* from, DType type, void* to, int64_t count) {
  with_type(type, [&](auto t) {
    map(context, Write::kOverwrite, count, Copy{}, static_cast<decltype(t)*>(to), from);
  });
}

void widen_values(const Context& context, DType type, const void* from, float* to, int64_t count,
                  int* overflow) {
  with_type(type, [&](auto t) {
    const auto* values = static_cast<const decltype(t)*>(from);
    if (overflow == nullptr)
      map(context, Write::kOverwrite, count, Copy{}, to, values);
    else
      map(context, Write::kOverwrite, count, CopyFinite{overflow}, to, values);
  });
}

void narrow_matrix(const Context& context, Matrix<const float> from, DType type, void* to,
                   int64_t rows, int64_t stride) {
  if (rows == from.rows && stride == from.cols)
    return narrow_values(context, from.data, type, to, rows * stride);
  with_type(type, [&](auto t) {
    using T = decltype(t);
    map(context, Write::kOverwrite, rows * stride, Pad{from, stride}, static_cast<T*>(to));
  });
}

void copy_rows(const Context& context, const float* from, float* to, int64_t rows, int64_t cols,
               int64_t stride) {
  map(context, Write::kOverwrite, rows * cols, CutRow{from, cols, stride}, to);
}

void find_overflow(const Context& context, DType type, const void* values, int64_t count,
                   int* overflow) {
  if (count == 0) return;
  with_type(type, [&](auto t) {
    find_overflow_kernel<<<blocks_of(count, 4 * kThreads), kThreads, 0, context.stream>>>(
        static_cast<const decltype(t)*>(values), count, overflow);
  });
  check_launch("launching the search for an overflow");
}

}  // namespace emblem::cuda
