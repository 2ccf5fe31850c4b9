#include "embedding/find_gather.h"

#include "core/cuda_check.h"
#include "embedding/device_batch.cuh"
#include "embedding/row_vector.cuh"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRowsInFlight = 8;  // that a group of lanes reads before it writes the first

// The row of a position; in training it is kept, and listed when the key has none.
template <Pass kPass>
__device__ uint32_t find_row(const BatchRef& batch, const FeatureRef& feature, uint32_t place,
                             int64_t key) {
  const DeviceTableRef& table = batch.tables[feature.table];
  const bool there = place < feature.count;
  const uint32_t row = there ? table.find(key) : kNoRow;
  if (kPass == Pass::kEval) return row;
  if (there) {
    batch.rows[feature.first + place] = row;
    if (row == kNoRow) batch.places[feature.first + place] = {kNoRow, 0};
  }
  const bool missing = there && row == kNoRow && !table.is_static();
  const uint32_t all = __ballot_sync(~0u, missing);
  if (all != 0) {
    const int lane = threadIdx.x % 32;
    uint32_t first = 0;
    if (lane == 0) first = atomicAdd(&batch.counters->missing, static_cast<uint32_t>(__popc(all)));
    first = __shfl_sync(~0u, first, 0);
    if (missing) batch.missing[first + __popc(all & ((1u << lane) - 1))] = feature.first + place;
  }
  return row;
}

// What a key without a row reads as: in training, as the row that it is about to get.
template <class W>
__device__ float absent_weight(const DeviceTableRef& table, Pass pass, int64_t key, int64_t d) {
  if (pass == Pass::kEval) return table.missing(table.seed, static_cast<uint64_t>(key), d);
  W stored;
  store_weight(&stored, table.initializer(table.seed, static_cast<uint64_t>(key), d));
  return load_weight(&stored);
}

// Groups of kLanes lanes copy the rows that the lanes hold to out[0, count).
template <class W, int kLanes, int kVector>
__device__ void copy_rows(const DeviceTableRef& table, uint32_t row, uint32_t count, float* out,
                          int64_t width) {
  constexpr int kGroups = 32 / kLanes;
  constexpr int kBlock = kGroups * kRowsInFlight > 32 ? 32 / kGroups : kRowsInFlight;
  const int group = threadIdx.x % 32 / kLanes, member = threadIdx.x % kLanes;
  for (int from = 0; from < table.dim; from += kLanes * kVector) {
    const int d = from + member * kVector;
    const bool inside = d < table.dim;
#pragma unroll 1
    for (int first = 0; first < count; first += kGroups * kBlock) {
      Floats<kVector> values[kBlock];
      bool there[kBlock];
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        const uint32_t number = __shfl_sync(~0u, row, first + i * kGroups + group);
        there[i] = number != kNoRow && inside;
        if (there[i])
          values[i] = load_floats<kVector>(reinterpret_cast<const W*>(table.row(number)) + d);
      }
#pragma unroll
      for (int i = 0; i < kBlock; ++i) {
        const int bag = first + i * kGroups + group;
        if (there[i]) stream_floats<kVector>(out + bag * width + d, values[i]);
      }
    }
  }
}

// A warp takes a tile of keys: each lane finds the row of one, then groups of lanes copy rows.
template <class W, int kLanes, int kVector, Pass kPass>
__global__ void __launch_bounds__(kThreads)
    find_gather_kernel(const __grid_constant__ BatchRef batch, int cls) {
  const uint32_t tile = batch.class_tile[cls] + blockIdx.x * kWarps + threadIdx.x / 32;
  if (tile >= batch.class_tile[cls + 1]) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  if (feature.offsets != nullptr || feature.weights != nullptr) return;  // pool_bags does it
  const DeviceTableRef& table = batch.tables[feature.table];
  const int lane = threadIdx.x % 32;
  const uint32_t base = (tile - feature.first_tile) * kTile;
  const uint32_t place = base + lane;
  const int64_t key = place < feature.count ? __ldcs(feature.keys + place) : 0;
  const uint32_t row = find_row<kPass>(batch, feature, place, key);

  float* out = batch.out + base * batch.width + feature.column;
  copy_rows<W, kLanes, kVector>(table, row, min(32u, feature.count - base), out, batch.width);
  for (uint32_t absent = __ballot_sync(~0u, row == kNoRow && place < feature.count); absent != 0;
       absent &= absent - 1) {
    const int source = __ffs(absent) - 1;
    const int64_t of = __shfl_sync(~0u, key, source);
    for (int d = lane; d < table.dim; d += 32)
      out[source * batch.width + d] = absent_weight<W>(table, kPass, of, d);
  }
  if (kPass == Pass::kTrain) mark_row(batch, feature, place, row);
}

