#include "embedding/cuda/update/update_rows.cuh"

#include <algorithm>

#include "core/device/cuda_check.h"
#include "core/files/shared_memory.h"
#include "embedding/cuda/update/deterministic_sum.h"

namespace emblem::cuda {
namespace {

constexpr int kMostInTile = 64;  // occurrences
// Bytes of shared memory that are not of the ring, at most: tiles and tables.
constexpr size_t kOtherShared =
    kUpdateThreads / 4 * kMostInTile * sizeof(Occurrence) + kMostFeatures * sizeof(RowsOf);

// One instruction from compute capability 9.0 on.
__device__ void atomic_add(float* to, const Floats<4>& v) {
#if __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(to), float4{v.at[0], v.at[1], v.at[2], v.at[3]});
#else
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, v.at[i]);
#endif
}
__device__ void atomic_add(float* to, const Floats<1>& v) { atomicAdd(to, v.at[0]); }

// Adds a group's part of a row that spans several tiles. True for the group that arrives last: it
// gets the sum.
template <class S>
__device__ bool add_partial(const BatchRef& batch, const TileArguments& with, Segment segment,
                            int member, int dim, Share<S>& sum) {
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t tile = (segment.begin - class_first) / with.tile;
  const uint32_t spans = (segment.end - 1 - class_first) / with.tile - tile + 1;
  float* partial = with.partials + static_cast<int64_t>(tile) * S::kFloats;
  for_each_chunk<S>(member, dim, [&](int c, int d) { atomic_add(partial + d, sum.chunk[c]); });
  __threadfence();
  __syncwarp(group_mask<S>());
  uint32_t arrived = 0;
  if (member == 0) arrived = atomicAdd(&with.arrivals[tile], 1u);
  arrived = __shfl_sync(group_mask<S>(), arrived, 0, S::kLanes);
  if (arrived + 1 != spans) return false;
  __threadfence();
  if (member == 0) with.arrivals[tile] = 0;
  for_each_chunk<S>(member, dim, [&](int c, int d) {
#pragma unroll
    for (int v = 0; v < S::kVector; ++v) {
      sum.chunk[c].at[v] = __ldcg(partial + d + v);
      partial[d + v] = 0.0f;
    }
  });
  return true;
}

// A group's tile of occurrences, in shared memory, and which of them end a segment here.
struct Tile {
  const Occurrence* at;
  int count;
  bool continued;  // the first segment has occurrences in earlier tiles
  bool continues;  // the last one has some in later tiles

  __device__ bool ends(int i) const { return i + 1 == count || at[i + 1].unique != at[i].unique; }
  // Whether occurrence i ends a segment that is in this tile alone.
  __device__ bool ends_whole(int i) const {
    return ends(i) && !(continued && at[i].unique == at[0].unique) &&
           !(continues && i + 1 == count);
  }
};

// One tile of occurrences per group of lanes. Gradients, and the rows of occurrences that end a
// segment, are prefetched into shared memory several occurrences ahead.
template <class S, int kMostStages, class Finish>
__global__ void __launch_bounds__(kUpdateThreads)
    update_rows_kernel(const __grid_constant__ BatchRef batch, TileArguments with, Finish finish) {
  using Rows = Ring<S, typename Finish::R, kMostStages>;
  constexpr int kGroups = kUpdateThreads / S::kLanes;
  __shared__ Occurrence staged[kGroups][kMostInTile];
  extern __shared__ __align__(16) char dynamic[];
  auto* tables = reinterpret_cast<RowsOf*>(dynamic + Rows::kBytes);
  Rows ring(dynamic);
  for (int t = threadIdx.x; t < batch.table_count; t += kUpdateThreads)
    tables[t] = rows_of(batch.tables[t]);
  const int member = threadIdx.x % S::kLanes, group = threadIdx.x / S::kLanes;
  const uint32_t class_first = batch.class_first[with.cls];
  const uint32_t begin = class_first + (blockIdx.x * kGroups + group) * with.tile;
  // The end of forward has incremented the pass.
  const uint32_t all = batch.counters->occurrences[(batch.counters->pass + 1) & 1][with.cls];
  const int count =
      static_cast<int>(min(begin + with.tile, class_first + all)) - static_cast<int>(begin);
  __syncthreads();
  for (int i = member; i < count; i += S::kLanes) {
    Occurrence of = batch.occurrences[begin + i];
    of.row = tables[of.table()].locate(of.row);
    staged[group][i] = of;
  }
  __syncwarp();
  if (count <= 0) return;
  Tile tile{staged[group], count, false, false};
  tile.continued = batch.segments[tile.at[0].unique].begin < begin;
  tile.continues = batch.segments[tile.at[count - 1].unique].end > begin + count;
  const auto fetch = [&](int i) {
    if (i < count) {
      const Occurrence of = tile.at[i];
      const RowsOf& table = tables[of.table()];
      ring.fetch_gradient(i % Rows::kStages, table, with.gradients, of.source(), member);
      if (Rows::kRows && tile.ends_whole(i))
        ring.fetch_row(i % Rows::kStages, table, table.row_at(of.row), member);
    }
    __pipeline_commit();
  };
  for (int i = 0; i + 1 < Rows::kStages; ++i) fetch(i);
  Share<S> sum{};
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    fetch(i + Rows::kStages - 1);
    __pipeline_wait_prior(Rows::kStages - 1);
    const Occurrence of = tile.at[i];
    const RowsOf& table = tables[of.table()];
    const int stage = i % Rows::kStages;
    const float coefficient =
        batch.sorted_coefficients != nullptr ? batch.sorted_coefficients[begin + i] : 1.0f;
    for_each_chunk<S>(member, table.dim, [&](int c, int) {
      const Floats<S::kVector> gradient = ring.gradient(stage, c, with.gradients.dtype);
#pragma unroll
      for (int v = 0; v < S::kVector; ++v) sum.chunk[c].at[v] += coefficient * gradient.at[v];
    });
    if (!tile.ends(i)) continue;
    const bool whole = tile.ends_whole(i);
    if (whole || add_partial<S>(batch, with, batch.segments[of.unique], member, table.dim, sum)) {
      if constexpr (Rows::kRows) {
        char* row = table.row_at(of.row);
        if (!whole) {  // not prefetched
          ring.fetch_row(stage, table, row, member);
          __pipeline_commit();
          __pipeline_wait_prior(0);
        }
        auto share = ring.row(stage, table, member);
        finish(table, row, member, sum, share);
      } else {
        finish(table, table.row_at(of.row), member, sum, 0);
      }
    }
    sum = {};
  }
}

