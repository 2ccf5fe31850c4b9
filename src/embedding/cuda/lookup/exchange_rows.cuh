// embedding/cuda/lookup/exchange_rows.cuh - replaces rows in the slots of a cache by others: a part
// of stage_rows.cu. Rows cross the bus by reads and writes of the GPU itself, or through a staging
// buffer that host threads fill and empty.
#pragma once

#include <cooperative_groups.h>

#include "embedding/cuda/lookup/by_address.cuh"
#include "embedding/cuda/lookup/stage_rows.h"
#include "embedding/cuda/lookup/transfer_ref.cuh"

namespace emblem::cuda {

inline constexpr int kExchangeThreads = 256;  // threads of a block

// A warp among those of the grid.
struct GridWarp {
  uint32_t count = gridDim.x * (kExchangeThreads / 32);
  uint32_t number = blockIdx.x * (kExchangeThreads / 32) + threadIdx.x / 32;
};

// The changed row of a slot, which must be written back to host memory, or kNoRow.
__device__ inline uint32_t row_to_write_back(const DeviceTableRef& table, uint32_t slot) {
  const uint32_t row = table.cache.rows[slot];
  // A row that was evicted from the table may still have a slot; its values are not needed.
  const bool owned = row != kNoRow && table.slots[row] == slot;
  return owned && table.cache.changed[slot] != 0 ? row : kNoRow;
}

// A row that has no values yet, neither in host memory nor in a slot.
__device__ inline bool is_new_row(const DeviceTableRef& table, uint32_t row) {
  return !table.is_static() && table.keys.meta[row].is_new != 0;
}

// Copies the row of a slot to `write_back` if it was changed, and frees the slot; *row_number: that
// row, or kNoRow. Whole warp.
__device__ inline void empty_slot(const DeviceTableRef& table, uint32_t slot, char* write_back,
                                  uint32_t* row_number) {
  const uint32_t row = row_to_write_back(table, slot), old = table.cache.rows[slot];
  if (row != kNoRow) copy_row(write_back, table.rows + slot * table.stride, table.stride);
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  *row_number = row;
  if (old != kNoRow && table.slots[old] == slot) table.slots[old] = kNoRow;
}

// Fills a free slot with a row. Whole warp. copy(to) copies the values of a row that is not new.
template <class Copy>
__device__ void fill_slot(const DeviceTableRef& table, uint32_t slot, uint32_t row,
                          uint32_t version, bool changed, Copy&& copy) {
  char* to = table.rows + slot * table.stride;
  const bool is_new = is_new_row(table, row);
  if (is_new)
    initialize_row(table, to, table.keys.meta[row].key);
  else
    copy(to);
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  table.slots[row] = slot;
  table.cache.rows[slot] = row;
  table.cache.used[slot] = version;
  table.cache.changed[slot] = changed || is_new;
  if (is_new) table.keys.meta[row].is_new = 0;
}

// Frees the slots of the victims [begin, end): their changed rows are first copied within device
// memory, which is fast.
__device__ inline void empty_slots(const DeviceTableRef& table, const StageScratch& scratch,
                                   uint32_t begin, uint32_t end) {
  const GridWarp warp;
  for (uint32_t i = begin + warp.number; i < end; i += warp.count)
    empty_slot(table, scratch.sorted_victims[i], scratch.write_back + (i - begin) * table.stride,
               &scratch.write_back_rows[i - begin]);
}

// Warp `filler` of `fillers`: fills slots of the victims [begin, end) from host memory.
__device__ inline void fill_directly(const DeviceTableRef& table, const StageScratch& scratch,
                                     uint32_t begin, uint32_t end, uint32_t version, bool changed,
                                     uint32_t filler, uint32_t fillers) {
  for (uint32_t i = begin + filler; i < end; i += fillers) {
    const uint32_t row = scratch.sorted_missing[i];
    fill_slot(table, scratch.sorted_victims[i], row, version, changed,
              [&](char* to) { copy_row(to, table.host_rows + row * table.stride, table.stride); });
  }
}

// The GPU itself exchanges: half of the warps fetch rows, the others write rows back. Whole
// grid.
__device__ inline void exchange_directly(const DeviceTableRef& table, const StageScratch& scratch,
                                         uint32_t count, uint32_t version, bool changed,
                                         cooperative_groups::grid_group grid) {
  const GridWarp warp;
  for (uint32_t begin = 0; begin < count; begin += scratch.write_back_capacity) {
    const uint32_t end = min(count, begin + scratch.write_back_capacity);
    empty_slots(table, scratch, begin, end);
    grid.sync();
    const uint32_t worker = warp.number / 2, workers = warp.count / 2;
    if (warp.number % 2 == 0)
      fill_directly(table, scratch, begin, end, version, changed, worker, workers);
    for (uint32_t i = worker; warp.number % 2 == 1 && i < end - begin; i += workers) {
      const uint32_t row = scratch.write_back_rows[i];
      if (row != kNoRow)
        copy_row(table.host_rows + row * table.stride, scratch.write_back + i * table.stride,
                 table.stride);
    }
    grid.sync();
  }
}

// Warp `filler` of `fillers`: fills slots of the victims [begin, end) from the staging buffer,
// piece by piece as the requests from `first` on are served.
__device__ inline void fill_from_staging(const DeviceTableRef& table, const StageScratch& scratch,
                                         uint32_t begin, uint32_t end, unsigned long long first,
                                         uint32_t version, bool changed, uint32_t filler,
                                         uint32_t fillers) {
  const StagingBufferRef& staging = scratch.staging;
  uint32_t available = 0;  // pieces
  for (uint32_t i = begin + filler; i < end; i += fillers) {
    const uint32_t pieces = (i - begin) / staging.piece_rows + 1;
    if (pieces > available) wait_for_host(staging, first + pieces);
    available = pieces;
    fill_slot(table, scratch.sorted_victims[i], scratch.sorted_missing[i], version, changed,
              [&](char* to) {
                copy_from_staging(to, staging.memory.in + (i - begin) * table.stride, table.stride);
              });
  }
}

// Warp `writer` of `writers`: writes `count` rows back through the staging buffer.
__device__ inline void send_through_staging(const DeviceTableRef& table,
                                            const StageScratch& scratch, uint32_t count,
                                            uint32_t writer, uint32_t writers) {
  const StagingBufferRef& staging = scratch.staging;
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t first = writer * kRowsPerWrite; first < count; first += writers * kRowsPerWrite) {
    const uint32_t rows = min(kRowsPerWrite, count - first);
    for (uint32_t i = first; i < first + rows; ++i) {
      if (scratch.write_back_rows[i] != kNoRow)
        copy_row(staging.memory.out + i * table.stride, scratch.write_back + i * table.stride,
                 table.stride);
    }
    if (lane < rows) {
      const uint32_t row = scratch.write_back_rows[first + lane];
      staging.memory.out_rows[first + lane] =
          row != kNoRow ? packed_row(table.host_rows + row * table.stride, table.stride) : 0;
    }
    send_to_host(staging, table, first, rows, count);
  }
}

