// embedding/cache/missing_row_source.h - who brings the rows that a lookup did not find in the
// cache, where the GPU cannot read them itself. CUDA builds only.
#pragma once

#include <cstdint>

#include "core/context.h"

namespace emblem::cuda {

class CachedRows;

class MissingRows {
 public:
  virtual ~MissingRows() = default;

  // After every pass, over a batch of `rows` rows: for counts.
  virtual void looked_up(const CachedRows& cached, int64_t rows) = 0;

  // After a pass over `lookups` keys with misses (CachedRows::report): copies what is to be had to
  // the staged rows, on the context's stream. Returns whether any of them changed, so that the
  // batch must be computed again. Throws kUnavailable.
  virtual bool bring(const Context& context, CachedRows& rows, int64_t lookups) = 0;
};

}  // namespace emblem::cuda
