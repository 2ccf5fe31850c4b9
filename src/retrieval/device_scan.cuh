// retrieval/device_scan.cuh - kernels of exact searches on a GPU.
#pragma once

#include <cuda_bf16.h>

#include "nn/ops/mma.cuh"
#include "retrieval/query_bound.h"

namespace emblem::cuda {

constexpr int kScanThreads = 256, kScanRows = 256;  // of a block
constexpr int kUsersAtATime = 16, kElementsAtATime = 32;
static_assert(kScanRows == ItemSegment::kBoundRows);

struct DeviceCandidate {
  float lower, upper;
  int32_t row;
};

// Rows of `stride` elements, zeros beyond dim.
struct DeviceRows {
  const void* rows;
  const float* scales;  // int8 only
  const int64_t* ids;
  const uint64_t* attributes;
  const ScoreBound* bounds;
  int64_t count, dim, stride;
};

// Queries, rounded and divided by `scale` (a power of two), `packets` of 16 bytes each, and as they
// are, `dim` floats each.
struct DeviceQueries {
  const uint4* rounded;
  const float* exact;
  const QueryBound* bounds;
  const float* scales;
  int users, packets;
};

struct DeviceFilter {
  uint64_t attributes;
  const uint64_t* removed;        // null: none
  const int64_t* excluded;        // ascending for each query
  const int64_t* excluded_begin;  // [users + 1]; null: none
};

// What is known of the best of each query.
struct DeviceBest {
  float* thresholds;            // infinite: the query is not searched
  int* counts;                  // of candidates that were found, also beyond the capacity
  DeviceCandidate* candidates;  // [users, capacity]
  float* kept_scores;           // [users, capacity]: while results are sorted
  int32_t* kept_rows;
  int capacity, k;
  float* scores;  // [users, k]: results
  int64_t* ids;
  int* found;
  int* overflowed;
};

struct ScanTask {
  DeviceRows rows;
  DeviceQueries queries;
  DeviceFilter filter;
  DeviceBest best;
  int64_t first_tile, last_tile, tile_step;  // tiles of kScanRows rows
  int group;                                 // users of a block
};

// ---- elements, eight at a time, in the type of products ----

__device__ inline uint32_t bf16_pair(float a, float b) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(a, b);
  return reinterpret_cast<const uint32_t&>(pair);
}

template <class T>
struct Eight {
  using Product = T;
  __device__ static uint4 load(const T* at) { return __ldg(reinterpret_cast<const uint4*>(at)); }
  __device__ static float value(T element, float) { return element.to_float(); }
};
template <>
struct Eight<float> {
  using Product = Bf16;
  __device__ static uint4 load(const float* at) {
    const float4 a = __ldg(reinterpret_cast<const float4*>(at)),
                 b = __ldg(reinterpret_cast<const float4*>(at) + 1);
    return {bf16_pair(a.x, a.y), bf16_pair(a.z, a.w), bf16_pair(b.x, b.y), bf16_pair(b.z, b.w)};
  }
  __device__ static float value(float element, float) { return element; }
};
template <>
struct Eight<int8_t> {
  using Product = Bf16;
  __device__ static uint32_t two(uint32_t from, int shift) {
    return bf16_pair(static_cast<float>(static_cast<int8_t>(from >> shift)),
                     static_cast<float>(static_cast<int8_t>(from >> (shift + 8))));
  }
  __device__ static uint4 load(const int8_t* at) {
    const uint2 from = __ldg(reinterpret_cast<const uint2*>(at));
    return {two(from.x, 0), two(from.x, 16), two(from.y, 0), two(from.y, 16)};
  }
  __device__ static float value(int8_t element, float scale) {
    return __fmul_rn(scale, static_cast<float>(element));
  }
};

// ---- scan ----