// Requests the host threads' share of sorted_missing from `begin` on, as many as the staging buffer
// holds. The table has no pending scatters. Returns the number of the first request. Whole grid.
__device__ inline unsigned long long request_missing(const DeviceTableRef& table,
                                                     const StageScratch& scratch, uint32_t begin,
                                                     uint32_t count,
                                                     cooperative_groups::grid_group grid) {
  const StagingBufferRef& staging = scratch.staging;
  const GridWarp warp;
  const uint32_t end = begin + transferred_rows(staging, min(count - begin, staging.rows));
  const unsigned long long first = next_request(staging);
  for (uint32_t i = begin + static_cast<uint32_t>(grid.thread_rank()); i < end;
       i += warp.count * 32) {
    const uint32_t row = scratch.sorted_missing[i];
    staging.memory.in_rows[i - begin] =
        is_new_row(table, row) ? 0 : packed_row(table.host_rows + row * table.stride, table.stride);
  }
  __threadfence_system();
  grid.sync();
  if (warp.number == 0) request_rows(staging, first, end - begin, table.stride);
  return first;
}

// Through the staging buffer: some warps fill slots with rows that arrive there, some read others
// from host memory themselves, and the rest write rows back. The first rows have been requested,
// with requests from `first` on. Whole grid.
__device__ inline void exchange_by_transfer(const DeviceTableRef& table,
                                            const StageScratch& scratch, uint32_t count,
                                            uint32_t version, bool changed,
                                            unsigned long long first,
                                            cooperative_groups::grid_group grid) {
  const StagingBufferRef& staging = scratch.staging;
  const GridWarp warp;
  for (uint32_t begin = 0; begin < count; begin += staging.rows) {
    const uint32_t end = min(count, begin + staging.rows);
    const uint32_t transferred = transferred_rows(staging, end - begin);
    if (begin > 0) first = request_missing(table, scratch, begin, count, grid);
    empty_slots(table, scratch, begin, end);
    grid.sync();
    const uint32_t quarter = warp.number / 4, quarters = warp.count / 4;
    if (warp.number == 0) {
      poll_host(staging, first + pieces_of(staging, transferred));
    } else if (warp.number % 4 == 0) {
      fill_from_staging(table, scratch, begin, begin + transferred, first, version, changed,
                        quarter - 1, quarters - 1);
    } else if (warp.number % 4 == 2) {
      fill_directly(table, scratch, begin + transferred, end, version, changed, quarter, quarters);
    } else {
      wait_for_host(staging, first);  // `out` is free: the previous rows have been scattered
      send_through_staging(table, scratch, end - begin, warp.number / 2, warp.count / 2);
    }
    grid.sync();
  }
}

// Whether host threads help with that many rows of the table. They cannot where a step updates all
// rows, many of them in host memory, at any time.
__device__ inline bool is_transferred(const DeviceTableRef& table, const StageScratch& scratch,
                                      uint32_t rows) {
  return uses_transfer(scratch.staging, rows) && !table.updates_all_rows;
}

}  // namespace emblem::cuda
