#include "nn/ops/lanes.cuh"
#include "nn/ops/loss/loss_cuda.cuh"
#include "nn/ops/loss/ranking.h"

namespace emblem {
namespace {

constexpr int kTileRows = 32, kRowsOfThread = kTileRows / cuda::kWarps;
constexpr int kColumnsOfBlock = 4 * cuda::kWarp;  // of a gradient

// Users and items of a batch.
template <class T>
struct Ranked {
  const T *users, *items;
  int64_t rows, padded_items, first;
  const int32_t* real_items;  // null: there is no padding
  int cols;
  float scale;
  float *own, *norms;
  CandidateFacts facts;

  __device__ int64_t item_count() const {
    return real_items == nullptr ? padded_items : *real_items;
  }
  // Whether the item is one of the user's candidates besides its own; `shared`: where those of all
  // users end.
  __device__ bool competes(int64_t user, int64_t item, int64_t shared) const {
    return user < rows && item >= first && item < shared && item != user &&
           !facts.are_equal(user, item);
  }
  __device__ int64_t end_of_shared(int64_t items_there) const {
    return facts.first_of_row(0, rows, items_there);
  }
  // In the order of columns, so that equal vectors have equal scores everywhere.
  __device__ float score(int64_t user, int64_t item) const {
    float score = 0.0f;
    for (int j = 0; j < cols; ++j)
      score = __fmaf_rn(cuda::widen(users[user * cols + j]), cuda::widen(items[item * cols + j]),
                        score);
    return score * scale;
  }
  // What the loss of the user gains with the score of the item.
  __device__ float weight(float slope, int64_t user, int64_t item, float score) const {
    return slope * scale * expf(facts.corrected(score, item) - norms[user]);
  }
};

template <class T>
__global__ void __launch_bounds__(cuda::kThreads) own_scores_kernel(Ranked<T> of) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (r >= of.rows) return;
  of.own[r] = of.score(r, r);
}

using Tile = float[kTileRows][cuda::kWarp + 1];

// Columns [from, from + 32) of 32 rows, zeros beyond the matrix.
template <class T>
__device__ void load_tile(const T* x, int64_t first, int64_t rows, int from, int cols, Tile& to) {
  const int j = from + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int k = 0; k < kRowsOfThread; ++k) {
    const int row = threadIdx.y + k * cuda::kWarps;
    const bool is_there = first + row < rows && j < cols;
    to[row][threadIdx.x] = is_there ? cuda::widen(x[(first + row) * cols + j]) : 0.0f;
  }
}

// scores[k] = the product of row a + y + 8 k of `left` and row b + x of `right`.
template <class T>
__device__ void tile_scores(const T* left, int64_t a, int64_t left_rows, const T* right, int64_t b,
                            int64_t right_rows, int cols, float (&scores)[kRowsOfThread]) {
  __shared__ Tile of_left, of_right;
#pragma unroll
  for (int k = 0; k < kRowsOfThread; ++k) scores[k] = 0.0f;
  for (int from = 0; from < cols; from += cuda::kWarp) {
    __syncthreads();
    load_tile(left, a, left_rows, from, cols, of_left);
    load_tile(right, b, right_rows, from, cols, of_right);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < cuda::kWarp; ++j) {
#pragma unroll
      for (int k = 0; k < kRowsOfThread; ++k)
        scores[k] = __fmaf_rn(of_left[threadIdx.y + k * cuda::kWarps][j], of_right[threadIdx.x][j],
                              scores[k]);
    }
  }
}

struct RunningRow {
  float own = 0.0f, most = 0.0f, sum = 1.0f, better = 0.0f, equal = 1.0f;

  // A warp together: one score a lane.
  __device__ void add(bool competes, float score, float corrected) {
    const float top = fmaxf(most, cuda::warp_max(competes ? corrected : -INFINITY));
    sum = sum * expf(most - top) + cuda::warp_sum(competes ? expf(corrected - top) : 0.0f);
    most = top;
    better += static_cast<float>(__popc(__ballot_sync(~0u, competes && score > own)));
    equal += static_cast<float>(__popc(__ballot_sync(~0u, competes && score == own)));
  }
};

