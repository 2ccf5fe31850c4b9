#include "nn/ops/dense/columns.h"
#include "nn/ops/packet.cuh"

namespace emblem::cuda {
namespace {

// to = (or +=) from, rows of `cols` columns, kWidth at a time.
template <int kWidth, bool kAdd, class T>
__global__ void __launch_bounds__(kThreads) transfer_kernel(Matrix<const T> from, Matrix<T> to) {
  const int64_t in_row = to.cols / kWidth;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= to.rows * in_row) return;
  const int64_t r = row_of(i, in_row), j = column_of(i, in_row) * kWidth;
  const T* source = from.data + r * from.stride + j;
  T* target = to.data + r * to.stride + j;
  if constexpr (kWidth == 4) {
    Four<T> values;
    if (kAdd) values = load_four(target);
    map_four<kAdd>(Copy{}, i, values, load_four(source));
    store_four(target, values);
  } else {
    put<kAdd>(*target, widen(*source));
  }
}

template <class T>
bool in_fours(Matrix<T> m) {
  return m.cols % 4 == 0 && m.stride % 4 == 0 &&
         reinterpret_cast<uintptr_t>(m.data) % (4 * sizeof(T)) == 0;
}

template <class T>
void transfer(const Context& context, Write write, Matrix<const T> from, Matrix<T> to) {
  if (to.rows == 0) return;
  with_write(write, [&](auto add) {
    constexpr bool kAdd = decltype(add)::value;
    const bool wide = in_fours(from) && in_fours(to);
    const unsigned blocks = blocks_of(to.rows * to.cols / (wide ? 4 : 1), kThreads);
    if (wide) {
      transfer_kernel<4, kAdd><<<blocks, kThreads, 0, context.stream>>>(from, to);
    } else {
      transfer_kernel<1, kAdd><<<blocks, kThreads, 0, context.stream>>>(from, to);
    }
    check_launch("launching a copy of columns");
  });
}

// One packet of a row per thread. kWhole: whether rows can be read in packets too; else they may
// begin at odd places.
template <bool kWhole, bool kAdd, class T>
__global__ void __launch_bounds__(kThreads)
    take_kernel(Matrix<const T> from, int64_t stride, T* to) {
  constexpr int kSize = Packet<T>::kSize;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t in_row = stride / kSize;
  if (i >= from.rows * in_row) return;
  const int64_t r = row_of(i, in_row), j = column_of(i, in_row) * kSize;
  const T* source = from.data + r * from.stride + j;
  T* target = to + r * stride + j;
  Packet<T> values{}, read{};
  if (kAdd) values = load_packet(target);
  if (kWhole) read = load_packet(source);
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    if (kWhole || j + k < from.cols)
      put<kAdd>(values.at[k], widen(kWhole ? read.at[k] : source[k]));
  }
  store_packet(target, values);
}

// Whether all of it can be read in packets.
template <class T>
bool in_whole_packets(Matrix<const T> m) {
  return in_packets<T>(m.cols) && in_packets<T>(m.stride) &&
         reinterpret_cast<uintptr_t>(m.data) % sizeof(Packet<T>) == 0;
}

}  // namespace

void copy_columns(const Context& context, Write write, const Columns& from, int64_t first,
                  const Columns& to) {
  if (to.rows == 0) return;
  with_type(to.dtype, [&](auto type) {
    using T = decltype(type);
    const Matrix<const T> source = from.matrix<const T>().block(0, first, to.rows, to.cols);
    if (!to.are_all || !in_packets<T>(to.stride))
      return transfer(context, write, source, to.matrix<T>());
    with_write(write, [&](auto add) {
      constexpr bool kAdd = decltype(add)::value;
      const int64_t packets = to.rows * to.stride / Packet<T>::kSize;
      auto* kernel =
          in_whole_packets(source) ? take_kernel<true, kAdd, T> : take_kernel<false, kAdd, T>;
      kernel<<<blocks_of(packets, kThreads), kThreads, 0, context.stream>>>(
          source, to.stride, static_cast<T*>(to.data));
      check_launch("launching a copy of columns");
    });
  });
}

}  // namespace emblem::cuda
