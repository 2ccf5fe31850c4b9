// With d an element of a row's vectors, a unit is y[u, d] = b[u] + sum over i, j of
// W[u, i, j] x[i, d] x0[j, d]: a product of the matrix of x[i, d] x0[j, d], of which each warp
// makes the tiles it needs, with W. Rows of tiles are 16 elements d of one row.
#include "nn/ops/interaction/cin_tensor.cuh"
#include "nn/ops/vectors/vectors.h"

namespace emblem::cuda {
namespace {

constexpr int kBlock = 32;  // units, and vectors of x0, that are worked on at once
constexpr int kRows = 2;    // rows of a warp, in forward
constexpr int kGradientWarps = 4;

__host__ __device__ int blocks_in(int count) { return (count + kBlock - 1) / kBlock; }

// Weights of kBlock units and kBlock vectors of x0, for one vector of x: 4 x 32 lanes' registers.
__device__ const uint4* tiles_of(const CinShape& s, const uint4* tiles, int units, int others,
                                 int i) {
  return tiles + ((static_cast<int64_t>(units) * blocks_in(s.m) + others) * s.n + i) * 4 * kWarp +
         threadIdx.x;
}

// Lays weights out as tiles_of() says. Inner dimension: vectors of x0 (forward) or units
// (backward).
template <bool kForward, class T>
__global__ void __launch_bounds__(kThreads)
    lay_out_weights_kernel(CinShape s, int count, const T* weight, uint4* tiles) {
  const int t = static_cast<int>(blockIdx.x) * kThreads + threadIdx.x;
  if (t >= count) return;
  const int lane = t % kWarp, part = t / kWarp % 4, i = t / (4 * kWarp) % s.n,
            block = t / (4 * kWarp) / s.n;
  const int others = block % blocks_in(s.m) * kBlock, units = block / blocks_in(s.m) * kBlock;
  const int group = lane / 4, pair = lane % 4 * 2;
  const auto two = [&](int column, int k) {  // elements k, k + 1 of the inner dimension
    const auto one = [&](int inner) -> uint16_t {
      const int u = units + (kForward ? column : inner), j = others + (kForward ? inner : column);
      return u < s.units && j < s.m ? weight[(static_cast<int64_t>(u) * s.n + i) * s.m + j].bits
                                    : 0;
    };
    return join_two(one(k), one(k + 1));
  };
  // Forward: part = 2 step + pair of tiles. Backward: part = tile, with both steps.
  const int first = kForward ? part % 2 * 16 + group : part * 8 + group,
            second = kForward ? first + 8 : first;
  const int begin = pair + (kForward ? part / 2 * 16 : 0), next = kForward ? begin : begin + 16;
  tiles[t] = make_uint4(two(first, begin), two(first, begin + 8), two(second, next),
                        two(second, next + 8));
}

template <bool kForward, class T>
const uint4* lay_out_weights(const Context& context, const CinShape& s, const T* weight,
                             float* workspace) {
  auto* tiles = reinterpret_cast<uint4*>(workspace);
  const int count = static_cast<int>(cin_tile_floats(s.n, s.m, s.units) / 4);
  lay_out_weights_kernel<kForward>
      <<<blocks_of(count, kThreads), kThreads, 0, context.stream>>>(s, count, weight, tiles);
  check_launch("laying out the weights of a CIN layer");
  return tiles;
}

// A warp: kRows rows, 16 elements of their vectors (blockIdx.y), kBlock units (blockIdx.z).
template <class T>
__global__ void __launch_bounds__(kThreads)
    cin_tensor_kernel(CinShape s, const uint4* weights, const float* bias, List<T> x, List<T> x0,
                      T* y) {
  const int64_t begin = row_of_warp() * kRows;
  if (begin >= s.rows) return;
  const Lane lane;
  const int d = blockIdx.y * 16 + lane.group;
  float sums[kRows][4][4] = {};
  for (int others = 0; others < blocks_in(s.m); ++others) {
    uint32_t right[kRows][8];  // x0: two steps of the inner dimension
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int64_t r = min(begin + row, s.rows - 1);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int j = others * kBlock + e / 4 * 16 + e % 4 / 2 * 8 + lane.pair, at = d + e % 2 * 8;
        right[row][e] = join_two(x0.bits(r, j, at), x0.bits(r, j + 1, at));
      }
    }
    for (int i = 0; i < s.n; ++i) {
      const uint4* from = tiles_of(s, weights, blockIdx.z, others, i);
      uint4 tiles[4];
#pragma unroll
      for (int part = 0; part < 4; ++part) tiles[part] = from[part * kWarp];
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const int64_t r = min(begin + row, s.rows - 1);
        const uint16_t top = x.bits(r, i, d), bottom = x.bits(r, i, d + 8);
        const uint32_t left[2] = {join_two(top, top), join_two(bottom, bottom)};
        uint32_t a[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) a[e] = multiply_two<T>(left[e % 2], right[row][e]);
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int step = part / 2 * 4, tile = part % 2 * 2;
          multiply_tile<T>(sums[row][tile], a[step], a[step + 1], a[step + 2], a[step + 3],
                           tiles[part].x, tiles[part].y);
          multiply_tile<T>(sums[row][tile + 1], a[step], a[step + 1], a[step + 2], a[step + 3],
                           tiles[part].z, tiles[part].w);
        }
      }
    }
  }
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int e = 0; e < 16; ++e) {
      const int u = blockIdx.z * kBlock + e / 4 * 8 + lane.pair + e % 2, at = d + e % 4 / 2 * 8;
      if (begin + row < s.rows && u < s.units && at < s.dim)
        y[((begin + row) * s.units + u) * s.dim + at] =
            narrow<T>(sums[row][e / 4][e % 4] + bias[u]);
    }
  }
}

