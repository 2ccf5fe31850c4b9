#include <cuda_pipeline.h>

#include "nn/interaction.h"
#include "nn/launch.cuh"

namespace emblem {
namespace {

using cuda::kWarp;

constexpr int kTile = 4;                   // products are made for 4 x 4 vectors at a time
constexpr int kWarpsOfGradients = 4;       // in a block
constexpr size_t kMostShared = 99 * 1024;  // bytes that a block has on every GPU since 2020
constexpr size_t kSharedWithoutAsking = 48 * 1024;  // a kernel has to ask for more
constexpr size_t kSharedForOccupancy = 72 * 1024;   // so that three blocks share a multiprocessor

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The vectors of all rows.
template <class T>
struct Vectors {
  const T *first, *x;  // first is null where there is none
  int64_t rows;
  int count, dim;  // count includes the first

  __device__ int in_x() const { return first == nullptr ? count : count - 1; }
  __device__ const T* at(int64_t r, int v) const {
    if (first == nullptr) return x + (r * count + v) * dim;
    return v == 0 ? first + r * dim : x + (r * (count - 1) + v - 1) * dim;
  }
};

__device__ int first_pair_of(int i) { return i * (i - 1) / 2; }
__device__ int pair_of(int i, int j) { return i > j ? first_pair_of(i) + j : first_pair_of(j) + i; }

// kWidth elements, in memory and in registers.
template <class T, int kWidth>
struct alignas(kWidth * sizeof(T)) Elements {
  T at[kWidth];
};
template <int kWidth>
using Floats = Elements<float, kWidth>;

template <int kWidth, class T>
__device__ Floats<kWidth> load(const T* from) {
  const auto read = *reinterpret_cast<const Elements<T, kWidth>*>(from);
  Floats<kWidth> values;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) values.at[k] = cuda::widen(read.at[k]);
  return values;
}
template <int kWidth, class T>
__device__ void store(T* to, const Floats<kWidth>& values) {
  Elements<T, kWidth> written;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) written.at[k] = cuda::narrow<T>(values.at[k]);
  *reinterpret_cast<Elements<T, kWidth>*>(to) = written;
}

// ---- forward ----

// Memory of a warp: its row's vectors, `stride` floats apart, then its products.
struct RowMemory {
  int stride, tiles_across, products, floats;

  RowMemory(int vectors, int dim)
      // Four floats of padding: tiles that are read at once then lie in different banks.
      : stride(static_cast<int>(round_up(dim, 4)) + 4),
        tiles_across((vectors + kTile - 1) / kTile),
        products(tiles_across * kTile * stride),
        floats(products + static_cast<int>(round_up(vectors * (vectors - 1) / 2, 4))) {}
};

// A tile is of vectors that are tiles_across apart, so that neighbouring tiles are neighbours in
// memory too: vectors row + a * tiles_across and col + b * tiles_across.
template <int kWidth>
__device__ void make_tile(int count, int dim, const RowMemory& of, const float* vectors, int row,
                          int col, float* products) {
  float sums[kTile][kTile] = {};
  for (int d = 0; d < dim; d += kWidth) {
    Floats<kWidth> left[kTile], right[kTile];
#pragma unroll
    for (int a = 0; a < kTile; ++a) {
      left[a] = load<kWidth>(vectors + (row + a * of.tiles_across) * of.stride + d);
      right[a] = load<kWidth>(vectors + (col + a * of.tiles_across) * of.stride + d);
    }
#pragma unroll
    for (int a = 0; a < kTile; ++a) {
#pragma unroll
      for (int b = 0; b < kTile; ++b) {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sums[a][b] += left[a].at[k] * right[b].at[k];
      }
    }
  }
#pragma unroll
  for (int a = 0; a < kTile; ++a) {
#pragma unroll
    for (int b = 0; b < kTile; ++b) {
      const int i = row + a * of.tiles_across, j = col + b * of.tiles_across;
      const bool twice = row == col && a <= b;  // the pair comes with a and b exchanged, or is none
      if (i < count && j < count && !twice) products[pair_of(i, j)] = sums[a][b];
    }
  }
}