// The items [shared, items) that are candidates of the row alone, by a warp.
template <class T>
__device__ void add_own_candidates(const Ranked<T>& of, int64_t row, int64_t shared, int64_t items,
                                   RunningRow& rank) {
  const int64_t begin = of.facts.first_of_row(row, shared, items),
                end = of.facts.first_of_row(row + 1, begin, items);
  for (int64_t from = begin; from < end; from += cuda::kWarp) {
    const int64_t item = from + threadIdx.x;
    const bool competes = item < end && !of.facts.are_equal(row, item);
    const float score = competes ? of.score(row, item) : 0.0f;
    rank.add(competes, score, competes ? of.facts.corrected(score, item) : score);
  }
}

// A block for each 32 users. Leaves the corrected scores of rows' own items in `own`.
template <class T, class Out>
__global__ void __launch_bounds__(cuda::kThreads) ranks_kernel(Ranked<T> of, Out* out) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kTileRows, items = of.item_count();
  const int64_t shared = of.end_of_shared(items);
  RunningRow rows[kRowsOfThread];
#pragma unroll
  for (int k = 0; k < kRowsOfThread; ++k) {
    const int64_t r = begin + threadIdx.y + k * cuda::kWarps;
    if (r >= of.rows) continue;
    rows[k].own = of.own[r];
    rows[k].most = of.facts.corrected(of.own[r], r);
  }
  for (int64_t from = of.first; from < shared; from += cuda::kWarp) {
    float scores[kRowsOfThread];
    tile_scores(of.users, begin, of.rows, of.items, from, shared, of.cols, scores);
    const int64_t item = from + threadIdx.x;
#pragma unroll
    for (int k = 0; k < kRowsOfThread; ++k) {
      const int64_t r = begin + threadIdx.y + k * cuda::kWarps;
      const bool competes = of.competes(r, item, shared);
      const float score = scores[k] * of.scale;
      rows[k].add(competes, score, competes ? of.facts.corrected(score, item) : score);
    }
  }
#pragma unroll
  for (int k = 0; k < kRowsOfThread; ++k) {
    const int64_t r = begin + threadIdx.y + k * cuda::kWarps;
    if (r < of.rows) add_own_candidates(of, r, shared, items, rows[k]);
  }
#pragma unroll
  for (int k = 0; k < kRowsOfThread; ++k) {
    const int64_t r = begin + threadIdx.y + k * cuda::kWarps;
    if (r >= of.rows || threadIdx.x > 0) continue;
    const float norm = rows[k].most + logf(rows[k].sum);
    const float own = of.facts.corrected(rows[k].own, r);
    of.norms[r] = norm;
    of.own[r] = own;
    out[r * kRankColumns] = cuda::narrow<Out>(norm - own);
    out[r * kRankColumns + 1] = cuda::narrow<Out>(rows[k].better);
    out[r * kRankColumns + 2] = cuda::narrow<Out>(rows[k].equal);
  }
}

// Adds to the sums of columns from `column` on, 32 apart, what a user's gradient gets from the
// items [shared, items) that are candidates of it alone; a warp.
template <class T>
__device__ void add_own_items(const Ranked<T>& of, int64_t user, float slope, int64_t shared,
                              int64_t items, int column, float (&sums)[4]) {
  const int64_t begin = of.facts.first_of_row(user, shared, items),
                end = of.facts.first_of_row(user + 1, begin, items);
  for (int64_t from = begin; from < end; from += cuda::kWarp) {
    const int64_t item = from + threadIdx.x;
    const bool competes = item < end && !of.facts.are_equal(user, item);
    const float weight = competes ? of.weight(slope, user, item, of.score(user, item)) : 0.0f;
    const int there = static_cast<int>(min(static_cast<int64_t>(cuda::kWarp), end - from));
    for (int j = 0; j < there; ++j) {
      const float of_item = __shfl_sync(~0u, weight, j);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int at = column + c * cuda::kWarp;
        if (at < of.cols) sums[c] += of_item * cuda::widen(of.items[(from + j) * of.cols + at]);
      }
    }
  }
}