template <class T>
__device__ void put_vectors(const float* from, int count, int dim, int first,
                            const CinGradient<T>& target, int64_t r) {
  if (target.write == Write::kNone) return;
  for (int e = threadIdx.x; e < count * 16; e += kWarp) {
    const int d = first + e % 16;
    if (d >= dim) continue;
    T& to = target.to[(r * count + e / 16) * dim + d];
    to = narrow<T>(from[e] + (target.write == Write::kAdd ? widen(to) : 0.0f));
  }
}

// A warp: a row, 16 elements of its vectors (blockIdx.y). Of the gradient G[i, j] of x[i] x0[j],
// kBlock vectors j are in registers at a time; both inputs' sums are in shared memory. x and x0 may
// be the same.
template <class T>
__global__ void __launch_bounds__(kWarp* kGradientWarps)
    cin_gradient_tensor_kernel(CinShape s, const uint4* weights, List<T> x, List<T> x0, List<T> dy,
                               CinGradient<T> to_x, CinGradient<T> to_x0) {
  extern __shared__ float cin_sums[];
  const int64_t r = row_of_warp();
  if (r >= s.rows) return;
  float *dx = cin_sums + threadIdx.y * (s.n + s.m) * 16, *dx0 = dx + s.n * 16;
  for (int e = threadIdx.x; e < (s.n + s.m) * 16; e += kWarp) dx[e] = 0.0f;
  __syncwarp();
  const Lane lane;
  const int first = blockIdx.y * 16, d = first + lane.group;
  for (int others = 0; others < blocks_in(s.m); ++others) {
    const int j = others * kBlock + lane.pair;
    float right[16], to_right[16] = {};  // x0 and its gradient: tile, d or d + 8, j or j + 1
#pragma unroll
    for (int e = 0; e < 16; ++e) right[e] = x0.at(r, j + e / 4 * 8 + e % 2, d + e % 4 / 2 * 8);
    for (int units = 0; units < blocks_in(s.units); ++units) {
      uint32_t a[8];  // dy: two steps of the inner dimension
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int u = units * kBlock + e / 4 * 16 + e % 4 / 2 * 8 + lane.pair, at = d + e % 2 * 8;
        a[e] = join_two(dy.bits(r, u, at), dy.bits(r, u + 1, at));
      }
      for (int i = 0; i < s.n; ++i) {
        const uint4* from = tiles_of(s, weights, units, others, i);
        const float left[2] = {x.at(r, i, d), x.at(r, i, d + 8)};
        float sums[2] = {};
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
          const uint4 weight = from[tile * kWarp];
          float g[4] = {};
          multiply_tile<T>(g, a[0], a[1], a[2], a[3], weight.x, weight.y);
          multiply_tile<T>(g, a[4], a[5], a[6], a[7], weight.z, weight.w);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            sums[e / 2] += g[e] * right[tile * 4 + e];
            to_right[tile * 4 + e] += g[e] * left[e / 2];
          }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // over the four lanes of a row of the tile
          sums[half] += __shfl_xor_sync(~0u, sums[half], 1);
          sums[half] += __shfl_xor_sync(~0u, sums[half], 2);
          if (lane.pair == 0) dx[i * 16 + lane.group + half * 8] += sums[half];
        }
      }
    }