// Reads the vectors of a row as floats.
template <int kWidth, class T>
__device__ void gather_row(const Vectors<T>& in, int64_t r, int stride, float* vectors) {
  for (int i = threadIdx.x * kWidth; i < in.count * in.dim; i += kWarp * kWidth) {
    const int v = i / in.dim, d = i % in.dim;
    float* to = vectors + v * stride + d;
    const T* from = in.at(r, v) + d;
    if constexpr (std::is_same_v<T, float>) {
      __pipeline_memcpy_async(to, from, kWidth * sizeof(float));
    } else {
      store<kWidth>(to, load<kWidth>(from));
    }
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncwarp();
}

// A warp for each row, a lane for each tile.
template <int kWidth, class T>
__global__ void __launch_bounds__(cuda::kThreads)
    pair_products_kernel(Vectors<T> in, RowMemory of, T* y, int64_t y_cols) {
  extern __shared__ float4 shared[];
  const int64_t r = cuda::row_of_warp();
  if (r >= in.rows) return;
  const int lane = threadIdx.x;
  float* vectors = reinterpret_cast<float*>(shared) + threadIdx.y * of.floats;
  float* products = vectors + of.products;
  gather_row<kWidth>(in, r, of.stride, vectors);
  const int tiles = of.tiles_across * (of.tiles_across + 1) / 2;
  for (int tile = lane; tile < tiles; tile += kWarp) {
    int row = 0, col = tile;  // of the lower triangle, whose row i has i + 1 tiles
    while (col > row) col -= ++row;
    make_tile<kWidth>(in.count, in.dim, of, vectors, row, col, products);
  }
  __syncwarp();
  y += r * y_cols;
  if (in.first != nullptr) {
    for (int d = lane; d < in.dim; d += kWarp) y[d] = cuda::narrow<T>(vectors[d]);
    y += in.dim;
  }
  for (int pair = lane; pair < first_pair_of(in.count); pair += kWarp)
    y[pair] = cuda::narrow<T>(products[pair]);
}

// For rows that do not fit into shared memory: a warp for each vector of each row.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    long_pair_products_kernel(Vectors<T> in, T* y, int64_t y_cols) {
  const int64_t item = cuda::row_of_warp();
  if (item >= in.rows * in.count) return;
  const int64_t r = item / in.count;
  const int i = static_cast<int>(item % in.count);
  const T* left = in.at(r, i);
  y += r * y_cols;
  if (in.first != nullptr) {
    for (int d = threadIdx.x; i == 0 && d < in.dim; d += kWarp) y[d] = left[d];
    y += in.dim;
  }
  for (int j = 0; j < i; ++j) {
    const T* right = in.at(r, j);
    float sum = 0.0f;
    for (int d = threadIdx.x; d < in.dim; d += kWarp)
      sum += cuda::widen(left[d]) * cuda::widen(right[d]);
    sum = cuda::warp_sum(sum);
    if (threadIdx.x == 0) y[first_pair_of(i) + j] = cuda::narrow<T>(sum);
  }
}

// ---- backward ----

// Where the gradients of the vectors go. Those of the first are written before those of x, which
// may be the same.
template <class T>
struct Targets {
  T *first, *x;
  Write write_first, write_x;
};

template <int kWidth, class T>
__device__ void put(const Vectors<T>& in, const Targets<T>& targets, int64_t r, int v, int d,
                    const T* dy, Floats<kWidth> sum) {
  const bool is_first = in.first != nullptr && v == 0;
  const Write write = is_first ? targets.write_first : targets.write_x;
  if (write == Write::kNone) return;
  T* to = is_first ? targets.first + r * in.dim + d
                   : targets.x + (r * in.in_x() + v - (in.first != nullptr ? 1 : 0)) * in.dim + d;
  if (is_first) {  // the output starts with it
    for (int k = 0; k < kWidth; ++k) sum.at[k] += cuda::widen(dy[d + k]);
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
      full[i * stride + j] = full[j * stride + i] = cuda::widen(pairs[first_pair_of(i) + j]);
  }
  __syncwarp();
}

// A warp for each row; its lanes share the positions of the vectors, kWidth each, and hold the sums
// of kBlock vectors.
template <int kWidth, int kBlock, class T>
__global__ void __launch_bounds__(kWarp* kWarpsOfGradients, 3)
    pair_gradients_kernel(Vectors<T> in, const T* dy, int64_t y_cols, int stride,
                          Targets<T> targets) {
  constexpr int kUnrolled = kWidth * kBlock > 64 ? 2 : 4;  // more would not fit into registers
  extern __shared__ float4 shared[];
  const int64_t r = cuda::row_of_warp();
  if (r >= in.rows) return;
  float* full = reinterpret_cast<float*>(shared) + threadIdx.y * in.count * stride;
  dy += r * y_cols;
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
        if (begin + a < in.count) put<kWidth>(in, targets, r, begin + a, d, dy, sums[a]);
      }
    }
  }
}

// For more vectors than fit into shared memory: a warp for each vector of each row.
template <class T>
__global__ void __launch_bounds__(cuda::kThreads)
    long_pair_gradients_kernel(Vectors<T> in, const T* dy, int64_t y_cols, Targets<T> targets) {
  const int64_t item = cuda::row_of_warp();
  if (item >= in.rows * in.count) return;
  const int64_t r = item / in.count;
  const int i = static_cast<int>(item % in.count);
  dy += r * y_cols;
  const T* pairs = dy + (in.first == nullptr ? 0 : in.dim);
  for (int d = threadIdx.x; d < in.dim; d += kWarp) {
    Floats<1> sum = {};
    for (int j = 0; j < in.count; ++j) {
      if (j != i) sum.at[0] += cuda::widen(pairs[pair_of(i, j)]) * cuda::widen(in.at(r, j)[d]);
    }
    put<1>(in, targets, r, i, d, dy, sum);
  }
}

