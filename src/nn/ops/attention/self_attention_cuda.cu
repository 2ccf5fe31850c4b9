// Attention between the elements of a row in one kernel: a block has a tile of elements, and reads
// the others of their rows tile by tile. Nothing that has a value for each pair is ever stored.
#include "core/files/shared_memory.h"
#include "nn/ops/attention/self_attention.h"
#include "nn/ops/lanes.cuh"
#include "nn/ops/vectors/segment.h"

namespace emblem {
namespace {

using namespace cuda;

constexpr int kMostOthers = kWarp;  // elements of a row that are read at once: one a lane
constexpr int kFewestOthers = 4;

template <class T>
struct Attention {
  int64_t elements, heads, cols;  // cols: of a head
  const int32_t *offsets, *row_of;
  const T *q, *k, *v, *y, *dy;
  float* norms;
  float* means;
  float scale;
  AttentionDropout dropout;
  const StepInputs* step;
  int others = kMostOthers;  // that are read at once: fewer where shared memory is small

  __device__ int64_t at(int64_t e) const { return (e * heads + blockIdx.y) * cols; }
  __device__ int64_t query(int64_t e) const { return e * heads + blockIdx.y; }
  __device__ AttentionDropout of_batch() const {
    AttentionDropout found = dropout;
    found.stream = Dropout::stream_of(dropout.stream, step->draw);
    return found;
  }
};

// Elements that a warp works on, kColumns * 32 being the columns of a head.
template <int kColumns>
constexpr int kEach = kColumns <= 4 ? 4 : 1;
template <int kColumns>
constexpr int kTile = kEach<kColumns>* kWarps;

__host__ __device__ inline int rounded_to_four(int64_t cols) {
  return static_cast<int>((cols + 3) / 4 * 4);
}

// Two matrices of the tile, rows of `cols` floats, and two of the others, with rows of an odd
// number of floats, so that lanes read different banks.
template <int kColumns>
struct Tiles {
  float* shared;
  int cols;    // a multiple of 4; columns from that of the head on are zero
  int others;  // rows of each of the latter
  __device__ float* mine(int which, int i) const {
    return shared + (which * kTile<kColumns> + i) * cols;
  }
  __device__ float* other(int which, int j) const {
    return shared + 2 * kTile<kColumns> * cols + (which * others + j) * (cols + 1);
  }
};
template <int kColumns>
size_t tile_bytes(int64_t cols, int others) {
  const int padded = rounded_to_four(cols);
  return sizeof(float) * (2 * kTile<kColumns> * padded + 2 * others * (padded + 1));
}

// Copies elements [begin, end) of a head, with zeros after the columns of the head.
template <class T, class Place>
__device__ void load_tile(const Attention<T>& of, const T* from, int64_t begin, int64_t end,
                          int padded, Place&& place) {
  const auto threads = static_cast<int>(blockDim.x * blockDim.y);
  const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  const int count = static_cast<int>(end - begin) * padded;
  for (int i = thread; i < count; i += threads) {
    const int e = i / padded, c = i % padded;
    place(e)[c] = c < of.cols ? widen(from[of.at(begin + e) + c]) : 0.0f;
  }
}

// The dot products of kCount rows of `mine` and the lane's row of `other`.
template <int kCount>
__device__ void dot_products(const float* mine, int cols, const float* other,
                             float (&sums)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = 0.0f;
  for (int c = 0; c < cols; c += 4) {
    const float values[4] = {other[c], other[c + 1], other[c + 2], other[c + 3]};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float4 row = *reinterpret_cast<const float4*>(mine + i * cols + c);
      sums[i] += row.x * values[0] + row.y * values[1] + row.z * values[2] + row.w * values[3];
    }
  }
}

// sums[i][k] += the sum over lanes of weights[i] of a lane times column 32 k + own of its row.
template <int kCount, int kColumns>
__device__ void add_weighted(const Tiles<kColumns>& tiles, int which, int others, int cols,
                             const float (&weights)[kCount], float (&sums)[kCount][kColumns]) {
  for (int j = 0; j < others; ++j) {
    float shares[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) shares[i] = __shfl_sync(~0u, weights[i], j);
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      const int c = k * kWarp + static_cast<int>(threadIdx.x);
      const float value = c < cols ? tiles.other(which, j)[c] : 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[i][k] += shares[i] * value;
    }
  }
}

