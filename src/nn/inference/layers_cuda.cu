#include "core/device/launch_early.cuh"
#include "nn/inference/layers.h"
#include "nn/ops/dense/activation.h"
#include "nn/ops/launch.cuh"
#include "nn/ops/mma.cuh"

namespace emblem::cuda {
namespace {

// Chosen when a kernel runs: it costs little compared with the sum, and a kernel for each a long
// compile.
__device__ float activate(Activation activation, float x) {
  switch (activation.kind) {
    case Activation::kRelu:
      return activations::Relu::value(x);
    case Activation::kSigmoid:
      return activations::Sigmoid::value(x);
    case Activation::kTanh:
      return activations::Tanh::value(x);
    case Activation::kLeakyRelu:
      return activations::LeakyRelu::value(x);
    default:  // others are not fused
      return x;
  }
}

// ---- the first layer ----

constexpr int kRowsAtOnce = 32;  // whose inputs are in shared memory

// A thread has two units and the weights of both; a block goes through its rows.
template <class T, int kInputs>
__global__ void __launch_bounds__(kThreads) first_layer_kernel(FirstLayer of, int64_t rows_each) {
  __shared__ float x[kRowsAtOnce][kInputs];
  const int64_t unit = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * 2;
  const int inputs = static_cast<int>(of.inputs);
  float weight[2][kInputs], bias[2] = {};
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    const bool there = unit + u < of.units;
    if (there && of.bias != nullptr) bias[u] = of.bias[unit + u];
#pragma unroll
    for (int k = 0; k < kInputs; ++k)
      weight[u][k] = there && k < inputs ? of.weight[(unit + u) * inputs + k] : 0.0f;
  }
  let_the_next_kernel_start();
  T* y = static_cast<T*>(of.y);
  const int64_t first = blockIdx.x * rows_each, end = min(first + rows_each, of.rows);
  for (int64_t begin = first; begin < end; begin += kRowsAtOnce) {
    const int rows = static_cast<int>(min(end - begin, static_cast<int64_t>(kRowsAtOnce)));
    __syncthreads();
    for (int i = threadIdx.x; i < kRowsAtOnce * kInputs; i += kThreads) {
      const int r = i / kInputs, k = i % kInputs;
      x[r][k] = r < rows && k < inputs ? of.x[(begin + r) * inputs + k] : 0.0f;
    }
    __syncthreads();
    for (int r = 0; r < rows; ++r) {
      float sums[2] = {bias[0], bias[1]};
#pragma unroll
      for (int k = 0; k < kInputs; ++k) {
        sums[0] += x[r][k] * weight[0][k];
        sums[1] += x[r][k] * weight[1][k];
      }
      T* to = y + (begin + r) * of.units + unit;
      if (unit + 1 < of.units && of.units % 2 == 0) {
        struct alignas(2 * sizeof(T)) Two {
          T at[2];
        };
        *reinterpret_cast<Two*>(to) = {{narrow<T>(activate(of.activation, sums[0])),
                                        narrow<T>(activate(of.activation, sums[1]))}};
      } else {
        for (int u = 0; u < 2 && unit + u < of.units; ++u)
          to[u] = narrow<T>(activate(of.activation, sums[u]));
      }
    }
  }
  wait_for_the_kernel_before();  // who waits for this kernel waits for that one too
}

// ---- few rows ----

constexpr int kParts = 8;       // warps of a block, which share the inner dimension
constexpr int kHeldChunks = 4;  // chunks of 32 weights that a lane reads before the rows are there

// A block makes 8 columns of all rows: its warps sum parts of the inner dimension.
template <class T, int kTiles>
__global__ void __launch_bounds__(kWarp* kParts) few_rows_kernel(FewRowsLayer of) {
  __shared__ float parts[kParts][kTiles * 16][8 + 1];
  const int lane = threadIdx.x, part = threadIdx.y;
  const int chunks = static_cast<int>(of.inputs) / 32;
  const int column = static_cast<int>(blockIdx.x) * 8;
  const T* weight =
      static_cast<const T*>(of.weight) + (column + lane / 4) * of.inputs + lane % 4 * 8;
  uint4 held[kHeldChunks];
#pragma unroll
  for (int i = 0; i < kHeldChunks; ++i) {
    const int chunk = part + i * kParts;
    held[i] = chunk < chunks ? *reinterpret_cast<const uint4*>(weight + chunk * 32)
                             : make_uint4(0, 0, 0, 0);
  }
  let_the_next_kernel_start();
  wait_for_the_kernel_before();
  const T* x = static_cast<const T*>(of.x) + lane % 4 * 8;
  const auto read = [&](int row, int chunk) {
    return row < of.rows ? *reinterpret_cast<const uint4*>(x + row * of.inputs + chunk * 32)
                         : make_uint4(0, 0, 0, 0);
  };
  float sums[kTiles][4] = {};
  for (int i = 0, chunk = part; chunk < chunks; ++i, chunk += kParts) {
    uint4 right;
    if (i < kHeldChunks) {
#pragma unroll
      for (int h = 0; h < kHeldChunks; ++h) {
        if (h == i) right = held[h];
      }
    } else {
      right = *reinterpret_cast<const uint4*>(weight + chunk * 32);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const int row = t * 16 + lane / 4;
      multiply_wide<T>(sums[t], read(row, chunk), read(row + 8, chunk), right);
    }
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      parts[part][t * 16 + lane / 4 + k / 2 * 8][lane % 4 * 2 + k % 2] = sums[t][k];
  }
  __syncthreads();
  for (int i = part * kWarp + lane; i < kTiles * 16 * 8; i += kParts * kWarp) {
    const int row = i / 8, j = i % 8;
    if (row >= of.rows) break;
    float sum = of.bias == nullptr ? 0.0f : of.bias[column + j];
#pragma unroll
    for (int p = 0; p < kParts; ++p) sum += parts[p][row][j];
    static_cast<T*>(of.y)[row * of.units + column + j] = narrow<T>(activate(of.activation, sum));
  }
}

// ---- the last layer ----

constexpr int kRowsOfBlock = 32;

// A block has 32 rows, so that their probabilities leave it together.
template <class T>
__global__ void __launch_bounds__(kThreads) last_layer_kernel(LastLayer of) {
  __shared__ float logits[kRowsOfBlock];
  let_the_next_kernel_start();
  wait_for_the_kernel_before();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock;
  const T* x = static_cast<const T*>(of.x);
  for (int i = threadIdx.y; i < kRowsOfBlock && first + i < of.rows; i += kWarps) {
    const T* row = x + (first + i) * of.inputs;
    float sum = 0.0f;
    if (of.weight == nullptr) {
      sum = widen(row[0]);
    } else if (of.inputs % 8 == 0) {
      for (int64_t j = threadIdx.x * 8; j < of.inputs; j += kWarp * 8) {
        struct alignas(16) Eight {
          T at[8];
        };
        const Eight values = *reinterpret_cast<const Eight*>(row + j);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum += widen(values.at[k]) * of.weight[j + k];
      }
      sum = warp_sum(sum);
    } else {
      for (int64_t j = threadIdx.x; j < of.inputs; j += kWarp) sum += widen(row[j]) * of.weight[j];
      sum = warp_sum(sum);
    }
    if (threadIdx.x == 0) logits[i] = sum + (of.bias == nullptr ? 0.0f : *of.bias);
  }
  __syncthreads();
  if (threadIdx.y != 0) return;
  if (first + threadIdx.x < of.rows)
    of.probabilities[first + threadIdx.x] = 1.0f / (1.0f + expf(-logits[threadIdx.x]));
  if (of.done == nullptr) return;
  __threadfence_system();
  __syncwarp();
  if (threadIdx.x != 0 || atomicAdd(of.finished, 1u) + 1 != gridDim.x) return;
  *of.finished = 0;
  __threadfence_system();
  *const_cast<volatile uint32_t*>(of.done) = 1;
}

}  // namespace