// Long rows with much optimizer state are not fetched ahead on GPUs with little shared memory.
template <class S, int kMostStages = 8, class Finish>
void launch_as_found(const Context& context, const BatchRef& batch, const UpdateRows& op,
                     Finish finish) {
  using Rows = Ring<S, typename Finish::R, kMostStages>;
  const size_t shared = Rows::kBytes + batch.table_count * sizeof(RowsOf);
  auto* kernel = update_rows_kernel<S, kMostStages, Finish>;
  const size_t room = allow_shared_memory(kernel);
  if constexpr (kMostStages > 1 && Rows::kBytes > kLeastSharedMemory - kOtherShared) {
    if (shared > room) return launch_as_found<S, 1>(context, batch, op, finish);
  }
  const uint32_t tile = update_tile(op.most), per_block = tile * (kUpdateThreads / S::kLanes);
  const TileArguments with{
      {op.gradients, op.gradient_type}, op.partials, op.arrivals, op.cls, tile};
  kernel<<<(op.most + per_block - 1) / per_block, kUpdateThreads, shared, context.stream>>>(
      batch, with, finish);
  cuda_check(cudaGetLastError(), "launching update_rows_kernel");
}

}  // namespace

void update_rows(const Context& context, const BatchRef& batch, const UpdateRows& op) {
  if (op.most == 0) return;
  if (op.in_order) return update_in_order(context, batch, op);
  with_apply(op, [&](auto as, const auto& apply) {
    launch_as_found<decltype(as)>(context, batch, op, apply);
  });
}

void add_squared_norm(const Context& context, const BatchRef& batch, const UpdateRows& op,
                      double* sum) {
  if (op.most == 0) return;
  if (op.in_order) return add_in_order(context, squares_in_order(context, batch, op), op.most, sum);
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    launch_as_found<S>(context, batch, op, AddSquare<S>{sum, nullptr});
  });
}

void store_sums(const Context& context, const BatchRef& batch, const UpdateRows& op) {
  if (op.most == 0) return;
  if (op.in_order) return store_sums_in_order(context, batch, op);
  with_shape(op.shape, [&](auto as) {
    using S = decltype(as);
    launch_as_found<S>(context, batch, op, StoreSum<S>{});
  });
}

// Small batches have smaller tiles, so that the whole GPU has work; large ones have larger tiles,
// because the beginning and the end of a tile wait for memory several times.
uint32_t update_tile(uint32_t occurrences) {
  if (occurrences <= 1 << 17) return 8;
  if (occurrences <= 1 << 18) return 16;
  return occurrences <= 1 << 20 ? 32 : kMostInTile;
}

int64_t partial_floats(RowShape shape) {
  int64_t floats = 0;
  with_shape(shape, [&](auto as) { floats = decltype(as)::kFloats; });
  return floats;
}

}  // namespace emblem::cuda
