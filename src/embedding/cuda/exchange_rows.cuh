// embedding/cuda/exchange_rows.cuh - rows of a table leave the slots of its cache, and others come:
// a part of stage_rows.cu. Rows cross the bus by the GPU's own reads and writes, or by the
// host_transfer.
#pragma once

#include <cooperative_groups.h>

#include "embedding/cuda/by_address.cuh"
#include "embedding/cuda/stage_rows.h"
#include "embedding/cuda/transfer_ref.cuh"

namespace emblem::cuda {

inline constexpr int kExchangeThreads = 256;  // of a block

// A warp among those of the grid.
struct GridWarp {
  uint32_t count = gridDim.x * (kExchangeThreads / 32);
  uint32_t number = blockIdx.x * (kExchangeThreads / 32) + threadIdx.x / 32;
};

// The row that a slot must give back to host memory, or kNoRow.
__device__ inline uint32_t leaving_row(const DeviceTableRef& table, uint32_t slot) {
  const uint32_t row = table.cache.rows[slot];
  // A row that left the table may still have a slot: its values are nobody's.
  const bool owned = row != kNoRow && table.slots[row] == slot;
  return owned && table.cache.changed[slot] != 0 ? row : kNoRow;
}

// A row that has no values yet, neither in host memory nor in a slot.
__device__ inline bool is_new_row(const DeviceTableRef& table, uint32_t row) {
  return !table.is_static() && table.keys.meta[row].is_new != 0;
}

// Empties a slot into `kept`, by a whole warp. *leaving: the row to be given back, or kNoRow.
__device__ inline void empty_slot(const DeviceTableRef& table, uint32_t slot, char* kept,
                                  uint32_t* leaving) {
  const uint32_t row = leaving_row(table, slot), old = table.cache.rows[slot];
  if (row != kNoRow) copy_row(kept, table.rows + slot * table.stride, table.stride);
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  *leaving = row;
  if (old != kNoRow && table.slots[old] == slot) table.slots[old] = kNoRow;
}

// Brings a row into an empty slot for a pass that will change it; by a whole warp. copy(to) gets
// the values of one that is not new.
template <class Copy>
__device__ void fill_slot(const DeviceTableRef& table, uint32_t slot, uint32_t row,
                          uint32_t version, bool changed, Copy&& copy) {
  char* place = table.rows + slot * table.stride;
  const bool is_new = is_new_row(table, row);
  if (is_new)
    initialize_row(table, place, table.keys.meta[row].key);
  else
    copy(place);
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
  table.slots[row] = slot;
  table.cache.rows[slot] = row;
  table.cache.used[slot] = version;
  table.cache.changed[slot] = changed || is_new;
  if (is_new) table.keys.meta[row].is_new = 0;
}

// Slots of the victims [begin, end) are emptied into device memory, which is quick.
__device__ inline void empty_slots(const DeviceTableRef& table, const StageScratch& scratch,
                                   uint32_t begin, uint32_t end) {
  const GridWarp warp;
  for (uint32_t i = begin + warp.number; i < end; i += warp.count)
    empty_slot(table, scratch.sorted_victims[i], scratch.kept + (i - begin) * table.stride,
               &scratch.leaving[i - begin]);
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

// By the GPU alone: rows come and leave at the same time, half of the warps each. Whole grid.
__device__ inline void exchange_directly(const DeviceTableRef& table, const StageScratch& scratch,
                                         uint32_t count, uint32_t version, bool changed,
                                         cooperative_groups::grid_group grid) {
  const GridWarp warp;
  for (uint32_t begin = 0; begin < count; begin += scratch.kept_rows) {
    const uint32_t end = min(count, begin + scratch.kept_rows);
    empty_slots(table, scratch, begin, end);
    grid.sync();
    const uint32_t worker = warp.number / 2, workers = warp.count / 2;
    if (warp.number % 2 == 0)
      fill_directly(table, scratch, begin, end, version, changed, worker, workers);
    for (uint32_t i = worker; warp.number % 2 == 1 && i < end - begin; i += workers) {
      const uint32_t row = scratch.leaving[i];
      if (row != kNoRow)
        copy_row(table.host_rows + row * table.stride, scratch.kept + i * table.stride,
                 table.stride);
    }
    grid.sync();
  }
}

// Warp `filler` of `fillers`: fills slots of the victims [begin, end), piece by piece as the rows
// come with requests from `first` on.
__device__ inline void fill_from_staging(const DeviceTableRef& table, const StageScratch& scratch,
                                         uint32_t begin, uint32_t end, unsigned long long first,
                                         uint32_t version, bool changed, uint32_t filler,
                                         uint32_t fillers) {
  const StagingBufferRef& staging = scratch.staging;
  uint32_t there = 0;  // pieces
  for (uint32_t i = begin + filler; i < end; i += fillers) {
    const uint32_t pieces = (i - begin) / staging.piece_rows + 1;
    if (pieces > there) wait_for_host(staging, first + pieces);
    there = pieces;
    fill_slot(table, scratch.sorted_victims[i], scratch.sorted_missing[i], version, changed,
              [&](char* to) {
                copy_from_staging(to, staging.memory.in + (i - begin) * table.stride, table.stride);
              });
  }
}

// Warp `writer` of `writers`: hands `count` rows that left their slots to the host_transfer.
__device__ inline void send_through_staging(const DeviceTableRef& table,
                                            const StageScratch& scratch, uint32_t count,
                                            uint32_t writer, uint32_t writers) {
  const StagingBufferRef& staging = scratch.staging;
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t first = writer * kRowsWrittenAtOnce; first < count;
       first += writers * kRowsWrittenAtOnce) {
    const uint32_t rows = min(kRowsWrittenAtOnce, count - first);
    for (uint32_t i = first; i < first + rows; ++i) {
      if (scratch.leaving[i] != kNoRow)
        copy_row(staging.memory.out + i * table.stride, scratch.kept + i * table.stride,
                 table.stride);
    }
    if (lane < rows) {
      const uint32_t row = scratch.leaving[first + lane];
      staging.memory.out_to[first + lane] =
          row != kNoRow ? listed_row(table.host_rows + row * table.stride, table.stride) : 0;
    }
    send_to_host(staging, table, first, rows, count);
  }
}

// Asks the host_transfer for its share of as many of sorted_missing from `begin` on as the staging
// holds; the table has no scatters under way. Returns the number of the first request. Whole grid.
__device__ inline unsigned long long ask_for_missing(const DeviceTableRef& table,
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
    staging.memory.in_from[i - begin] =
        is_new_row(table, row) ? 0 : listed_row(table.host_rows + row * table.stride, table.stride);
  }
  __threadfence_system();
  grid.sync();
  if (warp.number == 0) ask_for_rows(staging, first, end - begin, table.stride);
  return first;
}

