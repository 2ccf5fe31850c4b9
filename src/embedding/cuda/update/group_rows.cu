#include "embedding/cuda/update/group_rows.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/device_batch.cuh"

namespace emblem::cuda {
namespace {

constexpr int kGroupThreads = 256;
constexpr int kGroupWarps = kGroupThreads / 32;
constexpr int kEach = 4;  // distinct rows per thread

// Blocks place their segments in any order, which changes no sum.
__global__ void __launch_bounds__(kGroupThreads)
    lay_out_segments_kernel(const __grid_constant__ BatchRef batch) {
  __shared__ uint32_t warp_sums[kGroupWarps];
  __shared__ uint32_t block_first;
  const int cls = blockIdx.y;
  const uint32_t uniques = batch.counters->unique[cls];
  const uint32_t first = blockIdx.x * kGroupThreads * kEach;
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
      for (int i = 0; i < kGroupWarps; ++i) {
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

// Advances clocks and counters to the next pass. One block.
__device__ void end_pass(const BatchRef& batch) {
  for (int t = threadIdx.x; t < batch.table_count; t += kGroupThreads) {
    const DeviceTableRef& table = batch.tables[t];
    if (table.eviction == Eviction::kLru || table.eviction == Eviction::kStep)
      ++table.clocks->clock;
    ++table.clocks->version;
  }
  for (int f = threadIdx.x; f < batch.features; f += kGroupThreads)
    batch.feature_counts[batch.feature[f].number].values += batch.feature[f].count;
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

// Says which keys got no row, where that is asked for.
__device__ void note_absent(const BatchRef& batch, uint32_t position, bool absent) {
  const FeatureRef& feature = batch.feature_of_position(position);
  if (feature.absent != nullptr) feature.absent[position - feature.first] = absent ? 1 : 0;
}

// Stores the occurrence at `position`, of the distinct row `unique`, as number `at`.
__device__ void put(const BatchRef& batch, uint32_t at, uint32_t position, uint32_t unique) {
  const FeatureRef& feature = batch.feature_of_position(position);
  const bool pooled = feature.offsets != nullptr || feature.weights != nullptr;
  const int64_t source = pooled ? batch.bag_of[position] * batch.width + feature.column
                                : place_of(feature, position - feature.first, batch.width);
  batch.occurrences[at] = Occurrence::of(unique, batch.uniques[unique].row, source, feature.table);
  if (batch.sorted_coefficients != nullptr)
    batch.sorted_coefficients[at] = pooled ? batch.coefficients[position] : 1.0f;
}

struct Sorting {  // [positions] each
  uint32_t *uniques, *positions, *sorted_uniques, *sorted_positions;
};
Sorting sorting_in(void* scratch, uint32_t positions) {
  auto* at = static_cast<uint32_t*>(scratch);
  return {at, at + positions, at + 2 * positions, at + 3 * positions};
}
uint32_t positions_of(const BatchRef& batch) {
  uint32_t positions = 0;
  for (int c = 0; c < batch.classes; ++c)
    positions = std::max(positions, batch.class_first[c] + batch.class_count[c]);
  return positions;
}

__global__ void __launch_bounds__(kGroupThreads)
    list_occurrences_kernel(const __grid_constant__ BatchRef batch, Sorting sorting, uint32_t first,
                            uint32_t count) {
  const uint32_t i = blockIdx.x * kGroupThreads + threadIdx.x;
  if (i >= count) return;
  sorting.uniques[first + i] = batch.unique_ranks[first + i].x;
  sorting.positions[first + i] = first + i;
  note_absent(batch, first + i, sorting.uniques[first + i] == kNoRow);
}

__global__ void __launch_bounds__(kGroupThreads)
    fill_sorted_kernel(const __grid_constant__ BatchRef batch, Sorting sorting, int cls) {
  const uint32_t first = batch.class_first[cls], end = first + batch.class_count[cls];
  const uint32_t at = first + blockIdx.x * kGroupThreads + threadIdx.x;
  if (at >= end) return;
  const uint32_t unique = sorting.sorted_uniques[at];
  if (unique == kNoRow) return;
  put(batch, at, sorting.sorted_positions[at], unique);
  const uint32_t next = at + 1 < end ? sorting.sorted_uniques[at + 1] : kNoRow;
  if (at == first || sorting.sorted_uniques[at - 1] != unique) batch.segments[unique].begin = at;
  if (next != unique) batch.segments[unique].end = at + 1;
  if (next == kNoRow) batch.counters->occurrences[batch.counters->pass & 1][cls] = at + 1 - first;
  batch.counts[unique] = 0;
}

__global__ void end_pass_kernel(const __grid_constant__ BatchRef batch) { end_pass(batch); }

__global__ void __launch_bounds__(kGroupThreads)
    fill_segments_kernel(const __grid_constant__ BatchRef batch) {
  const uint32_t tile = blockIdx.x * kGroupWarps + threadIdx.x / 32;
  if (blockIdx.x == 0) end_pass(batch);
  if (tile >= batch.tiles) return;
  const FeatureRef& feature = batch.feature_of_tile(tile);
  const uint32_t index = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  if (index >= feature.count) return;
  const uint32_t position = feature.first + index;
  const uint2 unique_rank = __ldcs(&batch.unique_ranks[position]);
  if (feature.absent != nullptr) feature.absent[index] = unique_rank.x == kNoRow ? 1 : 0;
  if (unique_rank.x == kNoRow) return;
  put(batch, batch.segments[unique_rank.x].begin + unique_rank.y, position, unique_rank.x);
}

}  // namespace

void group_rows(const Context& context, const BatchRef& batch) {
  // An empty batch, too, is a pass for the clocks of the tables.
  const uint32_t tiles = std::max(1u, batch.tiles), most = tiles * kTile;
  const dim3 blocks((most + kGroupThreads * kEach - 1) / (kGroupThreads * kEach), batch.classes);
  lay_out_segments_kernel<<<blocks, kGroupThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching lay_out_segments_kernel");
  fill_segments_kernel<<<(tiles + kGroupWarps - 1) / kGroupWarps, kGroupThreads, 0,
                         context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching fill_segments_kernel");
}

size_t sorting_bytes(int64_t positions) {
  size_t bytes = 0;
  uint32_t* none = nullptr;
  cuda_check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, none, none, none, none,
                                             static_cast<int>(positions)),
             "querying the memory of a sort");
  return bytes + 4 * static_cast<size_t>(positions) * sizeof(uint32_t) + 256;
}

const uint32_t* sorted_positions(const BatchRef& batch, const void* scratch) {
  return sorting_in(const_cast<void*>(scratch), positions_of(batch)).sorted_positions;
}

void sort_rows(const Context& context, const BatchRef& batch, void* scratch, size_t bytes) {
  const uint32_t positions = positions_of(batch);
  const Sorting sorting = sorting_in(scratch, positions);
  const auto end = reinterpret_cast<uintptr_t>(sorting.sorted_positions + positions);
  char* rest = reinterpret_cast<char*>((end + 255) / 256 * 256);
  for (int c = 0; c < batch.classes; ++c) {
    const uint32_t first = batch.class_first[c], count = batch.class_count[c];
    if (count == 0) continue;
    const unsigned blocks = (count + kGroupThreads - 1) / kGroupThreads;
    list_occurrences_kernel<<<blocks, kGroupThreads, 0, context.stream>>>(batch, sorting, first,
                                                                          count);
    size_t left = bytes - static_cast<size_t>(rest - static_cast<char*>(scratch));
    cuda_check(cub::DeviceRadixSort::SortPairs(
                   rest, left, sorting.uniques + first, sorting.sorted_uniques + first,
                   sorting.positions + first, sorting.sorted_positions + first,
                   static_cast<int>(count), 0, 32, context.stream),
               "sorting occurrences");
    fill_sorted_kernel<<<blocks, kGroupThreads, 0, context.stream>>>(batch, sorting, c);
    cuda_check(cudaGetLastError(), "launching fill_sorted_kernel");
  }
  end_pass_kernel<<<1, kGroupThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching end_pass_kernel");
}

}  // namespace emblem::cuda