// The same for an item from `shared` on, which is a candidate of one user.
template <class T, class Out>
__device__ void add_only_user(const Ranked<T>& of, int64_t item, const Out* slopes, int column,
                              float (&sums)[4]) {
  const int64_t user = of.facts.candidate_of[item];
  if (of.facts.are_equal(user, item)) return;
  const float weight =
      of.weight(cuda::widen(slopes[user * kRankColumns]), user, item, of.score(user, item));
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const int at = column + c * cuda::kWarp;
    if (at < of.cols) sums[c] += weight * cuda::widen(of.users[user * of.cols + at]);
  }
}

// A block for each 32 rows of the users' gradient, or the items', and kColumnsOfBlock columns of
// it.
template <bool kOfItems, bool kAdd, class T, class Out>
__global__ void __launch_bounds__(cuda::kThreads)
    rank_gradients_kernel(Ranked<T> of, const Out* slopes, T* gradient) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kTileRows, items = of.item_count();
  const int64_t rows = kOfItems ? of.padded_items : of.rows;
  const T *left = kOfItems ? of.items : of.users, *right = kOfItems ? of.users : of.items;
  const int64_t shared = of.end_of_shared(items);
  const int64_t left_rows = kOfItems ? items : of.rows, right_rows = kOfItems ? of.rows : shared;
  const int first_column = static_cast<int>(blockIdx.y) * kColumnsOfBlock + threadIdx.x;
  float sums[kRowsOfThread][4] = {};
  __shared__ Tile weights;
  const bool competes = !kOfItems || (begin + kTileRows > of.first && begin < shared);
  for (int64_t from = kOfItems ? 0 : of.first; competes && from < right_rows; from += cuda::kWarp) {
    float scores[kRowsOfThread];
    tile_scores(left, begin, left_rows, right, from, right_rows, of.cols, scores);
#pragma unroll
    for (int k = 0; k < kRowsOfThread; ++k) {
      const int row = threadIdx.y + k * cuda::kWarps;
      const int64_t a = begin + row, b = from + threadIdx.x;
      const int64_t user = kOfItems ? b : a, item = kOfItems ? a : b;
      weights[row][threadIdx.x] = of.competes(user, item, shared)
                                      ? of.weight(cuda::widen(slopes[user * kRankColumns]), user,
                                                  item, scores[k] * of.scale)
                                      : 0.0f;
    }
    __syncthreads();
    const int there = static_cast<int>(min(static_cast<int64_t>(cuda::kWarp), right_rows - from));
    for (int j = 0; j < there; ++j) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int column = first_column + c * cuda::kWarp;
        const float value =
            column < of.cols ? cuda::widen(right[(from + j) * of.cols + column]) : 0.0f;
#pragma unroll
        for (int k = 0; k < kRowsOfThread; ++k)
          sums[k][c] += weights[threadIdx.y + k * cuda::kWarps][j] * value;
      }
    }
    __syncthreads();
  }
  if (shared < items) {
#pragma unroll
    for (int k = 0; k < kRowsOfThread; ++k) {
      const int64_t r = begin + threadIdx.y + k * cuda::kWarps;
      if constexpr (kOfItems) {
        if (r >= shared && r < items) add_only_user(of, r, slopes, first_column, sums[k]);
      } else if (r < of.rows) {
        add_own_items(of, r, cuda::widen(slopes[r * kRankColumns]), shared, items, first_column,
                      sums[k]);
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kRowsOfThread; ++k) {
    const int64_t r = begin + threadIdx.y + k * cuda::kWarps;
    if (r >= rows) continue;
    const float own = r < of.rows ? cuda::widen(slopes[r * kRankColumns]) * of.scale *
                                        (expf(of.own[r] - of.norms[r]) - 1.0f)
                                  : 0.0f;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int column = first_column + c * cuda::kWarp;
      if (column >= of.cols) continue;
      const float other = r < of.rows ? cuda::widen(right[r * of.cols + column]) : 0.0f;
      cuda::put<kAdd>(gradient[r * of.cols + column], sums[k][c] + own * other);
    }
  }
}

struct FirstColumn {
  const float* x;
  int64_t cols;
  __device__ double operator()(int64_t r) const { return x[r * cols]; }
};

