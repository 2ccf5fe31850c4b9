// embedding/cuda/lookup/stage_rows.h - copies the rows of a training pass into the cache of their
// table, when the pass needs them or ahead of it.
#pragma once

#include <cstdint>

#include "core/device/context.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

struct BatchRef;

// Scratch in device memory, for one table at a time.
struct StageScratch {
  uint32_t *missing = nullptr, *sorted_missing = nullptr;  // [positions] rows that are not cached
  uint32_t *victims = nullptr, *sorted_victims = nullptr;  // [positions] slots for them
  char* write_back = nullptr;           // [write_back_capacity] changed rows of freed slots
  uint32_t* write_back_rows = nullptr;  // [write_back_capacity] their row numbers
  uint32_t write_back_capacity = 0;
  uint32_t* counters = nullptr;  // [kStageCounters]; zero before and after
  StagingBufferRef staging;      // room for at most write_back_capacity rows
};
inline constexpr int kStageCounters = 3 * 2048 + 2 * 4096 + 4;

// After marking and insertion, for a table with a cache: rows that are not cached get the slots
// that were used least recently, never those of this pass. Changed rows of these slots are written
// back meanwhile. One kernel, which returns at once when every row is cached. When there are too
// few slots, the remaining rows are used in host memory. With a staging buffer, host threads move
// many rows; write-backs may still be pending when the kernel has ended (wait_for_write_backs).
// Asynchronous.
void stage_rows(const Context& context, const BatchRef& batch, int table, int cls,
                const StageScratch& scratch);

// Ahead of the next training pass, while the current one may still be updating its rows: lists the
// rows that are not cached in batch.uncached, and protects the slots of the others. Uncached rows
// that the current pass uses are skipped, and so are tables that update all rows in every step.
// Asynchronous.
void list_prefetch_rows(const Context& context, const BatchRef& batch);
// Then, for each table with a cache: gives the listed rows slots that neither the current pass nor
// the next one uses. The caller sets batch.uncached.counters->rows to zero afterwards.
// Asynchronous.
void prefetch_rows(const Context& context, const BatchRef& batch, int table,
                   const StageScratch& scratch);

}  // namespace emblem::cuda
