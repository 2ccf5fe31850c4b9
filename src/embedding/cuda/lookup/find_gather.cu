#include "embedding/cuda/lookup/find_gather.h"

#include <algorithm>

#include "core/device/cuda_check.h"
#include "core/device/gpu.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/table/row_vector.cuh"

namespace emblem::cuda {
namespace {

constexpr int kFindThreads = 256;
constexpr int kFindWarps = kFindThreads / 32;
constexpr int kRowsInFlight = 8;  // that a group of lanes loads before it stores the first

__device__ bool has_bags(const FeatureRef& feature) {
  return feature.offsets != nullptr || feature.weights != nullptr;
}

// One tile of keys per warp, one key per lane: latency bounds the kernel, hence many warps at
// once.
template <GatherMode kMode>
__global__ void __launch_bounds__(kFindThreads)
    find_rows_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t tile = blockIdx.x * kFindWarps + threadIdx.x / 32;
  if (tile >= batch.tiles) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  if (!has_bags(feature)) return;
  const uint32_t index = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  const bool there = index < feature.count;
  const DeviceTableRef& table = batch.tables[feature.table];
  uint32_t row = there ? table.find(feature.keys[index]) : kNoRow;
  if (is_eval(kMode)) {
    count_keys(batch, feature, tile == feature.first_tile,
               __ballot_sync(~0u, there && row == kNoRow));
    if (there && feature.absent != nullptr) feature.absent[index] = row == kNoRow ? 1 : 0;
  }
  if (kMode == GatherMode::kEvalCached)
    row = batch.uncached.locate(table, static_cast<uint32_t>(feature.table), row);
  if (there) batch.rows[feature.first + index] = row;
  if (kMode == GatherMode::kTrain) mark_rows(batch, feature, index, row);
}

// What a key without a row reads as: in training, as the row that it is about to get.
template <class W>
__device__ float absent_weight(const DeviceTableRef& table, GatherMode mode, int64_t key,
                               int64_t d) {
  if (is_eval(mode)) return table.missing(table.seed, static_cast<uint64_t>(key), d);
  W stored;
  store_weight(&stored, table.initializer(table.seed, static_cast<uint64_t>(key), d));
  return load_weight(&stored);
}

// What copying needs of a table and a feature, in registers: otherwise it would be read again after
// every store.
struct Copy {
  OutRef out;
  int64_t width;
  int dim;
  bool placed;  // rows go to their places in the output
};

// Groups of kLanes lanes copy the rows that the first kKeys lanes hold to out[0, kKeys), or to
// their places.
template <class W, int kLanes, int kVector, int kKeys>
__device__ void copy_rows(const Copy& from, const char* row, int64_t place) {
  constexpr int kGroups = 32 / kLanes;
  constexpr int kRounds = kKeys / kGroups;
  const int group = threadIdx.x % 32 / kLanes, member = threadIdx.x % kLanes;
  for (int block = 0; block < from.dim; block += kLanes * kVector) {
    const int d = block + member * kVector;
    const bool inside = d < from.dim;
    Floats<kVector> values[kRounds];
    bool there[kRounds];
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      const auto at = reinterpret_cast<const W*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(row), i * kGroups + group));
      there[i] = at != nullptr && inside;
      if (there[i]) values[i] = load_floats<kVector>(at + d);
    }
#pragma unroll
    for (int i = 0; i < kRounds; ++i) {
      int64_t to = (i * kGroups + group) * from.width;
      if (from.placed) to = __shfl_sync(~0u, place, i * kGroups + group);
      if (there[i]) from.out.put<kVector>(to + d, values[i]);
    }
  }
}