// By the host_transfer: rows come as it brings them, and leave while they do; the GPU reads some of
// them itself. The first have been asked for, in requests from `first` on. Whole grid.
__device__ inline void exchange_by_transfer(const DeviceTableRef& table,
                                            const StageScratch& scratch, uint32_t count,
                                            uint32_t version, bool changed,
                                            unsigned long long first,
                                            cooperative_groups::grid_group grid) {
  const StagingBufferRef& staging = scratch.staging;
  const GridWarp warp;
  for (uint32_t begin = 0; begin < count; begin += staging.rows) {
    const uint32_t end = min(count, begin + staging.rows);
    const uint32_t carried = transferred_rows(staging, end - begin);
    if (begin > 0) first = ask_for_missing(table, scratch, begin, count, grid);
    empty_slots(table, scratch, begin, end);
    grid.sync();
    const uint32_t quarter = warp.number / 4, quarters = warp.count / 4;
    if (warp.number == 0) {
      watch_host(staging, first + pieces_of(staging, carried));
    } else if (warp.number % 4 == 0) {
      fill_from_staging(table, scratch, begin, begin + carried, first, version, changed,
                        quarter - 1, quarters - 1);
    } else if (warp.number % 4 == 2) {
      fill_directly(table, scratch, begin + carried, end, version, changed, quarter, quarters);
    } else {
      wait_for_host(staging, first);  // the last rows have left `out`
      send_through_staging(table, scratch, end - begin, warp.number / 2, warp.count / 2);
    }
    grid.sync();
  }
}

// Whether the host_transfer uses_transfer that many rows. Where all rows change in every step, many
// do so in host memory, at any time: there it cannot.
__device__ inline bool is_transferred(const DeviceTableRef& table, const StageScratch& scratch,
                                      uint32_t rows) {
  return uses_transfer(scratch.staging, rows) && !table.updates_all_rows;
}

}  // namespace emblem::cuda
