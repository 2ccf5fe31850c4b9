// embedding/cuda/stage_rows.h - brings the rows of a training pass into the cache of their table,
// when it needs them or before.
#pragma once

#include <cstdint>

#include "core/context.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

struct BatchRef;

// Scratch in device memory, for one table at a time.
struct StageScratch {
  uint32_t *missing = nullptr, *sorted_missing = nullptr;  // [positions] rows that are not there
  uint32_t *victims = nullptr, *sorted_victims = nullptr;  // [positions] slots that they get
  char* kept = nullptr;         // [kept_rows] rows on their way back to host memory
  uint32_t* leaving = nullptr;  // [kept_rows] which they are
  uint32_t kept_rows = 0;
  uint32_t* counters = nullptr;  // [kStageCounters]; zero before and after
  StagingBufferRef staging;      // of no more rows than kept_rows
};
inline constexpr int kStageCounters = 3 * 2048 + 2 * 4096 + 4;

// After marks and insertions, for a table with a cache: rows outside it take the slots that were
// used least recently, never those of this pass. Changed rows go back to host memory while others
// come. One kernel, which ends at once when every row is there. Should there be too few slots, rows
// stay in host memory, where kernels reach them too. With a staging, many rows are carried by the
// host_transfer; those that leave may still be on their way when the kernel has ended
// (wait_for_scatters). Asynchronous.
void stage_rows(const Context& context, const BatchRef& batch, int table, int cls,
                const StageScratch& scratch);

// For a training pass that is still to come, while the last one may still be updating its rows:
// notes the rows outside caches in batch.uncached, and keeps the others where they are for that
// pass. Rows that the last pass touched stay where they are; tables all of whose rows change in
// every step are left out. Asynchronous.
void note_coming_rows(const Context& context, const BatchRef& batch);
// Then, for each table with a cache: the rows noted take slots that neither the last pass nor the
// coming one uses. Afterwards batch.uncached.counters->rows is to be set to zero. Asynchronous.
void stage_coming_rows(const Context& context, const BatchRef& batch, int table,
                       const StageScratch& scratch);

}  // namespace emblem::cuda