// What a warp works on: elements first to first + kCount - 1, and the row of each.
template <int kCount>
struct Mine {
  int64_t first;
  int32_t rows[kCount];  // -1: padding, or no element at all
  template <class T>
  __device__ Mine(const Attention<T>& of, int64_t tile) : first(tile + threadIdx.y * kCount) {
    for (int i = 0; i < kCount; ++i) rows[i] = first + i < of.elements ? of.row_of[first + i] : -1;
  }
  __device__ bool has(int32_t row) const {
    bool found = false;
    for (int i = 0; i < kCount; ++i) found |= rows[i] == row;
    return found;
  }
};

// Calls body(row, begin, end) for tiles of all rows that the block's elements, of which the first
// is `tile`, belong to.
template <class T, class Body>
__device__ void for_each_other_tile(const Attention<T>& of, int64_t tile, int count, Body&& body) {
  int64_t last = min(tile + count, of.elements) - 1;
  while (last >= tile && of.row_of[last] < 0) --last;
  if (last < tile) return;
  for (int32_t row = of.row_of[tile]; row <= of.row_of[last]; ++row) {
    const int64_t end = of.offsets[row + 1];
    for (int64_t begin = of.offsets[row]; begin < end; begin += of.others)
      body(row, begin, min(begin + of.others, end));
  }
}

template <int kCount, int kColumns, class T>
__device__ void write_columns(const Attention<T>& of, const Mine<kCount>& mine,
                              const float (&values)[kCount][kColumns], Write write, T* to) {
  if (write == Write::kNone) return;
  for (int i = 0; i < kCount; ++i) {
    if (mine.first + i >= of.elements) continue;
    for (int k = 0; k < kColumns; ++k) {
      const int c = k * kWarp + static_cast<int>(threadIdx.x);
      if (c >= of.cols) continue;
      T& place = to[of.at(mine.first + i) + c];
      place = narrow<T>(write == Write::kAdd ? widen(place) + values[i][k] : values[i][k]);
    }
  }
}

// Tiles of queries; the others are keys and values. The softmax is kept up to date while they pass.
template <int kColumns, bool kDropout, class T>
__global__ void __launch_bounds__(kThreads) attention_kernel(Attention<T> of, T* y) {
  extern __shared__ float shared[];
  constexpr int kCount = kEach<kColumns>;
  const int cols = rounded_to_four(of.cols);
  const Tiles<kColumns> tiles{shared, cols, of.others};
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kTile<kColumns>;
  const Mine<kCount> mine(of, tile);
  const AttentionDropout dropout = of.of_batch();
  load_tile(of, of.q, tile, min(tile + kTile<kColumns>, of.elements), cols,
            [&](int i) { return tiles.mine(0, i); });
  float most[kCount], total[kCount] = {}, sums[kCount][kColumns] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) most[i] = -INFINITY;
  for_each_other_tile(of, tile, kTile<kColumns>, [&](int32_t row, int64_t begin, int64_t end) {
    __syncthreads();
    load_tile(of, of.k, begin, end, cols, [&](int j) { return tiles.other(0, j); });
    load_tile(of, of.v, begin, end, cols, [&](int j) { return tiles.other(1, j); });
    __syncthreads();
    if (!mine.has(row)) return;
    const int others = static_cast<int>(end - begin), lane = static_cast<int>(threadIdx.x);
    const bool inside = lane < others;
    float scores[kCount], weights[kCount];
    dot_products(tiles.mine(0, threadIdx.y * kCount), cols, tiles.other(0, inside ? lane : 0),
                 scores);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      weights[i] = 0.0f;
      if (mine.rows[i] != row) continue;
      const float score = inside ? of.scale * scores[i] : -INFINITY;
      const float now = fmaxf(most[i], warp_max(score)), decay = expf(most[i] - now);
      weights[i] = expf(score - now);
      total[i] = total[i] * decay + warp_sum(weights[i]);
      most[i] = now;
#pragma unroll
      for (int k = 0; k < kColumns; ++k) sums[i][k] *= decay;
      if (kDropout && inside)
        weights[i] *= dropout.factor(of.query(mine.first + i),
                                     static_cast<int32_t>(begin - of.offsets[row]) + lane);
    }
    add_weighted(tiles, 1, others, cols, weights, sums);
  });
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (mine.rows[i] < 0) continue;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) sums[i][k] /= total[i];
    if (threadIdx.x == 0) of.norms[of.query(mine.first + i)] = most[i] + logf(total[i]);
  }
  write_columns(of, mine, sums, Write::kOverwrite, y);
}

