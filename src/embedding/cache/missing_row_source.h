// embedding/cache/missing_row_source.h - fetches the rows that a lookup did not find in the cache
// and that the GPU cannot read itself. CUDA builds only.
#pragma once

#include <cstdint>
#include <span>

#include "core/device/context.h"

namespace emblem::cuda {

class CachedRows;

class MissingRowSource {
 public:
  virtual ~MissingRowSource() = default;

  // Called after every pass, with the lookups in each table, or with the rows of a batch that has
  // a key for each feature.
  virtual void count_lookups(const CachedRows& cached, std::span<const uint64_t> of_tables) = 0;
  virtual void count_lookups(const CachedRows& cached, int64_t rows) = 0;

  // After count_lookups of a pass with misses (CachedRows::report): copies the rows it can get to
  // the staged rows, on the context's stream. Returns whether any of them changed, so that the
  // batch must be computed again. Throws kUnavailable.
  virtual bool fetch(const Context& context, CachedRows& rows) = 0;
};

}  // namespace emblem::cuda
