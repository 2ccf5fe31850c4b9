// embedding/cuda/lookup/fetch_uncached_rows.h - copies the rows that an evaluation did not find in
// the caches of its tables to device memory, each once.
#pragma once

#include "core/device/context.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

struct BatchRef;

// After a pass with GatherMode::kEvalCached has added them to batch.uncached: copies their weights
// to device memory, sorted by address, and from there to the outputs that need them. Rows that do
// not fit into that memory are read from host memory at every occurrence. The tables are not
// changed. One kernel, which returns at once when there is nothing to fetch. Host threads gather
// many rows where there is a staging buffer. Asynchronous.
void fetch_uncached_rows(const Context& context, const BatchRef& batch,
                         const StagingBufferRef& staging);

}  // namespace emblem::cuda