__device__ inline bool is_excluded(const DeviceFilter& filter, int user, int64_t id) {
  if (filter.excluded_begin == nullptr) return false;
  int64_t low = filter.excluded_begin[user], high = filter.excluded_begin[user + 1];
  const int64_t end = high;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (filter.excluded[middle] < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < end && filter.excluded[low] == id;
}

// An item whose product passed the threshold: rare.
__device__ __noinline__ void add_candidate(const ScanTask& task, int user, int64_t row,
                                           float product) {
  const DeviceRows& rows = task.rows;
  if (row >= rows.count) return;
  const DeviceFilter& filter = task.filter;
  if (filter.removed != nullptr && (filter.removed[row / 64] >> (row % 64) & 1) != 0) return;
  if ((rows.attributes[row] & filter.attributes) != filter.attributes) return;
  if (is_excluded(filter, user, rows.ids[row])) return;
  const float score = product * task.queries.scales[user],
              margin = task.queries.bounds[user].of(rows.bounds[row / kScanRows]);
  if (score + margin < task.best.thresholds[user]) return;
  const int at = atomicAdd(task.best.counts + user, 1);
  if (at >= task.best.capacity) return;
  task.best.candidates[static_cast<int64_t>(user) * task.best.capacity + at] = {
      score - margin, score + margin, static_cast<int32_t>(row)};
}

// The 32 rows of a warp: a lane has 8 elements of each step of rows lane / 4 + 0, 8, 16, 24.
template <class T, int kSteps>
struct WarpRows {
  using Load = Eight<T>;
  static constexpr int kKept = kSteps > 0 ? kSteps : 1;
  const T* at[4];
  float scale[4];
  uint4 kept[4][kKept];

  __device__ WarpRows(const DeviceRows& rows, int64_t first) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t row = min(first + lane / 4 + 8 * j, rows.count - 1);
      at[j] = static_cast<const T*>(rows.rows) + row * rows.stride + lane % 4 * 8;
      scale[j] = rows.scales == nullptr ? 1.0f : __ldg(rows.scales + row);
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        kept[j][step] = Load::load(at[j] + step * kElementsAtATime);
    }
  }
  // With more steps than registers the L1 cache keeps the rows.
  __device__ uint4 get(int j, int step) const {
    if constexpr (kSteps > 0) {
      return kept[j][step];
    } else {
      return Load::load(at[j] + step * kElementsAtATime);
    }
  }
};

// Products of 16 users with the rows of a warp: sums[rows / 16][users / 8].
template <class T, int kSteps>
__device__ inline void multiply_rows(const WarpRows<T, kSteps>& rows, const uint4* queries,
                                     int packets, int steps, float (&sums)[2][2][4]) {
  using Product = typename Eight<T>::Product;
  const int lane = threadIdx.x % 32;
  const uint4* const first = queries + lane / 4 * packets + lane % 4;
  const uint4* const second = first + 8 * packets;
  const auto add = [&](int step) {
    const uint4 left = first[4 * step], right = second[4 * step];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 top = rows.get(2 * half, step), bottom = rows.get(2 * half + 1, step);
      multiply_wide<Product>(sums[half][0], top, bottom, left);
      multiply_wide<Product>(sums[half][1], top, bottom, right);
    }
  };
  if constexpr (kSteps > 0) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) add(step);
  } else {
    for (int step = 0; step < steps; ++step) add(step);
  }
}

template <class T, int kSteps>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_items(const __grid_constant__ ScanTask task) {
  extern __shared__ uint4 shared[];
  const int groups = (task.queries.users + task.group - 1) / task.group,
            first_user = static_cast<int>(blockIdx.x) % groups * task.group,
            users = min(task.group, task.queries.users - first_user),
            padded = (users + kUsersAtATime - 1) / kUsersAtATime * kUsersAtATime,
            packets = task.queries.packets, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint4* const queries = shared;
  float* const least = reinterpret_cast<float*>(shared + padded * packets);
  for (int i = threadIdx.x; i < padded * packets; i += kScanThreads)
    queries[i] = i < users * packets ? task.queries.rounded[first_user * packets + i] : uint4{};
  const int64_t stride = gridDim.x / groups * task.tile_step;
  for (int64_t tile = task.first_tile + blockIdx.x / groups * task.tile_step; tile < task.last_tile;
       tile += stride) {
    const int64_t first = tile * kScanRows + warp * 32;
    const WarpRows<T, kSteps> rows(task.rows, first);
    const ScoreBound bound = task.rows.bounds[tile];
    __syncthreads();  // thresholds of the last tile are not read any longer
    for (int u = threadIdx.x; u < padded; u += kScanThreads) {
      least[u] = INFINITY;
      if (u >= users) continue;
      const int user = first_user + u;
      least[u] = (task.best.thresholds[user] - task.queries.bounds[user].of(bound)) /
                 task.queries.scales[user];
    }
    __syncthreads();
    for (int u = 0; u < padded; u += kUsersAtATime) {
      float sums[2][2][4] = {};
      multiply_rows(rows, queries + u * packets, packets,
                    static_cast<int>(task.rows.stride / kElementsAtATime), sums);
#pragma unroll
      for (int side = 0; side < 2; ++side) {
        const int user = u + 8 * side + lane % 4 * 2;
        const float t0 = least[user], t1 = least[user + 1];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float(&sum)[4] = sums[half][side];
          if constexpr (sizeof(T) == 1) {
            sum[0] *= rows.scale[2 * half], sum[1] *= rows.scale[2 * half];
            sum[2] *= rows.scale[2 * half + 1], sum[3] *= rows.scale[2 * half + 1];
          }
          if (sum[0] < t0 && sum[1] < t1 && sum[2] < t0 && sum[3] < t1) [[likely]]
            continue;
#pragma unroll
          for (int j = 0; j < 4; ++j)
            if (sum[j] >= (j % 2 == 0 ? t0 : t1))
              add_candidate(task, first_user + user + j % 2,
                            first + lane / 4 + 16 * half + j / 2 * 8, sum[j]);
        }
      }
    }
  }
}

