// Copies rows of 32-bit floats to fp32 outputs by bulk copies: one lane per row, through shared
// memory.
#include <algorithm>

#include "core/device/cuda_check.h"
#include "core/files/shared_memory.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/lookup/find_gather.h"
#include "embedding/cuda/table/bulk_copy.cuh"
#include "embedding/cuda/table/occupancy.h"

namespace emblem::cuda {
namespace {

constexpr int kBulkWarps = 4;
constexpr int kBulkThreads = kBulkWarps * 32;
constexpr int kWarpBytes = 16384;  // shared memory of a warp

[[maybe_unused]] __device__ void prefetch_line(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

constexpr int kHostRows = 4;  // in host memory, that a warp reads at a time

template <int kCount>
__device__ uint32_t drop_lowest(uint32_t lanes) {
  for (int i = 0; i < kCount; ++i) lanes &= lanes - 1;
  return lanes;
}

// Copies the rows in host memory of the first kHostRows of `lanes` to their `out`. Whole warp.
[[maybe_unused]] __device__ void copy_host_rows(const DeviceTableRef& table, uint32_t row,
                                                uint32_t lanes, float* out) {
  int sources[kHostRows];
  const float* from[kHostRows];
  float* to[kHostRows];
#pragma unroll
  for (int i = 0; i < kHostRows; ++i, lanes &= lanes - 1) {
    sources[i] = lanes != 0 ? __ffs(lanes) - 1 : -1;
    const uint32_t of = __shfl_sync(~0u, row, max(0, sources[i]));
    to[i] = reinterpret_cast<float*>(
        __shfl_sync(~0u, reinterpret_cast<unsigned long long>(out), max(0, sources[i])));
    from[i] = reinterpret_cast<const float*>(table.host_rows + of * table.stride);
  }
  for (int d = threadIdx.x % 32 * 4; d < table.dim; d += 128) {
    float4 values[kHostRows];
#pragma unroll
    for (int i = 0; i < kHostRows; ++i) {
      if (sources[i] >= 0) values[i] = __ldcs(reinterpret_cast<const float4*>(from[i] + d));
    }
#pragma unroll
    for (int i = 0; i < kHostRows; ++i) {
      if (sources[i] >= 0) __stcs(reinterpret_cast<float4*>(to[i] + d), values[i]);
    }
  }
}

// Persistent warps take kKeys keys at a time, one per lane: finds its row, starts a copy of it to
// shared memory and from there to the output. The next key is read while rows are loaded, and its
// bucket prefetched while they are stored. Training marks rows while they are loaded.
template <int kKeys, GatherMode kMode>
__global__ void __launch_bounds__(kBulkThreads)
    gather_bulk_kernel(const __grid_constant__ BatchRef batch, int cls) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) char ring[];
  __shared__ BulkBarrier barriers[kBulkWarps];
  constexpr uint32_t kSteps = kTile / kKeys;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  char* slot = ring + warp * kWarpBytes + lane % kKeys * (kWarpBytes / kKeys);
  BulkBarrier& barrier = barriers[warp];
  auto* all_out = static_cast<float*>(batch.out.data);
  if (lane == 0) barrier.init();
  __syncwarp();

