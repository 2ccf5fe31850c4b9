// The gradients of the vectors of a row: the product of a symmetric matrix, the gradients of the
// row's pairs, with the matrix of its vectors.
#include "nn/ops/interaction/interaction_tensor.cuh"

namespace emblem::cuda {
namespace {

constexpr int kPairsStride = kMostTensorVectors + kRowPadding;
constexpr int kMatrix = kMostTensorVectors * kPairsStride;  // elements
constexpr int kThreadsOfRow = 128;                          // four warps
// Pairs of a thread.
constexpr int kPairsEach = (kMostTensorPairs + kThreadsOfRow - 1) / kThreadsOfRow;

// Where a thread's pairs go in the matrix: both places, 16 bits each.
struct PairPlaces {
  uint32_t at[kPairsEach];

  __device__ explicit PairPlaces(int count) {
    int i = 1, j = threadIdx.x;
#pragma unroll
    for (int n = 0; n < kPairsEach; ++n, j += kThreadsOfRow) {
      while (j >= i && i < count) j -= i++;
      at[n] = i < count ? (i * kPairsStride + j) << 16 | (j * kPairsStride + i) : ~0u;
    }
  }
  template <class T>
  __device__ void unfold(const T* pairs, T* matrix) const {
#pragma unroll
    for (int n = 0; n < kPairsEach; ++n) {
      if (at[n] == ~0u) continue;
      matrix[at[n] >> 16] = matrix[at[n] & 0xffff] = pairs[threadIdx.x + n * kThreadsOfRow];
    }
  }
};

template <class T>
__device__ void stage_gradients(const T* from, int64_t y_stride, int count, T* to) {
  if (y_stride % kPacketed == 0) {
    for (int i = threadIdx.x * kPacketed; i < count; i += kThreadsOfRow * kPacketed)
      __pipeline_memcpy_async(to + i, from + i, 16);
  } else {
    for (int i = threadIdx.x; i < count; i += kThreadsOfRow) to[i] = from[i];
  }
}

// The products with 16 columns of the vectors, in their place. `direct`: added to the
// first vector, or null.
template <class T>
__device__ void multiply_columns(const Tile (&left)[2][2], int count, int stride, int column,
                                 const T* direct, T* vectors) {
  const int lane = threadIdx.x % kWarp;
  float sums[2][2][4] = {};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    // After the last vector the matrix is zero, and any vector will do.
    const int v = min(16 * k + lane % 16, count - 1);
    const Tile right = load_turned_tile(vectors + v * stride + column + lane / 16 * 8);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      multiply_add<T>(sums[m][0], left[m][k], right.at[0], right.at[1]);
      multiply_add<T>(sums[m][1], left[m][k], right.at[2], right.at[3]);
    }
  }
  __syncwarp();
#pragma unroll
  for (int t = 0; t < 2; ++t) {
    const int j = column + 8 * t + lane % 4 * 2;
    if (direct != nullptr && lane < 4) {
      sums[0][t][0] += widen(direct[j]);
      sums[0][t][1] += widen(direct[j + 1]);
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = 16 * m + lane / 4 + 8 * half;
        if (i < count)
          *reinterpret_cast<uint32_t*>(vectors + i * stride + j) =
              narrow_two<T>(sums[m][t][2 * half], sums[m][t][2 * half + 1]);
      }
    }
  }
}

template <class T>
__device__ void put_packet(T* to, const T* from, Write write) {
  auto values = *reinterpret_cast<const Elements<T, kPacketed>*>(from);
  if (write == Write::kAdd) {
    const auto before = *reinterpret_cast<const Elements<T, kPacketed>*>(to);
    for (int k = 0; k < kPacketed; ++k)
      values.at[k] = narrow<T>(widen(values.at[k]) + widen(before.at[k]));
  }
  *reinterpret_cast<Elements<T, kPacketed>*>(to) = values;
}