// ---- selection: one block for each query ----

__device__ inline uint32_t ordered_bits(float value) {
  const uint32_t bits = __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The k-th largest lower bound of `count` >= k candidates.
__device__ inline float kth_lower(const DeviceCandidate* candidates, int count, int k) {
  __shared__ int histogram[256];
  __shared__ uint32_t prefix;
  __shared__ int rest;
  if (threadIdx.x == 0) prefix = 0, rest = k;
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) histogram[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const uint32_t key = ordered_bits(candidates[i].lower);
      if (static_cast<uint64_t>(key ^ prefix) >> (shift + 8) == 0)
        atomicAdd(histogram + (key >> shift & 255), 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int bin = 255;
      for (; histogram[bin] < rest; --bin) rest -= histogram[bin];
      prefix |= static_cast<uint32_t>(bin) << shift;
    }
  }
  __syncthreads();
  const uint32_t key = prefix;
  __syncthreads();
  return __uint_as_float((key & 0x80000000u) != 0 ? key & 0x7fffffffu : ~key);
}

// Thresholds from the candidates of a sample, which are forgotten.
__global__ void raise_thresholds(DeviceBest best) {
  const int user = static_cast<int>(blockIdx.x);
  const int count = min(best.counts[user], best.capacity);
  const DeviceCandidate* const candidates =
      best.candidates + static_cast<int64_t>(user) * best.capacity;
  const float lower = count < best.k ? -INFINITY : kth_lower(candidates, count, best.k);
  __syncthreads();
  if (threadIdx.x != 0) return;
  best.thresholds[user] = fmaxf(best.thresholds[user], lower);
  best.counts[user] = 0;
}

template <class T>
__device__ float exact_score(const DeviceRows& rows, const float* query, int64_t row) {
  const T* const elements = static_cast<const T*>(rows.rows) + row * rows.stride;
  const float scale = rows.scales == nullptr ? 1.0f : rows.scales[row];
  float sum = 0.0f;
  for (int64_t k = 0; k < rows.dim; ++k)
    sum = fmaf(query[k], Eight<T>::value(elements[k], scale), sum);
  return sum;
}

// The best k of the candidates by exact scores, in order. They become the only candidates, so that
// others can be added.
template <class T>
__global__ void finish_best(const __grid_constant__ ScanTask task) {
  const DeviceBest& best = task.best;
  const int user = static_cast<int>(blockIdx.x);
  if (best.thresholds[user] == INFINITY) return;
  __shared__ int kept;
  const int64_t first = static_cast<int64_t>(user) * best.capacity;
  const int count = min(best.counts[user], best.capacity);
  const bool overflows = best.counts[user] > best.capacity;
  DeviceCandidate* const candidates = best.candidates + first;
  float* const scores = best.kept_scores + first;
  int32_t* const rows = best.kept_rows + first;
  const float lower = count > best.k ? kth_lower(candidates, count, best.k) : -INFINITY;
  if (threadIdx.x == 0) kept = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    if (candidates[i].upper < lower) continue;
    const int at = atomicAdd(&kept, 1);
    rows[at] = candidates[i].row;
    scores[at] = exact_score<T>(task.rows, task.queries.exact + user * task.rows.dim, rows[at]);
  }
  __syncthreads();
  const int total = kept, found = min(total, best.k);
  for (int i = threadIdx.x; i < total; i += blockDim.x) {
    const float score = scores[i];
    const int64_t id = task.rows.ids[rows[i]];
    int rank = 0;
    for (int j = 0; j < total; ++j)
      rank += scores[j] > score || (scores[j] == score && task.rows.ids[rows[j]] < id);
    if (rank >= found) continue;
    best.scores[static_cast<int64_t>(user) * best.k + rank] = score;
    best.ids[static_cast<int64_t>(user) * best.k + rank] = id;
    candidates[rank] = {score, score, rows[i]};
    if (rank + 1 == best.k) best.thresholds[user] = score;
  }
  if (threadIdx.x != 0) return;
  best.counts[user] = best.found[user] = found;
  best.overflowed[user] = static_cast<int>(overflows);
}

}  // namespace emblem::cuda