// Warps of a block whose memory is `bytes` each: up to `most`.
unsigned warps_of(size_t bytes, size_t most) {
  return static_cast<unsigned>(std::clamp<size_t>(kSharedForOccupancy / bytes, 1, most));
}

template <class Kernel>
void allow_shared(Kernel* kernel, size_t bytes) {
  if (bytes <= kSharedWithoutAsking) return;
  cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(bytes)),
             "asking for shared memory");
}

template <int kWidth, class T>
void launch_products(const Context& context, const Vectors<T>& in, const RowMemory& of, T* y,
                     int64_t y_cols) {
  const size_t bytes = of.floats * sizeof(float);
  const unsigned warps = warps_of(bytes, cuda::kWarps);
  allow_shared(pair_products_kernel<kWidth, T>, warps * bytes);
  pair_products_kernel<kWidth, T>
      <<<cuda::blocks_of(in.rows, warps), dim3(kWarp, warps), warps * bytes, context.stream>>>(
          in, of, y, y_cols);
}

template <class T>
void launch_products(const Context& context, const Vectors<T>& in, T* y, int64_t y_cols) {
  const RowMemory of(in.count, in.dim);
  if (of.floats * sizeof(float) > kMostShared) {
    long_pair_products_kernel<T>
        <<<cuda::row_blocks(in.rows * in.count), cuda::row_threads(), 0, context.stream>>>(in, y,
                                                                                           y_cols);
  } else if (in.dim % 4 == 0) {
    launch_products<4>(context, in, of, y, y_cols);
  } else {
    launch_products<1>(context, in, of, y, y_cols);
  }
  cuda::check_launch("launching an interaction");
}

template <int kWidth, int kBlock, class T>
void launch_gradients(const Context& context, const Vectors<T>& in, const T* dy, int64_t y_cols,
                      const Targets<T>& targets) {
  const int stride = static_cast<int>(round_up(in.count, kBlock));
  const size_t bytes = static_cast<size_t>(in.count) * stride * sizeof(float);
  if (bytes > kMostShared) {
    long_pair_gradients_kernel<T>
        <<<cuda::row_blocks(in.rows * in.count), cuda::row_threads(), 0, context.stream>>>(
            in, dy, y_cols, targets);
    return;
  }
  const unsigned warps = warps_of(bytes, kWarpsOfGradients);
  allow_shared(pair_gradients_kernel<kWidth, kBlock, T>, warps * bytes);
  pair_gradients_kernel<kWidth, kBlock, T>
      <<<cuda::blocks_of(in.rows, warps), dim3(kWarp, warps), warps * bytes, context.stream>>>(
          in, dy, y_cols, stride, targets);
}

template <int kWidth, class T>
void launch_gradients(const Context& context, const Vectors<T>& in, const T* dy, int64_t y_cols,
                      const Targets<T>& targets) {
  if (in.count <= 8) return launch_gradients<kWidth, 8>(context, in, dy, y_cols, targets);
  if (in.count <= 16) return launch_gradients<kWidth, 16>(context, in, dy, y_cols, targets);
  launch_gradients<kWidth, 28>(context, in, dy, y_cols, targets);
}

}  // namespace

void Interaction::forward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Vectors<T> in{has_first_ ? this->in(0).value<T>() : nullptr, x().value<T>(), pass.rows,
                        static_cast<int>(vectors_), static_cast<int>(dim_)};
    launch_products(pass.context, in, out().value<T>(), out().cols);
  });
}

void Interaction::backward_cuda(const Pass& pass) {
  if (pass.rows == 0) return;
  cuda::with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Vectors<T> in{has_first_ ? this->in(0).value<T>() : nullptr, x().value<T>(), pass.rows,
                        static_cast<int>(vectors_), static_cast<int>(dim_)};
    const Targets<T> targets{has_first_ ? this->in(0).gradient<T>() : nullptr, x().gradient<T>(),
                             has_first_ ? write(0) : Write::kNone, write(has_first_)};
    const T* dy = out().gradient<T>();
    // Wide enough that few lanes idle.
    if (dim_ % 4 == 0 && dim_ > 64) {
      launch_gradients<4>(pass.context, in, dy, out().cols, targets);
    } else if (dim_ % 2 == 0 && dim_ > 32) {
      launch_gradients<2>(pass.context, in, dy, out().cols, targets);
    } else {
      launch_gradients<1>(pass.context, in, dy, out().cols, targets);
    }
    cuda::check_launch("launching the gradient of an interaction");
  });
}

}  // namespace emblem