// means = the dot product of y and its gradient, by element and head; a warp for each.
template <class T>
__global__ void __launch_bounds__(kThreads) attention_means_kernel(Attention<T> of) {
  const int64_t i = row_of_warp();
  if (i >= of.elements * of.heads) return;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x; c < of.cols; c += kWarp)
    sum += widen(of.y[i * of.cols + c]) * widen(of.dy[i * of.cols + c]);
  sum = warp_sum(sum);
  if (threadIdx.x == 0) of.means[i] = sum;
}

// Tiles of queries give the gradient of q; tiles of keys those of k and v.
enum class Side { kQueries, kKeys };
template <class T>
struct ToInputs {
  Write write[3];
  T* to[3];
};

template <int kColumns, Side kSide, bool kDropout, class T>
__global__ void __launch_bounds__(kThreads)
    attention_gradients_kernel(Attention<T> of, ToInputs<T> inputs) {
  extern __shared__ float shared[];
  constexpr int kCount = kEach<kColumns>;
  constexpr bool kByKeys = kSide == Side::kKeys;
  const int cols = rounded_to_four(of.cols);
  const Tiles<kColumns> tiles{shared, cols, of.others};
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kTile<kColumns>;
  const Mine<kCount> mine(of, tile);
  const AttentionDropout dropout = of.of_batch();
  const T* own[2] = {kByKeys ? of.k : of.q, kByKeys ? of.v : of.dy};
  const T* theirs[2] = {kByKeys ? of.q : of.k, kByKeys ? of.dy : of.v};
  for (int which : {0, 1})
    load_tile(of, own[which], tile, min(tile + kTile<kColumns>, of.elements), cols,
              [&](int i) { return tiles.mine(which, i); });
  float first[kCount][kColumns] = {}, second[kByKeys ? kCount : 1][kColumns] = {};
  for_each_other_tile(of, tile, kTile<kColumns>, [&](int32_t row, int64_t begin, int64_t end) {
    __syncthreads();
    for (int which : {0, 1})
      load_tile(of, theirs[which], begin, end, cols, [&](int j) { return tiles.other(which, j); });
    __syncthreads();
    if (!mine.has(row)) return;
    const int others = static_cast<int>(end - begin);
    const bool inside = threadIdx.x < others;
    const int lane = inside ? static_cast<int>(threadIdx.x) : 0;
    float scores[kCount], slopes[kCount], weights[kCount];
    dot_products(tiles.mine(0, threadIdx.y * kCount), cols, tiles.other(0, lane), scores);
    dot_products(tiles.mine(1, threadIdx.y * kCount), cols, tiles.other(1, lane), slopes);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      weights[i] = 0.0f;
      const bool pair = inside && mine.rows[i] == row;
      const int64_t query = of.query(kByKeys ? begin + lane : mine.first + i);
      const int64_t key = kByKeys ? mine.first + i : begin + lane;
      float factor = 1.0f;
      if (pair) {
        if (kDropout) factor = dropout.factor(query, static_cast<int32_t>(key - of.offsets[row]));
        weights[i] = expf(of.scale * scores[i] - of.norms[query]);
      }
      slopes[i] = pair ? of.scale * weights[i] * (slopes[i] * factor - of.means[query]) : 0.0f;
      weights[i] *= factor;
    }
    add_weighted(tiles, 0, others, cols, slopes, first);
    if constexpr (kByKeys) add_weighted(tiles, 1, others, cols, weights, second);
  });
  if constexpr (kByKeys) {
    write_columns(of, mine, first, inputs.write[1], inputs.to[1]);
    write_columns(of, mine, second, inputs.write[2], inputs.to[2]);
  } else {
    write_columns(of, mine, first, inputs.write[0], inputs.to[0]);
  }
}

[[noreturn]] void refuse_columns(int64_t cols, size_t least, size_t room) {
  throw Error(ErrorCode::kUnsupported,
              cat("self-attention with heads of ", cols, " columns needs ", least,
                  " bytes of shared memory, but a block of this GPU has ", room,
                  "; use more heads, or --device cpu"));
}

