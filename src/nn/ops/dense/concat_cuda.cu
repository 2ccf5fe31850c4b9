#include "core/memory/buffer.h"
#include "nn/ops/dense/columns.h"
#include "nn/ops/dense/concat.h"
#include "nn/ops/packet.cuh"

namespace emblem {
namespace {

constexpr int kMostConcatenated = 8;
template <class T>
struct Parts {
  const T* from[kMostConcatenated];
  int64_t stride[kMostConcatenated];
  int first[kMostConcatenated + 1];  // columns of the output
  int count;
};

// A thread writes a packet of a row of `to`, which has parts.first[parts.count] columns and then
// zeros.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    join_kernel(Parts<T> parts, int64_t rows, int64_t stride, T* to) {
  constexpr int kSize = cuda::Packet<T>::kSize;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  const int64_t in_row = stride / kSize;
  if (i >= rows * in_row) return;
  const int64_t r = cuda::row_of(i, in_row);
  const int begin = static_cast<int>(cuda::column_of(i, in_row)) * kSize;
  int part = 0;
  while (begin >= parts.first[part + 1]) ++part;
  const T* from = parts.from[part] + r * parts.stride[part] + begin - parts.first[part];
  cuda::Packet<T> values{};
  if (begin + kSize <= parts.first[part + 1] &&
      reinterpret_cast<uintptr_t>(from) % sizeof(values) == 0) {
    values = cuda::load_packet(from);
  } else {
#pragma unroll
    for (int k = 0; k < kSize; ++k) {
      while (part < parts.count && begin + k >= parts.first[part + 1]) ++part;
      if (part == parts.count) break;
      values.at[k] = parts.from[part][r * parts.stride[part] + begin + k - parts.first[part]];
    }
  }
  cuda::store_packet(to + r * stride + begin, values);
}

cuda::Columns values_of(const Tensor& of, int64_t rows) {
  return {of.dtype, of.value_data, rows, of.cols, of.stride};
}
cuda::Columns gradients_of(const Tensor& of, int64_t rows) {
  return {of.dtype, of.gradient_data, rows, of.cols, of.stride};
}
// Columns [first, first + cols) of it.
cuda::Columns part_of(const cuda::Columns& of, int64_t first, int64_t cols) {
  return {of.dtype,  static_cast<char*>(of.data) + first * size_of(of.dtype),
          of.rows,   cols,
          of.stride, false};
}

}  // namespace

void Concat::forward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    if (!cuda::in_packets<T>(out().stride) || inputs().size() > kMostConcatenated) {
      const cuda::Columns y = values_of(out(), pass.rows);
      for_each_part([&](size_t part, int64_t column) {
        cuda::copy_columns(pass.context, Write::kOverwrite, values_of(in(part), pass.rows), 0,
                           part_of(y, column, in(part).cols));
      });
      return;
    }
    Parts<T> parts{};
    parts.count = static_cast<int>(inputs().size());
    for_each_part([&](size_t part, int64_t column) {
      parts.from[part] = in(part).value<T>();
      parts.stride[part] = in(part).stride;
      parts.first[part] = static_cast<int>(column);
    });
    parts.first[parts.count] = static_cast<int>(out().cols);
    const int64_t packets = pass.rows * out().stride / cuda::Packet<T>::kSize;
    join_kernel<T>
        <<<cuda::blocks_of(packets, cuda::kThreads), cuda::kThreads, 0, pass.context.stream>>>(
            parts, pass.rows, out().stride, out().value<T>());
    cuda::check_launch("launching a concatenation");
  });
}

void Concat::backward_cuda(const OpContext& pass) {
  for_each_part([&](size_t part, int64_t column) {
    cuda::copy_columns(pass.context, write(part), gradients_of(out(), pass.rows), column,
                       gradients_of(in(part), pass.rows));
  });
}

void Slice::forward_cuda(const OpContext& pass) {
  cuda::copy_columns(pass.context, Write::kOverwrite, values_of(in(0), pass.rows), first_,
                     values_of(out(), pass.rows));
}

void Slice::backward_cuda(const OpContext& pass) {
  const cuda::Columns dx = gradients_of(in(0), pass.rows);
  if (write(0) == Write::kOverwrite)
    detail::zero(pass.context, dx.data, pass.rows * dx.stride * size_of(dx.dtype));
  cuda::copy_columns(pass.context, Write::kAdd, gradients_of(out(), pass.rows), 0,
                     part_of(dx, first_, out().cols));
}

}  // namespace emblem