#pragma unroll
    for (int e = 0; e < 16; ++e) {
      const int other = j + e / 4 * 8 + e % 2;
      if (other < s.m) dx0[other * 16 + lane.group + e % 4 / 2 * 8] = to_right[e];
    }
  }
  __syncwarp();
  put_vectors(dx, s.n, s.dim, first, to_x, r);
  __syncwarp();
  put_vectors(dx0, s.m, s.dim, first, to_x0, r);
}

// Columns of the right-hand side of the weights' gradient: products of two vectors of x with kBlock
// of x0.
template <class T>
struct ProductColumns {
  static constexpr int kTiles = 8, kSumWarps = 4;
  List<T> x, x0;

  __host__ __device__ int total() const { return x.count * x0.count; }
  __host__ __device__ int blocks() const { return (x.count + 1) / 2 * blocks_in(x0.count); }
  __device__ int first(int block) const { return block / blocks_in(x0.count) * 2; }
  __device__ int other(int block, int tile) const {
    return block % blocks_in(x0.count) * kBlock + tile % 4 * 8;
  }
  __device__ void load(int64_t r, int block, int d, int group, uint32_t (&tiles)[kTiles][2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = d + half * 8;
      const uint32_t left[2] = {x.two(r, first(block), at), x.two(r, first(block) + 1, at)};
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const uint32_t right = x0.two(r, other(block, t) + group, at);
        tiles[t][half] = multiply_two<T>(left[0], right);
        tiles[t + 4][half] = multiply_two<T>(left[1], right);
      }
    }
  }
  __device__ int column(int block, int tile, int j) const {
    const int i = first(block) + tile / 4, o = other(block, tile) + j;
    return i < x.count && o < x0.count ? i * x0.count + o : -1;
  }
};

unsigned element_tiles(const CinShape& s) { return blocks_of(s.dim, 16); }

}  // namespace

template <class T>
void cin_forward(const Context& context, const CinShape& s, const T* weight, const float* bias,
                 const T* x, const T* x0, float* workspace, T* y) {
  const uint4* tiles = lay_out_weights<true>(context, s, weight, workspace);
  const dim3 grid(blocks_of(s.rows, kRows * kWarps), element_tiles(s), blocks_in(s.units));
  cin_tensor_kernel<T><<<grid, row_threads(), 0, context.stream>>>(
      s, tiles, bias, List<T>{x, s.n, s.dim}, List<T>{x0, s.m, s.dim}, y);
  check_launch("launching a CIN layer on tensor cores");
}

template <class T>
void cin_input_gradients(const Context& context, const CinShape& s, const T* weight, const T* x,
                         const T* x0, const T* dy, float* workspace, CinGradient<T> to_x,
                         CinGradient<T> to_x0) {
  const uint4* tiles = lay_out_weights<false>(context, s, weight, workspace);
  const dim3 grid(blocks_of(s.rows, kGradientWarps), element_tiles(s));
  const size_t bytes = kGradientWarps * (s.n + s.m) * 16 * sizeof(float);
  cin_gradient_tensor_kernel<T><<<grid, dim3(kWarp, kGradientWarps), bytes, context.stream>>>(
      s, tiles, List<T>{x, s.n, s.dim}, List<T>{x0, s.m, s.dim}, List<T>{dy, s.units, s.dim}, to_x,
      to_x0);
  check_launch("launching the gradients of a CIN layer on tensor cores");
}

template <class T>
void cin_weight_gradient(const Context& context, const CinShape& s, const T* x, const T* x0,
                         const T* dy, float* workspace, float* to) {
  outer_sums<T>(context, s.rows, List<T>{dy, s.units, s.dim},
                ProductColumns<T>{{x, s.n, s.dim}, {x0, s.m, s.dim}}, workspace, to);
}

#define EMBLEM_CIN(T)                                                                              \
  template void cin_forward(const Context&, const CinShape&, const T*, const float*, const T*,     \
                            const T*, float*, T*);                                                 \
  template void cin_input_gradients(const Context&, const CinShape&, const T*, const T*, const T*, \
                                    const T*, float*, CinGradient<T>, CinGradient<T>);             \
  template void cin_weight_gradient(const Context&, const CinShape&, const T*, const T*, const T*, \
                                    float*, float*);
EMBLEM_CIN(Bf16)
EMBLEM_CIN(F16)
#undef EMBLEM_CIN

}  // namespace emblem::cuda