template <int kColumns, class T, class... Arguments>
void launch_tiles(const Context& context, void (*kernel)(Attention<T>, Arguments...),
                  Attention<T> of, Arguments... arguments) {
  const size_t room = allow_shared_memory(kernel);
  of.others = kMostOthers;
  while (of.others > kFewestOthers && tile_bytes<kColumns>(of.cols, of.others) > room)
    of.others /= 2;
  const size_t bytes = tile_bytes<kColumns>(of.cols, of.others);
  if (bytes > room) refuse_columns(of.cols, bytes, room);
  const dim3 blocks(blocks_of(of.elements, kTile<kColumns>), static_cast<unsigned>(of.heads));
  kernel<<<blocks, row_threads(), bytes, context.stream>>>(of, arguments...);
  check_launch("launching self-attention");
}

// Calls body with the columns of a head in units of 32.
template <class Body>
void with_columns(int64_t cols, Body&& body) {
  if (cols <= 32) return body(std::integral_constant<int, 1>{});
  if (cols <= 64) return body(std::integral_constant<int, 2>{});
  if (cols <= 128) return body(std::integral_constant<int, 4>{});
  if (cols <= 256) return body(std::integral_constant<int, 8>{});
  body(std::integral_constant<int, 16>{});
}

template <class Body>
void with_dropout(bool dropped, Body&& body) {
  dropped ? body(std::true_type{}) : body(std::false_type{});
}

}  // namespace

void SelfAttention::forward_cuda(const OpContext& pass) {
  dropped_ = pass.phase == Phase::kTrain && dropout_ > 0.0f;
  if (pass.rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Attention<T> of{.elements = pass.rows,
                          .heads = heads_,
                          .cols = head_cols(),
                          .offsets = pass.offsets,
                          .row_of = pass.row_of,
                          .q = in(0).value<T>(),
                          .k = in(1).value<T>(),
                          .v = in(2).value<T>(),
                          .norms = norms_.data(),
                          .scale = scale(),
                          .dropout = {dropout_, pass.seed, stream_},
                          .step = pass.step};
    with_columns(of.cols, [&](auto columns) {
      constexpr int kColumns = decltype(columns)::value;
      with_dropout(dropped_, [&](auto dropped) {
        launch_tiles<kColumns>(pass.context,
                               attention_kernel<kColumns, decltype(dropped)::value, T>, of,
                               out().value<T>());
      });
    });
  });
}

void SelfAttention::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  with_type(out().dtype, [&](auto type) {
    using T = decltype(type);
    const Attention<T> of{.elements = pass.rows,
                          .heads = heads_,
                          .cols = head_cols(),
                          .offsets = pass.offsets,
                          .row_of = pass.row_of,
                          .q = in(0).value<T>(),
                          .k = in(1).value<T>(),
                          .v = in(2).value<T>(),
                          .y = out().value<T>(),
                          .dy = out().gradient<T>(),
                          .norms = norms_.data(),
                          .means = means_.data(),
                          .scale = scale(),
                          .dropout = {dropout_, pass.seed, stream_},
                          .step = pass.step};
    const ToInputs<T> inputs{{write(0), write(1), write(2)},
                             {in(0).gradient<T>(), in(1).gradient<T>(), in(2).gradient<T>()}};
    attention_means_kernel<T>
        <<<row_blocks(of.elements * heads_), row_threads(), 0, pass.context.stream>>>(of);
    check_launch("launching the means of the gradients of self-attention");
    with_columns(of.cols, [&](auto columns) {
      constexpr int kColumns = decltype(columns)::value;
      with_dropout(dropped_, [&](auto dropped) {
        constexpr bool kDropped = decltype(dropped)::value;
        if (write(0) != Write::kNone)
          launch_tiles<kColumns>(pass.context,
                                 attention_gradients_kernel<kColumns, Side::kQueries, kDropped, T>,
                                 of, inputs);
        if (write(1) != Write::kNone || write(2) != Write::kNone)
          launch_tiles<kColumns>(pass.context,
                                 attention_gradients_kernel<kColumns, Side::kKeys, kDropped, T>, of,
                                 inputs);
      });
    });
  });
}

}  // namespace emblem