// Reads shared memory.
template <int kDim, class T>
__device__ void store_gradients(const Vectors<T>& in, int64_t r, const T* gradients,
                                const Targets<T>& targets) {
  const int dim = dim_of<kDim>(in), stride = dim + kRowPadding, packets = dim / kPacketed;
  if (in.first != nullptr && targets.write_first != Write::kNone) {
    for (int i = threadIdx.x; i < packets; i += kThreadsOfRow)
      put_packet(targets.first + r * dim + i * kPacketed, gradients + i * kPacketed,
                 targets.write_first);
    __syncthreads();
  }
  if (targets.write_x == Write::kNone) return;
  const T* from = gradients + (in.first == nullptr ? 0 : stride);
  T* to = targets.x + r * in.in_x() * dim;
#pragma unroll 4
  for (int i = threadIdx.x; i < in.in_x() * packets; i += kThreadsOfRow)
    put_packet(to + i * kPacketed, from + i / packets * stride + i % packets * kPacketed,
               targets.write_x);
}

template <int kDim, class T>
__global__ void __launch_bounds__(kThreadsOfRow)
    tensor_pair_gradients_kernel(Vectors<T> in, const T* dy, int64_t y_stride, int line,
                                 Targets<T> targets) {
  extern __shared__ float4 shared[];
  T* staged[2] = {reinterpret_cast<T*>(shared), reinterpret_cast<T*>(shared) + staged_elements(in)};
  T* lines[2] = {staged[1] + staged_elements(in), staged[1] + staged_elements(in) + line};
  T* matrix = lines[1] + line;
  const int lane = threadIdx.x % kWarp, dim = dim_of<kDim>(in), stride = dim + kRowPadding;
  const int before = in.first == nullptr ? 0 : dim, end = before + first_pair_of(in.count);
  for (int i = threadIdx.x * kPacketed; i < kMatrix; i += kThreadsOfRow * kPacketed)
    *reinterpret_cast<uint4*>(matrix + i) = make_uint4(0, 0, 0, 0);
  const PairPlaces places(in.count);
  const auto stage = [&](int64_t r, int to) {
    stage_vectors<kDim>(in, r, staged[to]);
    stage_gradients(dy + r * y_stride, y_stride, end, lines[to]);
  };
  int64_t r = blockIdx.x;
  stage(r, 0);
  __pipeline_commit();
  for (int current = 0; r < in.rows; r += gridDim.x, current ^= 1) {
    if (r + gridDim.x < in.rows) stage(r + gridDim.x, current ^ 1);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    T* vectors = staged[current];
    const T* gradients = lines[current];
    places.unfold(gradients + before, matrix);
    __syncthreads();
    Tile left[2][2];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
      for (int k = 0; k < 2; ++k)
        left[m][k] =
            load_tile(matrix + (16 * m + lane % 16) * kPairsStride + 16 * k + lane / 16 * 8);
    }
#pragma unroll 2
    for (int column = static_cast<int>(threadIdx.x) / kWarp * 16; column < dim;
         column += kThreadsOfRow / kWarp * 16)
      multiply_columns(left, in.count, stride, column, before == 0 ? nullptr : gradients, vectors);
    __syncthreads();
    store_gradients<kDim>(in, r, vectors, targets);
    __syncthreads();
  }
}

template <int kDim, class T>
void products_backward(const Context& context, const Vectors<T>& in, const T* dy, int64_t y_stride,
                       const Targets<T>& targets) {
  const int line = static_cast<int>(round_up(y_stride, kPacketed));
  const size_t bytes = (2 * staged_elements(in) + 2 * line + kMatrix) * sizeof(T);
  auto* kernel = tensor_pair_gradients_kernel<kDim, T>;
  kernel<<<blocks_to_stay(kernel, in.rows, kThreadsOfRow, bytes), kThreadsOfRow, bytes,
           context.stream>>>(in, dy, y_stride, line, targets);
  check_launch("launching the gradient of an interaction");
}

template <class T>
void products_backward(const Context& context, const Vectors<T>& in, const T* dy, int64_t y_stride,
                       const Targets<T>& targets) {
  if (in.dim == 128)
    products_backward<128>(context, in, dy, y_stride, targets);
  else
    products_backward<0>(context, in, dy, y_stride, targets);
}

}  // namespace

void tensor_pair_gradients(const Context& context, const Vectors<Bf16>& in, const Bf16* dy,
                           int64_t y_stride, const Targets<Bf16>& targets) {
  products_backward(context, in, dy, y_stride, targets);
}
void tensor_pair_gradients(const Context& context, const Vectors<F16>& in, const F16* dy,
                           int64_t y_stride, const Targets<F16>& targets) {
  products_backward(context, in, dy, y_stride, targets);
}

}  // namespace emblem::cuda