// One tile of keys per warp: each lane finds the row of one key, then groups of lanes copy rows.
template <class W, int kLanes, int kVector, GatherMode kMode>
__global__ void __launch_bounds__(kFindThreads)
    gather_rows_kernel(const __grid_constant__ BatchRef batch, int cls) {
  constexpr int kKeys = std::max(kRowsInFlight, 32 / kLanes);
  const uint32_t tile = batch.class_tile[cls] + blockIdx.x * kFindWarps + threadIdx.x / 32;
  if (tile >= batch.class_tile[cls + 1]) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  if (has_bags(feature)) return;  // see pool_bags
  const DeviceTableRef& table = batch.tables[feature.table];
  const int lane = threadIdx.x % 32;
  const uint32_t base = (tile - feature.first_tile) * kTile, index = base + lane;
  const bool there = index < feature.count;
  const int64_t key = there ? __ldcs(feature.keys + index) : 0;
  uint32_t row = kNoRow;
  if (there) row = kMode == GatherMode::kCopy ? batch.rows[feature.first + index] : table.find(key);
  bool in_host_memory = false;
  if (kMode == GatherMode::kEvalCached) {
    in_host_memory = row != kNoRow && table.slots != nullptr && table.slots[row] == kNoRow;
    const uint32_t entry =
        batch.uncached.add(static_cast<uint32_t>(feature.table), row, in_host_memory);
    batch.uncached.add_occurrence(feature.first + index, entry, in_host_memory);
  }
  const char* at = row != kNoRow && !in_host_memory ? table.row(row) : nullptr;
  const bool placed = feature.places != nullptr;
  Copy copy{batch.out.from(placed ? 0 : base * batch.width + feature.column), batch.width,
            table.dim, placed};
  const int64_t place = placed && there ? batch.out_place_of(feature, index) : 0;
  uint32_t absent = __ballot_sync(~0u, there && row == kNoRow);
  if (is_eval(kMode)) {
    count_keys(batch, feature, tile == feature.first_tile, absent);
    if (there && feature.absent != nullptr) feature.absent[index] = row == kNoRow ? 1 : 0;
  }
  for (; absent != 0; absent &= absent - 1) {
    const int source = __ffs(absent) - 1;
    const int64_t of = __shfl_sync(~0u, key, source);
    const int64_t to = placed ? __shfl_sync(~0u, place, source) : source * copy.width;
    for (int d = lane; d < table.dim; d += 32)
      copy.out.put(to + d, absent_weight<W>(table, kMode, of, d));
  }
#pragma unroll 1
  for (int first = 0; first < kTile; first += kKeys) {
    const auto from =
        __shfl_sync(~0u, reinterpret_cast<unsigned long long>(at), (first + lane) % 32);
    copy_rows<W, kLanes, kVector, kKeys>(copy, reinterpret_cast<const char*>(from),
                                         placed ? __shfl_sync(~0u, place, (first + lane) % 32) : 0);
    if (!placed) copy.out = copy.out.from(kKeys * copy.width);
  }
  if (kMode == GatherMode::kTrain) mark_rows(batch, feature, index, row);
}

template <int kVector, class W>
__device__ __noinline__ Floats<kVector> absent_floats(const DeviceTableRef& table, GatherMode mode,
                                                      int64_t key, int64_t d) {
  Floats<kVector> values;
  for (int v = 0; v < kVector; ++v) values.at[v] = absent_weight<W>(table, mode, key, d + v);
  return values;
}

// The keys of a bag, and what their sum is multiplied by.
struct Bag {
  uint32_t number, begin, end;
  float factor;
};

// Sums the rows of a bag in the order of its keys, by a whole warp.
template <GatherMode kMode, int kVector, class W>
__device__ void pool_bag(const BatchRef& batch, const FeatureRef& feature,
                         const DeviceTableRef& table, const Bag& bag) {
  const int lane = threadIdx.x % 32;
  for (int block = 0; block < table.dim; block += 32 * kVector) {
    const int d = block + lane * kVector;
    const bool inside = d < table.dim;
    Floats<kVector> sum{};
    for (uint32_t first = bag.begin; first < bag.end; first += 32) {
      // Each lane locates a row; then all lanes read the rows one by one.
      const uint32_t mine = first + lane;
      const uint32_t row = mine < bag.end ? batch.rows[feature.first + mine] : kNoRow;
      const char* at = nullptr;
      if (row != kNoRow)
        at = kMode == GatherMode::kEvalCached ? batch.uncached.row_at(table, row) : table.row(row);
      const float weight = mine < bag.end && feature.weights ? feature.weights[mine] : 1.0f;
      const int count = static_cast<int>(min(32u, bag.end - first));
      for (int k = 0; k < count; k += kRowsInFlight) {
        Floats<kVector> values[kRowsInFlight];
#pragma unroll
        for (int i = 0; i < kRowsInFlight; ++i) {
          const auto* from = reinterpret_cast<const W*>(
              __shfl_sync(~0u, reinterpret_cast<unsigned long long>(at), k + i));
          values[i] = {};
          if (from != nullptr && inside) values[i] = load_floats<kVector>(from + d);
          if (from == nullptr && k + i < count)
            values[i] = absent_floats<kVector, W>(table, kMode, feature.keys[first + k + i], d);
        }
#pragma unroll
        for (int i = 0; i < kRowsInFlight; ++i) {
          const float by = __shfl_sync(~0u, weight, k + i);
#pragma unroll
          for (int v = 0; v < kVector; ++v) sum.at[v] += by * values[i].at[v];
        }
      }
    }
#pragma unroll
    for (int v = 0; v < kVector; ++v) sum.at[v] *= bag.factor;
    if (inside)
      batch.out.put<kVector>(static_cast<int64_t>(bag.number) * batch.width + feature.column + d,
                             sum);
  }
}

