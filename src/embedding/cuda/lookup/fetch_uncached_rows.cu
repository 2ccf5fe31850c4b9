#include "embedding/cuda/lookup/fetch_uncached_rows.h"

#include <cooperative_groups.h>

#include <algorithm>

#include "core/device/cuda_check.h"
#include "embedding/cuda/lookup/device_batch.cuh"
#include "embedding/cuda/lookup/transfer_ref.cuh"
#include "embedding/cuda/table/occupancy.h"
#include "embedding/cuda/table/row_vector.cuh"

namespace emblem::cuda {
namespace {

namespace cg = cooperative_groups;

constexpr int kFetchThreads = 256;
constexpr int kFetchWarps = kFetchThreads / 32;
// Few warps saturate the bus, and their rows are close together in memory.
constexpr uint32_t kFetchingWarps = 512;

// Removes a distinct row from the map: its weights are row i of `staged`, or remain in host memory.
__device__ void finish_entry(const UncachedRows& uncached, uint32_t entry, uint32_t row,
                             uint32_t i) {
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  uncached.index[entry] = i < uncached.staged_rows ? i : UncachedRows::kInHostMemory | row;
  uncached.map[entry] = 0;
}

// Warp `fetcher` of `fetchers`: copies the weights of distinct rows [begin, end).
__device__ void fetch(const BatchRef& batch, uint32_t begin, uint32_t end, uint32_t fetcher,
                      uint32_t fetchers) {
  const UncachedRows& uncached = batch.uncached;
  for (uint32_t i = begin + fetcher; i < end; i += fetchers) {
    const uint32_t entry = uncached.sorted[i];
    const unsigned long long value = uncached.map[entry];
    const DeviceTableRef& table = batch.tables[UncachedRows::table_of(value)];
    const uint32_t row = UncachedRows::row_of(value);
    if (i < uncached.staged_rows)
      copy_row(uncached.staged + i * uncached.staged_stride, table.host_rows + row * table.stride,
               table.state_offset);
    finish_entry(uncached, entry, row, i);
  }
}

// The same for the first `count` rows, which host threads gather into the staging buffer with the
// requests from `first` on.
__device__ void fetch_from_staging(const BatchRef& batch, const StagingBufferRef& staging,
                                   uint32_t count, unsigned long long first, uint32_t fetcher,
                                   uint32_t fetchers) {
  const UncachedRows& uncached = batch.uncached;
  uint32_t available = 0;  // pieces
  for (uint32_t i = fetcher; i < count; i += fetchers) {
    const uint32_t pieces = i / staging.piece_rows + 1;
    if (pieces > available) wait_for_host(staging, first + pieces);
    available = pieces;
    const uint32_t entry = uncached.sorted[i];
    const unsigned long long value = uncached.map[entry];
    const DeviceTableRef& table = batch.tables[UncachedRows::table_of(value)];
    copy_from_staging(uncached.staged + i * uncached.staged_stride,
                      staging.memory.in + i * uncached.staged_stride, table.state_offset);
    finish_entry(uncached, entry, UncachedRows::row_of(value), i);
  }
}

// All distinct rows, the first `count` of them through the staging buffer. Whole grid.
__device__ void fetch_by_transfer(const BatchRef& batch, const StagingBufferRef& staging,
                                  uint32_t count, uint32_t warps, cg::grid_group grid) {
  const UncachedRows& uncached = batch.uncached;
  const unsigned long long first = next_request(staging);
  for (auto i = static_cast<uint32_t>(grid.thread_rank()); i < count; i += warps * 32) {
    const unsigned long long value = uncached.map[uncached.sorted[i]];
    const DeviceTableRef& table = batch.tables[UncachedRows::table_of(value)];
    staging.memory.in_rows[i] = packed_row(
        table.host_rows + UncachedRows::row_of(value) * table.stride, table.state_offset);
  }
  __threadfence_system();
  grid.sync();
  const uint32_t fetching = min(kFetchingWarps, (warps - 1) / 2);
  const uint32_t warp = blockIdx.x * kFetchWarps + threadIdx.x / 32;
  if (warp == 0) {
    request_rows(staging, first, count, uncached.staged_stride);
    poll_host(staging, first + pieces_of(staging, count));
  } else if (warp <= fetching) {
    fetch_from_staging(batch, staging, count, first, warp - 1, fetching);
  } else if (warp <= 2 * fetching) {
    fetch(batch, count, uncached.counters->rows, warp - 1 - fetching, fetching);
  }
}

template <int kVector, class W>
__device__ void put_row(const OutRef& out, const char* from, int dim) {
  const auto* weights = reinterpret_cast<const W*>(from);
  for (int d = threadIdx.x % 32 * kVector; d < dim; d += 32 * kVector)
    out.put<kVector>(d, load_floats<kVector>(weights + d));
}

template <class W>
__device__ void put_row(const OutRef& out, const char* from, int dim, bool in_fours) {
  if (in_fours)
    put_row<4, W>(out, from, dim);
  else
    put_row<1, W>(out, from, dim);
}

// A warp an occurrence.
__device__ void put_occurrences(const BatchRef& batch, uint32_t count, uint32_t warps) {
  for (uint32_t i = blockIdx.x * kFetchWarps + threadIdx.x / 32; i < count; i += warps) {
    const uint2 occurrence = batch.uncached.occurrences[i];
    const FeatureRef& feature = batch.feature_of_position(occurrence.x);
    const DeviceTableRef& table = batch.tables[feature.table];
    const char* from = batch.uncached.fetched(table, occurrence.y);
    const int64_t begin = batch.out_place_of(feature, occurrence.x - feature.first);
    const OutRef out = batch.out.from(begin);
    const bool in_fours = (table.dim | begin) % 4 == 0;
    if (table.dtype == DType::kF32)
      put_row<float>(out, from, table.dim, in_fours);
    else if (table.dtype == DType::kF16)
      put_row<F16>(out, from, table.dim, in_fours);
    else
      put_row<Bf16>(out, from, table.dim, in_fours);
  }
}

__global__ void __launch_bounds__(kFetchThreads)
    fetch_uncached_rows_kernel(const __grid_constant__ BatchRef batch, StagingBufferRef staging) {
  const UncachedRows& uncached = batch.uncached;
  const uint32_t rows = uncached.counters->rows, occurrences = uncached.counters->occurrences;
  if (rows == 0) return;
  const cg::grid_group grid = cg::this_grid();
  if (grid.thread_rank() == 0 && uses_transfer(staging, rows)) wake_host(staging);
  if (blockIdx.x == 0) {
    for (int t = threadIdx.x; t < batch.table_count; t += kFetchThreads)
      wait_for_write_backs(batch.tables[t]);
  }
  // Each table has an equal share of the bins.
  const auto bin_of = [&](uint32_t entry) {
    const unsigned long long value = uncached.map[entry];
    const uint32_t number = UncachedRows::table_of(value);
    const DeviceTableRef& table = batch.tables[number];
    const int64_t all = table.is_static() ? table.capacity : table.keys.rows;
    return (number * kAddressBins + address_bin(UncachedRows::row_of(value), all)) /
           batch.table_count;
  };
  sort_by_address<kFetchThreads>(uncached.entries, rows, uncached.sorted, uncached.counters->bins,
                                 grid, bin_of);
  grid.sync();
  const uint32_t warps = gridDim.x * kFetchWarps;
  const uint32_t warp = blockIdx.x * kFetchWarps + threadIdx.x / 32;
  const uint32_t fetching = min(kFetchingWarps, warps);
  if (uses_transfer(staging, rows))
    fetch_by_transfer(batch, staging,
                      min(transferred_rows(staging, rows), min(staging.rows, uncached.staged_rows)),
                      warps, grid);
  else if (warp < fetching)
    fetch(batch, 0, rows, warp, fetching);
  grid.sync();
  for (uint32_t i = grid.thread_rank(); i < kAddressBins; i += warps * 32)
    uncached.counters->bins[i] = 0;
  if (grid.thread_rank() == 0) uncached.counters->rows = uncached.counters->occurrences = 0;
  put_occurrences(batch, occurrences, warps);
}

}  // namespace

void fetch_uncached_rows(const Context& context, const BatchRef& batch,
                         const StagingBufferRef& staging) {
  const auto* kernel = reinterpret_cast<const void*>(fetch_uncached_rows_kernel);
  void* arguments[] = {const_cast<BatchRef*>(&batch), const_cast<StagingBufferRef*>(&staging)};
  const int blocks = std::max(1, resident_blocks(kernel, kFetchThreads) / 2);
  cuda_check(
      cudaLaunchCooperativeKernel(kernel, blocks, kFetchThreads, arguments, 0, context.stream),
      "launching fetch_uncached_rows_kernel");
}

}  // namespace emblem::cuda
