#include "shard/cuda/route_keys.h"

#include <algorithm>

#include "core/device/blocks.h"
#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/parts.h"

namespace emblem::cuda {
namespace {

constexpr int kRouteThreads = 512;
constexpr int kRouteWarps = kRouteThreads / 32;
constexpr uint32_t kSlots = 2 * kRouteThreads;  // slots of the block's map
constexpr uint32_t kFree = ~0u;
constexpr int kMostBins = 1024;  // pairs of (rank, table) that a block counts by itself

// A thread's key in a batch.
struct Mine {
  const FeatureRef* feature;
  uint32_t index;
  bool there;
  int64_t key;

  __device__ uint32_t position() const { return feature->first + index; }
  __device__ int table() const { return feature->table; }
};
__device__ Mine mine_of(const BatchRef& batch) {
  const uint32_t tile = blockIdx.x * kRouteWarps + threadIdx.x / 32;
  const FeatureRef& feature = batch.feature_of_tile(min(tile, batch.tiles - 1));
  const uint32_t index = (tile - feature.first_tile) * kTile + threadIdx.x % 32;
  const bool there = tile < batch.tiles && index < feature.count;
  return {&feature, index, there, there ? feature.keys[index] : 0};
}

__device__ uint64_t hash_of(int64_t key, int table) {
  return mix64(static_cast<uint64_t>(key) + static_cast<uint64_t>(table) * 0x9e3779b97f4a7c15ull);
}

// The distinct keys of a block, so that a frequent one is looked for in global memory once a block.
struct BlockMap {
  int64_t keys[kRouteThreads];
  int32_t tables[kRouteThreads];
  uint32_t slots[kSlots];           // thread, or kFree
  uint32_t counts[kRouteThreads];   // occurrences of the block's leaders
  uint32_t leaders[kRouteThreads];  // the same: position of the leader
  uint32_t ranks[kRouteThreads];    // the same: of the first occurrence

