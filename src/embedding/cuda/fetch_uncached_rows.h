// embedding/cuda/fetch_uncached_rows.h - brings the rows that an evaluation found outside the
// caches of its tables to device memory, each once.
#pragma once

#include "core/context.h"
#include "embedding/transfer/staging_buffer_ref.h"

namespace emblem::cuda {

struct BatchRef;

// After a pass with Pass::kEvalCached has noted them in batch.uncached: copies their weights to
// device memory in the order of their places in host memory, and from there to the outputs that
// wait for them. Rows for which there is no room there are read where they are, at every
// occurrence. The tables stay as they are. One kernel, which ends at once when there is nothing to
// fetch. Many rows are carried by the host_transfer, where there is a staging. Asynchronous.
void fetch_uncached_rows(const Context& context, const BatchRef& batch,
                         const StagingBufferRef& staging);

}  // namespace emblem::cuda
