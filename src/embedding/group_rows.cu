#include "embedding/group_rows.h"

#include <algorithm>

#include "core/cuda_check.h"
#include "embedding/device_batch.cuh"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kEach = 4;  // distinct rows a thread lays out

// Segments lie in the order in which blocks come: which one is first changes no sum.
__global__ void __launch_bounds__(kThreads)
    lay_out_segments_kernel(const __grid_constant__ BatchRef batch) {
  __shared__ uint32_t warp_sums[kWarps];
  __shared__ uint32_t block_first;
  const int cls = blockIdx.y;
  const uint32_t uniques = batch.counters->unique[cls];
  const uint32_t first = blockIdx.x * kThreads * kEach;
  if (first < uniques) {
    const uint32_t mine = batch.class_first[cls] + first + threadIdx.x * kEach;
    const uint32_t end = batch.class_first[cls] + uniques;
    uint32_t counts[kEach], sum = 0;
    for (int i = 0; i < kEach; ++i) {
      counts[i] = mine + i < end ? batch.counts[mine + i] : 0;
      sum += counts[i];
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t scan = sum;
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(~0u, scan, step);
      if (lane >= step) scan += other;
    }
    if (lane == 31) warp_sums[warp] = scan;
    __syncthreads();
    if (threadIdx.x == 0) {
      uint32_t total = 0;
      for (int i = 0; i < kWarps; ++i) {
        const uint32_t of = warp_sums[i];
        warp_sums[i] = total;
        total += of;
      }
      uint32_t* occurrences = batch.counters->occurrences[batch.counters->pass & 1];
      block_first = batch.class_first[cls] + atomicAdd(&occurrences[cls], total);
    }
    __syncthreads();
    uint32_t at = block_first + warp_sums[warp] + scan - sum;
    for (int i = 0; i < kEach; ++i) {
      if (mine + i >= end) break;
      batch.segments[mine + i] = {at, at + counts[i]};
      batch.counts[mine + i] = 0;
      at += counts[i];
    }
  }
}

// Moves clocks and counters on to the next pass. One block.
__device__ void end_pass(const BatchRef& batch) {
  for (int f = threadIdx.x; f < batch.features; f += kThreads) {
    const FeatureRef& feature = batch.feature[f];
    const DeviceTableRef& table = batch.tables[feature.table];
    if (table.eviction == Eviction::kLru)
      atomicAdd(reinterpret_cast<unsigned long long*>(&table.clocks->clock),
                static_cast<unsigned long long>(feature.count));
  }
  for (int t = threadIdx.x; t < batch.table_count; t += kThreads) {
    const DeviceTableRef& table = batch.tables[t];
    if (table.eviction == Eviction::kStep) ++table.clocks->clock;
    ++table.clocks->version;
  }
  BatchCounters& counters = *batch.counters;
  const uint32_t pass = counters.pass;
  __syncthreads();
  if (threadIdx.x < kMostClasses) {
    counters.unique[threadIdx.x] = 0;
    counters.occurrences[(pass + 1) & 1][threadIdx.x] = 0;
  }
  if (threadIdx.x != 0) return;
  counters.missing = 0;
  counters.pass = pass + 1;
}

__global__ void __launch_bounds__(kThreads) fill_segments_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t tile = blockIdx.x * kWarps + threadIdx.x / 32;
  if (blockIdx.x == 0) end_pass(batch);
  if (tile >= batch.tiles) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  const uint32_t place = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  if (place >= feature.count) return;
  const uint32_t position = feature.first + place;
  const uint2 unique_rank = __ldcs(&batch.places[position]);
  if (unique_rank.x == kNoRow) return;
  const bool pooled = feature.offsets != nullptr || feature.weights != nullptr;
  const uint32_t bag = pooled ? batch.bag_of[position] : place;
  const uint32_t at = batch.segments[unique_rank.x].begin + unique_rank.y;
  batch.occurrences[at] = {unique_rank.x, static_cast<uint32_t>(bag * batch.width + feature.column),
                           batch.uniques[unique_rank.x].row, static_cast<uint32_t>(feature.table)};
  if (batch.sorted_coefficients != nullptr)
    batch.sorted_coefficients[at] = pooled ? batch.coefficients[position] : 1.0f;
}

}  // namespace

void group_rows(const Context& context, const BatchRef& batch) {
  // With an empty batch too: the pass counts for the tables.
  const uint32_t tiles = std::max(1u, batch.tiles), most = tiles * kTile;
  const dim3 blocks((most + kThreads * kEach - 1) / (kThreads * kEach), batch.classes);
  lay_out_segments_kernel<<<blocks, kThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching lay_out_segments_kernel");
  fill_segments_kernel<<<(tiles + kWarps - 1) / kWarps, kThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching fill_segments_kernel");
}

}  // namespace emblem::cuda