void run_first_layer(const Context& context, const FirstLayer& layer) {
  if (layer.rows == 0) return;
  // Enough blocks for all multiprocessors, but few that read weights for a handful of rows.
  const int64_t rows_each = std::clamp<int64_t>(layer.rows / 256, 4, 64);
  const dim3 blocks(blocks_of(layer.rows, rows_each), blocks_of(layer.units, 2 * kThreads));
  with_type(layer.dtype, [&](auto type) {
    using T = decltype(type);
    auto* kernel = layer.inputs <= 16 ? first_layer_kernel<T, 16> : first_layer_kernel<T, 32>;
    launch_early(context, kernel, blocks, dim3(kThreads), 0, layer, rows_each);
  });
}

bool can_run_few_rows(DType dtype, int64_t rows, int64_t inputs, int64_t units) {
  return dtype != DType::kF32 && rows <= kFewRows && inputs % 32 == 0 && units % 8 == 0;
}

void run_few_rows(const Context& context, const FewRowsLayer& layer) {
  if (layer.rows == 0) return;
  const dim3 blocks(static_cast<unsigned>(layer.units / 8)), threads(kWarp, kParts);
  const auto with = [&](auto type) {
    using T = decltype(type);
    auto* kernel = layer.rows <= 16   ? few_rows_kernel<T, 1>
                   : layer.rows <= 32 ? few_rows_kernel<T, 2>
                   : layer.rows <= 64 ? few_rows_kernel<T, 4>
                                      : few_rows_kernel<T, 8>;
    launch_early(context, kernel, blocks, threads, 0, layer);
  };
  if (layer.dtype == DType::kBf16) return with(Bf16{});
  with(F16{});
}

void run_last_layer(const Context& context, const LastLayer& layer) {
  if (layer.rows == 0) return;
  with_type(layer.dtype, [&](auto type) {
    using T = decltype(type);
    launch_early(context, last_layer_kernel<T>, dim3(blocks_of(layer.rows, kRowsOfBlock)),
                 row_threads(), 0, layer);
  });
}

}  // namespace emblem::cuda