template <GatherMode kMode, class W>
__device__ void pool_bag(const BatchRef& batch, const FeatureRef& feature,
                         const DeviceTableRef& table, const Bag& bag) {
  if ((table.dim | feature.column | batch.width) % 4 == 0)
    pool_bag<kMode, 4, W>(batch, feature, table, bag);
  else
    pool_bag<kMode, 1, W>(batch, feature, table, bag);
}

// One bag per warp. In training, also stores what backward needs.
template <GatherMode kMode>
__global__ void __launch_bounds__(kFindThreads)
    pool_bags_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t number = blockIdx.x * kFindWarps + threadIdx.x / 32;
  const FeatureRef& feature = batch.feature[blockIdx.y];
  if (number >= batch.bags || !has_bags(feature)) return;
  const DeviceTableRef& table = batch.tables[feature.table];
  Bag bag{number, feature.offsets ? feature.offsets[number] : number,
          feature.offsets ? feature.offsets[number + 1] : number + 1, 1.0f};
  if (feature.pooling == Pooling::kMean) {
    auto total = feature.weights ? 0.0f : static_cast<float>(bag.end - bag.begin);
    for (uint32_t i = bag.begin; feature.weights && i < bag.end; ++i) total += feature.weights[i];
    bag.factor = total != 0.0f ? 1.0f / total : 0.0f;
  }
  if (kMode == GatherMode::kTrain) {
    for (uint32_t i = bag.begin + threadIdx.x % 32; i < bag.end; i += 32) {
      batch.bag_of[feature.first + i] = number;
      batch.coefficients[feature.first + i] =
          (feature.weights ? feature.weights[i] : 1.0f) * bag.factor;
    }
  }
  if (table.dtype == DType::kF32)
    pool_bag<kMode, float>(batch, feature, table, bag);
  else if (table.dtype == DType::kF16)
    pool_bag<kMode, F16>(batch, feature, table, bag);
  else
    pool_bag<kMode, Bf16>(batch, feature, table, bag);
}

}  // namespace

void find_rows(const Context& context, const BatchRef& batch, GatherMode mode) {
  if (batch.tiles == 0) return;
  auto* kernel = mode == GatherMode::kTrain        ? find_rows_kernel<GatherMode::kTrain>
                 : mode == GatherMode::kEvalCached ? find_rows_kernel<GatherMode::kEvalCached>
                                                   : find_rows_kernel<GatherMode::kEval>;
  kernel<<<(batch.tiles + kFindWarps - 1) / kFindWarps, kFindThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching find_rows_kernel");
}

void gather_rows(const Context& context, const BatchRef& batch, int cls, RowShape shape,
                 DType dtype, GatherMode mode) {
  const uint32_t tiles = batch.class_tile[cls + 1] - batch.class_tile[cls];
  if (tiles == 0) return;
  const bool long_rows = shape == RowShape::kUpTo128 || shape == RowShape::kUpTo1024;
  if (long_rows && dtype == DType::kF32 && batch.out.dtype == DType::kF32 &&
      compute_capability() >= 90)
    return gather_bulk(context, batch, cls, shape, mode);
  with_shape(shape, [&](auto as) {
    using S = decltype(as);
    with_weight_type(dtype, [&](auto type) {
      using W = decltype(type);
      auto* kernel = mode == GatherMode::kTrain
                         ? gather_rows_kernel<W, S::kLanes, S::kVector, GatherMode::kTrain>
                     : mode == GatherMode::kCopy
                         ? gather_rows_kernel<W, S::kLanes, S::kVector, GatherMode::kCopy>
                     : mode == GatherMode::kEvalCached
                         ? gather_rows_kernel<W, S::kLanes, S::kVector, GatherMode::kEvalCached>
                         : gather_rows_kernel<W, S::kLanes, S::kVector, GatherMode::kEval>;
      kernel<<<(tiles + kFindWarps - 1) / kFindWarps, kFindThreads, 0, context.stream>>>(batch,
                                                                                         cls);
    });
  });
  cuda_check(cudaGetLastError(), "launching gather_rows_kernel");
}

void pool_bags(const Context& context, const BatchRef& batch, GatherMode mode) {
  if (batch.bags == 0) return;
  const dim3 blocks((batch.bags + kFindWarps - 1) / kFindWarps, batch.features);
  auto* kernel = mode == GatherMode::kTrain        ? pool_bags_kernel<GatherMode::kTrain>
                 : mode == GatherMode::kEvalCached ? pool_bags_kernel<GatherMode::kEvalCached>
                                                   : pool_bags_kernel<GatherMode::kEval>;
  kernel<<<blocks, kFindThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching pool_bags_kernel");
}

}  // namespace emblem::cuda
