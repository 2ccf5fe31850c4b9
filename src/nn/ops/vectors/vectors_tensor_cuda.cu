#include "nn/ops/vectors/vectors_tensor.cuh"

namespace emblem::cuda {
namespace {

// A matrix as an operand: rows of the left one, columns of the right one.
template <class T>
struct Operand {
  const T* data;
  int count, inner, stride, inner_stride;
  bool in_pairs;  // elements k and k + 1, for an even k, are in one word
  // Elements k and k + 1 of row (or column) i; 0 outside.
  __device__ uint32_t two(int i, int k) const {
    if (i >= count || k >= inner) return 0;
    const T* from = data + i * stride + k * inner_stride;
    if (in_pairs) return load_two(from);
    return join_two(from[0].bits, k + 1 < inner ? from[inner_stride].bits : 0);
  }
};
template <class T>
__device__ Operand<T> operand(const SmallMatrix<T>& m, int64_t r, int count, int inner, int stride,
                              int inner_stride) {
  const bool in_pairs =
      inner_stride == 1 && stride % 2 == 0 && inner % 2 == 0 && m.batch_stride % 2 == 0;
  return {m.data + r * m.batch_stride, count, inner, stride, inner_stride, in_pairs};
}
template <class T>
__device__ Operand<T> rows_of(const SmallMatrix<T>& m, int64_t r) {
  return operand(m, r, m.rows, m.columns, m.row_stride, m.column_stride);
}
template <class T>
__device__ Operand<T> columns_of(const SmallMatrix<T>& m, int64_t r) {
  return operand(m, r, m.columns, m.rows, m.column_stride, m.row_stride);
}

// 32 rows of the left matrix, 16 elements of the inner dimension.
struct LeftTiles {
  uint32_t at[2][4];
  template <class T>
  __device__ void load(const Operand<T>& left, int first, int k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        at[half][e] = left.two(first + half * 16 + e % 2 * 8, k + e / 2 * 8);
    }
  }
};

// to = (or +=) two neighbours of a row of n, from element j on.
template <bool kAdd, class T>
__device__ void put_two(T* row, int j, int n, float low, float high) {
  if (j + 1 < n && n % 2 == 0) {
    const uint32_t before = kAdd ? load_two(row + j) : 0;
    T both[2] = {{static_cast<uint16_t>(before)}, {static_cast<uint16_t>(before >> 16)}};
    put<kAdd>(both[0], low);
    put<kAdd>(both[1], high);
    *reinterpret_cast<uint32_t*>(row + j) = join_two(both[0].bits, both[1].bits);
  } else {
    if (j < n) put<kAdd>(row[j], low);
    if (j + 1 < n) put<kAdd>(row[j + 1], high);
  }
}

constexpr int kHeldRows = 4;   // rows of a warp, with held tiles
constexpr int kHeldSteps = 2;  // steps of 16 elements of the inner dimension

// A warp kRows rows, 32 x 16 elements of a product at a time. Where all rows have the same left
// matrix, with an inner dimension of kHeldSteps at most, its tiles are held (kHeld).
template <bool kAdd, bool kHeld, class T>
__global__ void __launch_bounds__(kThreads)
    multiply_rows_kernel(int64_t rows, SmallMatrix<T> left_matrix, SmallMatrix<T> right_matrix,
                         T* to) {
  constexpr int kRows = kHeld ? kHeldRows : 1;
  const int64_t begin = row_of_warp() * kRows, end = min(begin + kRows, rows);
  const int m = left_matrix.rows, n = right_matrix.columns, inner = right_matrix.rows;
  const Lane lane;
  for (int first = 0; first < m; first += 32) {
    LeftTiles held[kHeldSteps];
    if (kHeld) {
#pragma unroll
      for (int step = 0; step < kHeldSteps; ++step)
        held[step].load(rows_of(left_matrix, 0), first + lane.group, step * 16 + lane.pair);
    }
    for (int64_t r = begin; r < end; ++r) {
      const Operand<T> left = rows_of(left_matrix, r), right = columns_of(right_matrix, r);
      for (int column = 0; column < n; column += 16) {
        float sums[2][2][4] = {};
        const auto add = [&](const LeftTiles& tiles, int k) {
#pragma unroll
          for (int t = 0; t < 2; ++t) {
            const int j = column + t * 8 + lane.group;
            const uint32_t b0 = right.two(j, k), b1 = right.two(j, k + 8);
#pragma unroll
            for (int half = 0; half < 2; ++half)
              multiply_tile<T>(sums[half][t], tiles.at[half][0], tiles.at[half][1],
                               tiles.at[half][2], tiles.at[half][3], b0, b1);
          }
        };
        if constexpr (kHeld) {
#pragma unroll
          for (int step = 0; step < kHeldSteps; ++step) add(held[step], step * 16 + lane.pair);
        } else {
          for (int k = lane.pair; k < inner + lane.pair; k += 16) {
            LeftTiles tiles;
            tiles.load(left, first + lane.group, k);
            add(tiles, k);
          }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {  // tile, row or row + 8
            const int i = first + half * 16 + lane.group + e % 2 * 8, t = e / 2;
            if (i < m)
              put_two<kAdd>(to + (r * m + i) * n, column + t * 8 + lane.pair, n,
                            sums[half][t][e % 2 * 2], sums[half][t][e % 2 * 2 + 1]);
          }
        }
      }
    }
  }
}

template <bool kHeld, class T>
void multiply_small(const Context& context, Write write, int64_t rows, const SmallMatrix<T>& left,
                    const SmallMatrix<T>& right, T* to) {
  with_write(write, [&](auto add) {
    multiply_rows_kernel<decltype(add)::value, kHeld>
        <<<row_blocks(kHeld ? blocks_of(rows, kHeldRows) : rows), row_threads(), 0,
           context.stream>>>(rows, left, right, to);
    check_launch("launching products of small matrices");
  });
}

}  // namespace

template <class T>
void multiply_rows(const Context& context, Write write, int64_t rows, const SmallMatrix<T>& left,
                   const SmallMatrix<T>& right, T* to) {
  if (rows == 0) return;
  if (left.batch_stride == 0 && left.columns <= kHeldSteps * 16)
    multiply_small<true>(context, write, rows, left, right, to);
  else
    multiply_small<false>(context, write, rows, left, right, to);
}

template void multiply_rows(const Context&, Write, int64_t, const SmallMatrix<Bf16>&,
                            const SmallMatrix<Bf16>&, Bf16*);
template void multiply_rows(const Context&, Write, int64_t, const SmallMatrix<F16>&,
                            const SmallMatrix<F16>&, F16*);

}  // namespace emblem::cuda