template <Pass kPass>
__global__ void __launch_bounds__(kThreads) find_rows_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t tile = blockIdx.x * kWarps + threadIdx.x / 32;
  if (tile >= batch.tiles) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  if (feature.offsets == nullptr && feature.weights == nullptr) return;  // find_gather does it
  const uint32_t place = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  const int64_t key = place < feature.count ? __ldcs(feature.keys + place) : 0;
  const uint32_t row = find_row<kPass>(batch, feature, place, key);
  if (kPass == Pass::kTrain)
    mark_row(batch, feature, place, row);
  else if (place < feature.count)
    batch.rows[feature.first + place] = row;
}

// A warp a bag. Sums in the order of the keys. In training, what backward needs is left behind.
template <Pass kPass>
__global__ void __launch_bounds__(kThreads) pool_bags_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t bag = blockIdx.x * kWarps + threadIdx.x / 32;
  const FeatureRef& feature = batch.feature[blockIdx.y];
  if (bag >= batch.bags || (feature.offsets == nullptr && feature.weights == nullptr)) return;
  const DeviceTableRef& table = batch.tables[feature.table];
  const int lane = threadIdx.x % 32;
  const uint32_t begin = feature.offsets ? feature.offsets[bag] : bag;
  const uint32_t end = feature.offsets ? feature.offsets[bag + 1] : bag + 1;
  float total = 0.0f;
  for (uint32_t i = begin; i < end; ++i) total += feature.weights ? feature.weights[i] : 1.0f;
  const bool divide = feature.pooling == Pooling::kMean;
  const float factor = !divide ? 1.0f : total != 0.0f ? 1.0f / total : 0.0f;
  if (kPass == Pass::kTrain) {
    for (uint32_t i = begin + lane; i < end; i += 32) {
      batch.bag_of[feature.first + i] = bag;
      batch.coefficients[feature.first + i] = (feature.weights ? feature.weights[i] : 1.0f) * factor;
    }
  }
  for (int d = lane; d < table.dim; d += 32) {
    float sum = 0.0f;
    for (uint32_t i = begin; i < end; ++i) {
      const uint32_t row = batch.rows[feature.first + i];
      float value;
      if (row != kNoRow) {
        value = read_weight(table, table.row(row), d);
      } else if (table.dtype == DType::kF16) {
        value = absent_weight<F16>(table, kPass, feature.keys[i], d);
      } else if (table.dtype == DType::kBf16) {
        value = absent_weight<Bf16>(table, kPass, feature.keys[i], d);
      } else {
        value = absent_weight<float>(table, kPass, feature.keys[i], d);
      }
      sum += (feature.weights ? feature.weights[i] : 1.0f) * value;
    }
    batch.out[bag * batch.width + feature.column + d] = sum * factor;
  }
}

}  // namespace

void find_gather(const Context& context, const BatchRef& batch, int cls, RowShape shape,
                 DType dtype, Pass pass) {
  const uint32_t tiles = batch.class_tile[cls + 1] - batch.class_tile[cls];
  if (tiles == 0) return;
  const unsigned blocks = (tiles + kWarps - 1) / kWarps;
  with_shape(shape, [&](auto as) {
    using S = decltype(as);
    with_weight_type(dtype, [&](auto type) {
      using W = decltype(type);
      auto* kernel = pass == Pass::kTrain
                         ? find_gather_kernel<W, S::kLanes, S::kVector, Pass::kTrain>
                         : find_gather_kernel<W, S::kLanes, S::kVector, Pass::kEval>;
      kernel<<<blocks, kThreads, 0, context.stream>>>(batch, cls);
    });
  });
  cuda_check(cudaGetLastError(), "launching find_gather_kernel");
}

void find_rows(const Context& context, const BatchRef& batch, Pass pass) {
  if (batch.tiles == 0) return;
  const unsigned blocks = (batch.tiles + kWarps - 1) / kWarps;
  auto* kernel = pass == Pass::kTrain ? find_rows_kernel<Pass::kTrain> : find_rows_kernel<Pass::kEval>;
  kernel<<<blocks, kThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching find_rows_kernel");
}

void pool_bags(const Context& context, const BatchRef& batch, Pass pass) {
  if (batch.bags == 0) return;
  const dim3 blocks((batch.bags + kWarps - 1) / kWarps, batch.features);
  auto* kernel = pass == Pass::kTrain ? pool_bags_kernel<Pass::kTrain> : pool_bags_kernel<Pass::kEval>;
  kernel<<<blocks, kThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching pool_bags_kernel");
}

}  // namespace emblem::cuda
