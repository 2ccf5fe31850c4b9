#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/lookup/find_gather.h"

namespace emblem::cuda {
namespace {

constexpr int kMarkThreads = 512;
constexpr int kMarkWarps = kMarkThreads / 32;
constexpr uint32_t kSlots = 2 * kMarkThreads;  // slots of the block's map
constexpr unsigned long long kFree = ~0ull;

// The distinct rows of a block, so that a frequent row is marked in global memory once per block.
struct BlockMap {
  unsigned long long keys[kSlots];  // table << 32 | row
  uint32_t counts[kSlots];
  uint32_t uniques[kSlots];
  uint32_t ranks[kSlots];
  uint32_t new_numbers, first_number;
};

// One key per thread. For large batches, in which too many warps would otherwise mark a frequent
// row at the same time.
__global__ void __launch_bounds__(kMarkThreads)
    find_and_mark_kernel(const __grid_constant__ BatchRef batch, int cls) {
  __shared__ BlockMap map;
  for (uint32_t i = threadIdx.x; i < kSlots; i += kMarkThreads) {
    map.keys[i] = kFree;
    map.counts[i] = 0;
  }
  if (threadIdx.x == 0) map.new_numbers = 0;
  const uint32_t end = batch.class_tile[cls + 1];
  const uint32_t tile = batch.class_tile[cls] + blockIdx.x * kMarkWarps + threadIdx.x / 32;
  const FeatureRef& feature = batch.feature_of_tile(min(tile, end - 1));
  const DeviceTableRef& table = batch.tables[feature.table];
  const uint32_t index = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  const bool there = tile < end && index < feature.count;
  const uint32_t row = there ? table.find(feature.keys[index]) : kNoRow;
  if (there) batch.rows[feature.first + index] = row;
  list_missing(batch, feature, there ? index : ~0u, row);
  __syncthreads();

  // Group equal rows.
  uint32_t slot = 0, rank = 0;
  bool leader = false;
  unsigned long long seen = 0;
  if (row != kNoRow) {
    const unsigned long long key = static_cast<unsigned long long>(feature.table) << 32 | row;
    slot = static_cast<uint32_t>(mix64(key)) % kSlots;
    for (;; slot = (slot + 1) % kSlots) {
      const unsigned long long before = atomicCAS(&map.keys[slot], kFree, key);
      leader = before == kFree;
      if (leader || before == key) break;
    }
    if (leader) seen = __ldcg(table.mark(row));
    rank = atomicAdd(&map.counts[slot], 1u);
  }
  // Numbers for rows that are not marked yet, with one atomic per block.
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  const bool unmarked = leader && static_cast<uint32_t>(seen >> 32) != version;
  uint32_t number = 0;
  if (unmarked) number = atomicAdd(&map.new_numbers, 1u);
  __syncthreads();
  if (threadIdx.x == 0 && map.new_numbers != 0)
    map.first_number =
        batch.class_first[cls] + atomicAdd(&batch.counters->unique[cls], map.new_numbers);
  __syncthreads();
  if (leader)
    map.uniques[slot] = mark_row(batch, feature, row, seen, map.first_number + number,
                                 map.counts[slot], &map.ranks[slot]);
  __syncthreads();
  if (row == kNoRow) return;
  batch.unique_ranks[feature.first + index] = {map.uniques[slot], map.ranks[slot] + rank};
  raise_score_by_count(batch, feature, index, row);
}

}  // namespace

void find_and_mark(const Context& context, const BatchRef& batch, int cls) {
  const uint32_t tiles = batch.class_tile[cls + 1] - batch.class_tile[cls];
  if (tiles == 0) return;
  find_and_mark_kernel<<<(tiles + kMarkWarps - 1) / kMarkWarps, kMarkThreads, 0, context.stream>>>(
      batch, cls);
  cuda_check(cudaGetLastError(), "launching find_and_mark_kernel");
}

}  // namespace emblem::cuda
