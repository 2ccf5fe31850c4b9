#include "core/cuda_check.h"
#include "embedding/device_batch.cuh"
#include "embedding/find_gather.h"

namespace emblem::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr uint32_t kSlots = 2 * kThreads;  // of the block's map
constexpr unsigned long long kFree = ~0ull;

// The distinct rows of a block: equal rows meet here, so that a frequent one is marked in global
// memory once a block.
struct BlockMap {
  unsigned long long keys[kSlots];  // table << 32 | row
  uint32_t counts[kSlots];
  uint32_t lasts[kSlots];
  uint32_t uniques[kSlots];
  uint32_t ranks[kSlots];
  uint32_t new_numbers[kMostClasses];
  uint32_t first_number[kMostClasses];
};

// A thread a key: little to do but wait, so many wait at once.
__global__ void __launch_bounds__(kThreads)
    find_and_mark_kernel(const __grid_constant__ BatchRef batch) {
  __shared__ BlockMap map;
  for (uint32_t i = threadIdx.x; i < kSlots; i += kThreads) {
    map.keys[i] = kFree;
    map.counts[i] = map.lasts[i] = 0;
  }
  if (threadIdx.x < kMostClasses) map.new_numbers[threadIdx.x] = 0;
  const int lane = threadIdx.x % 32;
  const uint32_t tile = blockIdx.x * kWarps + threadIdx.x / 32;
  const FeatureRef& feature = batch.feature_of_tile(min(tile, batch.tiles - 1));
  const DeviceTableRef& table = batch.tables[feature.table];
  const uint32_t place = (tile - feature.first_tile) * kTile + lane;
  const bool there = tile < batch.tiles && place < feature.count;
  const uint32_t row = there ? table.find(feature.keys[place]) : kNoRow;
  if (there) {
    batch.rows[feature.first + place] = row;
    if (row == kNoRow) batch.places[feature.first + place] = {kNoRow, 0};
  }
  const bool missing = there && row == kNoRow && !table.is_static();
  const uint32_t all = __ballot_sync(~0u, missing);
  if (all != 0) {
    uint32_t first = 0;
    if (lane == 0) first = atomicAdd(&batch.counters->missing, static_cast<uint32_t>(__popc(all)));
    first = __shfl_sync(~0u, first, 0);
    if (missing) batch.missing[first + __popc(all & ((1u << lane) - 1))] = feature.first + place;
  }
  __syncthreads();

  // Meet equal rows.
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
    atomicMax(&map.lasts[slot], feature.before + place);
  }
  // Numbers for those that nobody has marked yet, an atomic a block and class.
  const auto version = static_cast<uint32_t>(table.clocks->version + 1);
  const bool unmarked = leader && static_cast<uint32_t>(seen >> 32) != version;
  uint32_t number = 0;
  if (unmarked) number = atomicAdd(&map.new_numbers[feature.cls], 1u);
  __syncthreads();
  if (threadIdx.x < kMostClasses && map.new_numbers[threadIdx.x] != 0)
    map.first_number[threadIdx.x] =
        batch.class_first[threadIdx.x] +
        atomicAdd(&batch.counters->unique[threadIdx.x], map.new_numbers[threadIdx.x]);
  __syncthreads();
  if (leader)
    map.uniques[slot] = mark_row(batch, feature, row, seen, map.first_number[feature.cls] + number,
                                 map.counts[slot], map.lasts[slot], &map.ranks[slot]);
  __syncthreads();
  if (row != kNoRow)
    batch.places[feature.first + place] = {map.uniques[slot], map.ranks[slot] + rank};
}

}  // namespace

void find_and_mark(const Context& context, const BatchRef& batch) {
  if (batch.tiles == 0) return;
  find_and_mark_kernel<<<(batch.tiles + kWarps - 1) / kWarps, kThreads, 0, context.stream>>>(batch);
  cuda_check(cudaGetLastError(), "launching find_and_mark_kernel");
}

}  // namespace emblem::cuda