template <bool kAdd>
__global__ void __launch_bounds__(cuda::kThreads)
    mean_slopes_kernel(RowTargets targets, int64_t rows, int64_t cols, const double* total_weight,
                       float factor, const StepInputs* step, float* gradient) {
  const int64_t r = static_cast<int64_t>(blockIdx.x) * cuda::kThreads + threadIdx.x;
  if (r >= rows) return;
  const float weight = step->loss_scale * share_of(*total_weight, factor) * targets.weight_of(r);
  for (int64_t c = 0; c < cols; ++c)
    cuda::put<kAdd>(gradient[r * cols + c], c == 0 ? weight : 0.0f);
}

// Calls body with values of the types of vectors and of ranks.
template <class Body>
void with_rank_types(DType vectors, DType ranks, Body&& body) {
  cuda::with_type(vectors, [&](auto type) {
    if (ranks == DType::kF32)
      body(type, float{});
    else
      body(type, type);
  });
}

}  // namespace

void RankCandidates::forward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  with_rank_types(in(0).dtype, out().dtype, [&](auto type, auto rank) {
    using T = decltype(type);
    const Ranked<T> of{in(0).value<T>(),
                       in(1).value<T>(),
                       pass.batch_rows,
                       pass.rows,
                       first_candidate(pass),
                       pass.real_rows,
                       static_cast<int>(in(0).cols),
                       scale_,
                       own_.data(),
                       norms_.data(),
                       facts()};
    const cudaStream_t stream = pass.context.stream;
    own_scores_kernel<<<cuda::blocks_of(of.rows, cuda::kThreads), cuda::kThreads, 0, stream>>>(of);
    cuda::check_launch("launching the scores of rows' own items");
    ranks_kernel<<<cuda::blocks_of(of.rows, kTileRows), cuda::row_threads(), 0, stream>>>(
        of, out().value<decltype(rank)>());
    cuda::check_launch("launching the ranks of candidates");
  });
}

void RankCandidates::backward_cuda(const OpContext& pass) {
  if (pass.batch_rows == 0) return;
  with_rank_types(in(0).dtype, out().dtype, [&](auto type, auto rank) {
    using T = decltype(type);
    const Ranked<T> of{in(0).value<T>(),
                       in(1).value<T>(),
                       pass.batch_rows,
                       pass.rows,
                       first_candidate(pass),
                       pass.real_rows,
                       static_cast<int>(in(0).cols),
                       scale_,
                       own_.data(),
                       norms_.data(),
                       facts()};
    const auto* slopes = out().gradient<decltype(rank)>();
    const unsigned columns = cuda::blocks_of(in(0).cols, kColumnsOfBlock);
    with_write(write(0), [&](auto add) {
      rank_gradients_kernel<false, decltype(add)::value>
          <<<dim3(cuda::blocks_of(of.rows, kTileRows), columns), cuda::row_threads(), 0,
             pass.context.stream>>>(of, slopes, in(0).gradient<T>());
      cuda::check_launch("launching the gradients of users");
    });
    with_write(write(1), [&](auto add) {
      rank_gradients_kernel<true, decltype(add)::value>
          <<<dim3(cuda::blocks_of(of.padded_items, kTileRows), columns), cuda::row_threads(), 0,
             pass.context.stream>>>(of, slopes, in(1).gradient<T>());
      cuda::check_launch("launching the gradients of items");
    });
  });
}

void MeanLoss::forward_cuda(const OpContext& pass) {
  if (is_off(pass)) return detail::zero(pass.context, value(pass), sizeof(double));
  cuda::mean_loss(pass, FirstColumn{in(0).value(), in(0).cols}, row_targets(), target().factor,
                  total_weight().data(), value(pass));
}

void MeanLoss::backward_cuda(const OpContext& pass) {
  if (pass.rows == 0) return;
  with_write(write(0), [&](auto add) {
    mean_slopes_kernel<decltype(add)::value>
        <<<cuda::blocks_of(pass.rows, cuda::kThreads), cuda::kThreads, 0, pass.context.stream>>>(
            row_targets(), pass.rows, in(0).cols, total_weight().data(), target().factor, pass.step,
            in(0).gradient());
    cuda::check_launch("launching the gradient of a mean");
  });
}

}  // namespace emblem