  // The thread that represents the key of this one. `hash` of that key.
  __device__ uint32_t leader_of(int64_t key, int table, uint64_t hash) {
    for (auto slot = static_cast<uint32_t>(hash >> 40) % kSlots;; slot = (slot + 1) % kSlots) {
      const uint32_t before = atomicCAS(&slots[slot], kFree, threadIdx.x);
      if (before == kFree) return threadIdx.x;
      if (keys[before] == key && tables[before] == table) return before;
    }
  }
};

// The position of the leader of a key in the whole batch.
__device__ uint32_t leader_of(const BatchRef& batch, const RouteRef& route, const Mine& mine,
                              uint64_t hash) {
  const uint32_t position = mine.position();
  const unsigned long long entry = static_cast<unsigned long long>(route.pass) << 32 | position;
  for (uint32_t at = static_cast<uint32_t>(hash) & route.map_mask;;
       at = (at + 1) & route.map_mask) {
    unsigned long long seen = __ldcg(&route.map[at]);
    if (static_cast<uint32_t>(seen >> 32) != route.pass) {
      const unsigned long long before = atomicCAS(&route.map[at], seen, entry);
      if (before == seen) return position;
      seen = before;
    }
    const auto other = static_cast<uint32_t>(seen);
    const FeatureRef& feature = batch.feature_of_position(other);
    if (feature.table == mine.table() && feature.keys[other - feature.first] == mine.key)
      return other;
  }
}

__device__ int owner_of(const OwnersRef& owners, int64_t key) {
  if (owners.rank_of_part == nullptr) return owners.self;
  return __ldg(owners.rank_of_part +
               (owners.is_static ? part_of_static_key(key) : part_of_hashed_key(key)));
}

// Numbers the new distinct keys of a block by (rank, table), with one atomic a pair where the block
// can count them.
__device__ void number_new(const BatchRef& batch, const RouteRef& route, const Mine& mine,
                           bool is_new) {
  __shared__ uint32_t counts[kMostBins], firsts[kMostBins];
  const int bins = route.ranks * batch.table_count;
  const bool in_block = bins <= kMostBins;
  for (int i = threadIdx.x; in_block && i < bins; i += kRouteThreads) counts[i] = 0;
  __syncthreads();
  int rank = 0, bin = 0;
  uint32_t number = 0;
  if (is_new) {
    rank = owner_of(route.owners[mine.table()], mine.key);
    bin = rank * batch.table_count + mine.table();
    number = atomicAdd(in_block ? &counts[bin] : &route.counts[bin], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; in_block && i < bins; i += kRouteThreads)
    if (counts[i] != 0) firsts[i] = atomicAdd(&route.counts[i], counts[i]);
  __syncthreads();
  if (is_new)
    route.holders[mine.position()] = {static_cast<uint32_t>(rank),
                                      number + (in_block ? firsts[bin] : 0)};
}

__global__ void __launch_bounds__(kRouteThreads)
    route_keys_kernel(const __grid_constant__ BatchRef batch, RouteRef route) {
  __shared__ BlockMap map;
  for (uint32_t i = threadIdx.x; i < kSlots; i += kRouteThreads) map.slots[i] = kFree;
  const Mine mine = mine_of(batch);
  bool valid = mine.there;
  if (valid) {
    const OwnersRef& owners = route.owners[mine.table()];
    valid =
        !owners.is_static || static_cast<uint64_t>(mine.key) < static_cast<uint64_t>(owners.rows);
    if (!valid) {
      TableErrors* errors = batch.tables[mine.table()].errors;
      atomicAdd(&errors->outside, 1ull);
      errors->outside_key = mine.key;
      batch.unique_ranks[mine.position()] = {kNoRow, 0};
    }
  }
  map.keys[threadIdx.x] = mine.key;
  map.tables[threadIdx.x] = valid ? mine.table() : -1;
  map.counts[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t hash = hash_of(mine.key, mine.table());
  uint32_t leader = 0, rank = 0;
  if (valid) {
    leader = route.dedup ? map.leader_of(mine.key, mine.table(), hash) : threadIdx.x;
    rank = atomicAdd(&map.counts[leader], 1u);
  }
  __syncthreads();
  bool is_new = false;
  if (valid && leader == threadIdx.x) {
    const uint32_t position = route.dedup ? leader_of(batch, route, mine, hash) : mine.position();
    is_new = position == mine.position();
    map.leaders[leader] = position;
    map.ranks[leader] = atomicAdd(&batch.counts[position], map.counts[leader]);
  }
  number_new(batch, route, mine, is_new);
  __syncthreads();
  if (!valid) return;
  batch.unique_ranks[mine.position()] = {map.leaders[leader], map.ranks[leader] + rank};
  if (mine.feature->counts != nullptr)
    atomicAdd(&route.sums[map.leaders[leader]],
              static_cast<uint32_t>(mine.feature->counts[mine.index]));
}

__global__ void __launch_bounds__(kRouteThreads)
    write_keys_kernel(const __grid_constant__ BatchRef batch, RouteRef route, WriteKeys to) {
  if (blockIdx.x == 0 && threadIdx.x < batch.classes)  // a leader's position is its number
    batch.counters->unique[threadIdx.x] = batch.class_count[threadIdx.x];
  if (batch.tiles == 0) return;
  const Mine mine = mine_of(batch);
  if (!mine.there) return;
  const uint32_t position = mine.position(), leader = batch.unique_ranks[position].x;
  if (leader == kNoRow) {
    batch.rows[position] = kNoRow;
    return;
  }
  const uint2 holder = route.holders[leader];
  const int table = mine.table();
  const ItemPlace item = to.items[holder.x * to.rank_stride + table];
  const uint32_t row = item.rows + holder.y * static_cast<uint32_t>(batch.tables[table].dim);
  batch.rows[position] = row;
  if (leader != position) return;
  batch.uniques[position] = {row, static_cast<uint32_t>(table)};
  to.keys[item.keys + holder.y] = mine.key;
  if (to.counts != nullptr && to.sends_counts[table])
    to.counts[item.counts + holder.y] = static_cast<int32_t>(
        mine.feature->counts != nullptr ? route.sums[position] : batch.counts[position]);
}

// Whether the row of a key that is there is missing.
__device__ bool is_missing(const BatchRef& batch, const RouteRef& route, const ItemPlace* items,
                           int64_t rank_stride, const uint8_t* flags, const uint8_t* can_miss,
                           const Mine& mine) {
  if (!can_miss[mine.table()]) return false;
  const uint2 holder = route.holders[batch.unique_ranks[mine.position()].x];
  return flags[items[holder.x * rank_stride + mine.table()].flags + holder.y] != 0;
}

__global__ void __launch_bounds__(kRouteThreads)
    spread_flags_kernel(const __grid_constant__ BatchRef batch, RouteRef route,
                        const ItemPlace* items, int64_t rank_stride, const uint8_t* flags,
                        const uint8_t* can_miss) {
  const Mine mine = mine_of(batch);
  if (!mine.there || mine.feature->absent == nullptr) return;
  mine.feature->absent[mine.index] =
      is_missing(batch, route, items, rank_stride, flags, can_miss, mine) ? 1 : 0;
}

__global__ void __launch_bounds__(kRouteThreads)
    count_missing_kernel(const __grid_constant__ BatchRef batch, RouteRef route,
                         const ItemPlace* items, int64_t rank_stride, const uint8_t* flags,
                         const uint8_t* can_miss) {
  const Mine mine = mine_of(batch);
  const bool missing =
      mine.there && is_missing(batch, route, items, rank_stride, flags, can_miss, mine);
  const uint32_t lanes = __ballot_sync(~0u, missing);  // lanes of one feature
  if (threadIdx.x % 32 == 0 && lanes != 0)
    atomicAdd(&batch.feature_counts[mine.feature->number].missing,
              static_cast<unsigned long long>(__popc(lanes)));
}

}  // namespace

void route_keys(const Context& context, const BatchRef& batch, const RouteRef& route) {
  if (batch.tiles == 0) return;
  route_keys_kernel<<<blocks_of(batch.tiles, kRouteWarps), kRouteThreads, 0, context.stream>>>(
      batch, route);
  cuda_check(cudaGetLastError(), "launching route_keys_kernel");
}

void write_keys(const Context& context, const BatchRef& batch, const RouteRef& route,
                const WriteKeys& to) {
  write_keys_kernel<<<std::max(1u, blocks_of(batch.tiles, kRouteWarps)), kRouteThreads, 0,
                      context.stream>>>(batch, route, to);
  cuda_check(cudaGetLastError(), "launching write_keys_kernel");
}

void spread_flags(const Context& context, const BatchRef& batch, const RouteRef& route,
                  const ItemPlace* items, int64_t rank_stride, const uint8_t* flags,
                  const uint8_t* can_miss) {
  if (batch.tiles == 0) return;
  spread_flags_kernel<<<blocks_of(batch.tiles, kRouteWarps), kRouteThreads, 0, context.stream>>>(
      batch, route, items, rank_stride, flags, can_miss);
  cuda_check(cudaGetLastError(), "launching spread_flags_kernel");
}

void count_missing(const Context& context, const BatchRef& batch, const RouteRef& route,
                   const ItemPlace* items, int64_t rank_stride, const uint8_t* flags,
                   const uint8_t* can_miss) {
  if (batch.tiles == 0) return;
  count_missing_kernel<<<blocks_of(batch.tiles, kRouteWarps), kRouteThreads, 0, context.stream>>>(
      batch, route, items, rank_stride, flags, can_miss);
  cuda_check(cudaGetLastError(), "launching count_missing_kernel");
}

}  // namespace emblem::cuda
