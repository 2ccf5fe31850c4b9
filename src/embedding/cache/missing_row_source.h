// embedding/cache/missing_row_source.h - fetches the rows that a lookup did not find in the cache
// and that the GPU cannot read itself. CUDA builds only.
#pragma once

#include <cstdint>

#include "core/context.h"

namespace emblem::cuda {

class CachedRows;

class MissingRowSource {
 public:
  virtual ~MissingRowSource() = default;

  // Called after every pass over a batch of `rows` rows, for statistics.
  virtual void count_lookups(const CachedRows& cached, int64_t rows) = 0;

  // After a pass over `lookups` keys with misses (CachedRows::report): copies the rows it can get
  // to the staged rows, on the context's stream. Returns whether any of them changed, so that the
  // batch must be computed again. Throws kUnavailable.
  virtual bool fetch(const Context& context, CachedRows& rows, int64_t lookups) = 0;
};

}  // namespace emblem::cuda