  const uint32_t end = batch.class_tile[cls + 1] * kSteps, stride = gridDim.x * kBulkWarps;
  uint32_t step = batch.class_tile[cls] * kSteps + blockIdx.x * kBulkWarps + warp;
  const auto key_at = [&](const FeatureRef& feature, uint32_t at) {
    const uint32_t index = (at - feature.first_tile * kSteps) * kKeys + lane;
    return lane < kKeys && index < feature.count ? __ldg(feature.keys + index) : 0;
  };
  int64_t next_key = step < end ? key_at(batch.feature_of_tile(step / kSteps), step) : 0;
  for (uint32_t parity = 0; step < end; step += stride) {
    const FeatureRef& feature = batch.feature_of_tile(step / kSteps);
    const DeviceTableRef& table = batch.tables[feature.table];
    const uint32_t base = (step - feature.first_tile * kSteps) * kKeys;
    const bool pooled = feature.offsets != nullptr || feature.weights != nullptr;  // by pool_bags
    const bool there = lane < kKeys && base + lane < feature.count && !pooled;
    const int64_t key = next_key;
    uint32_t row = kNoRow;
    if (there && kMode == GatherMode::kCopy) row = __ldcs(batch.rows + feature.first + base + lane);
    if (there && kMode != GatherMode::kCopy) row = table.find(key);
    // Rows that are not cached are read by whole warps, which is faster over the bus.
    const uint32_t slot_of = row != kNoRow && table.slots != nullptr ? table.slots[row] : row;
    const bool cached = slot_of != kNoRow;
    uint32_t uncached = __ballot_sync(~0u, row != kNoRow && !cached);
    const uint32_t present = __ballot_sync(~0u, cached), bytes = table.dim * 4;
    float* out = all_out + (there ? batch.out_place_of(feature, base + lane) : 0);
    if (lane == 0) barrier.announce(__popc(present) * bytes);
    bulk_wait_read<0>();  // the lane's last row has been read from shared memory
    __syncwarp();
    if (cached) bulk_load(slot, table.rows + slot_of * table.stride, bytes, barrier);
    const uint32_t ahead = step + stride;
    if (kMode != GatherMode::kCopy && ahead < end)
      next_key = key_at(batch.feature_of_tile(ahead / kSteps), ahead);
    uint32_t absent = __ballot_sync(~0u, there && row == kNoRow);
    if (is_eval(kMode) && !pooled)
      count_keys(batch, feature, step == feature.first_tile * kSteps, absent);
    if (is_eval(kMode) && there && feature.absent != nullptr)
      feature.absent[base + lane] = row == kNoRow ? 1 : 0;
    for (; absent != 0; absent &= absent - 1) {
      const int source = __ffs(absent) - 1;
      const int64_t of = feature.keys[base + source];
      const Initializer& draw = is_eval(kMode) ? table.missing : table.initializer;
      float* to = all_out + batch.out_place_of(feature, base + source);
      for (int d = lane; d < table.dim; d += 32)
        to[d] = draw(table.seed, static_cast<uint64_t>(of), d);
    }
    if (kMode == GatherMode::kEvalCached) {
      const bool in_host_memory = row != kNoRow && !cached;
      const uint32_t entry =
          batch.uncached.add(static_cast<uint32_t>(feature.table), row, in_host_memory);
      batch.uncached.add_occurrence(feature.first + base + lane, entry, in_host_memory);
      uncached = 0;
    }
    for (; uncached != 0; uncached = drop_lowest<kHostRows>(uncached))
      copy_host_rows(table, row, uncached, out);
    if (kMode == GatherMode::kTrain && !pooled)
      mark_rows(batch, feature, lane < kKeys ? base + lane : ~0u, row);
    barrier.wait(parity);
    parity ^= 1;
    if (cached) bulk_store(out, slot, bytes);
    bulk_commit();
    if (kMode != GatherMode::kCopy && ahead < end && lane < kKeys) {
      const DeviceTableRef& then = batch.tables[batch.feature_of_tile(ahead / kSteps).table];
      if (!then.is_static()) prefetch_line(then.keys.buckets + then.keys.home(next_key));
    }
  }
  bulk_wait_all();
#endif  // older GPUs never launch it
}

}  // namespace

void gather_bulk(const Context& context, const BatchRef& batch, int cls, RowShape shape,
                 GatherMode mode) {
  const uint32_t tiles = batch.class_tile[cls + 1] - batch.class_tile[cls];
  if (tiles == 0) return;
  constexpr int kShared = kBulkWarps * kWarpBytes;
  const auto launch = [&](auto keys) {
    constexpr int kKeys = decltype(keys)::value;
    auto* kernel = mode == GatherMode::kTrain  ? gather_bulk_kernel<kKeys, GatherMode::kTrain>
                   : mode == GatherMode::kCopy ? gather_bulk_kernel<kKeys, GatherMode::kCopy>
                   : mode == GatherMode::kEvalCached
                       ? gather_bulk_kernel<kKeys, GatherMode::kEvalCached>
                       : gather_bulk_kernel<kKeys, GatherMode::kEval>;
    allow_shared_memory(kernel);
    const uint32_t wanted = (tiles * (kTile / kKeys) + kBulkWarps - 1) / kBulkWarps;
    const int most = resident_blocks(reinterpret_cast<const void*>(kernel), kBulkThreads, kShared);
    kernel<<<std::min<uint32_t>(wanted, most), kBulkThreads, kShared, context.stream>>>(batch, cls);
  };
  if (shape == RowShape::kUpTo128)
    launch(std::integral_constant<int, 32>{});
  else
    launch(std::integral_constant<int, 4>{});
  cuda_check(cudaGetLastError(), "launching gather_bulk_kernel");
}

}  // namespace emblem::cuda
